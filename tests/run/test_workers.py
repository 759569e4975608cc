"""A run with worker processes ends with the bits of a run without, also when it was broken off."""

from __future__ import annotations

from typing import Any

import pytest

from rwf.errors import UserError
from rwf.run.record import Record
from rwf.run.start import resume, start
from tests.run.test_run import contents


@pytest.mark.parametrize("method", ["rwf", "er"])
def test_a_run_is_the_same_with_workers(quick, tmp_path, method) -> None:
    for workers in (0, 2):
        start(method, {}, quick(out=tmp_path / f"{workers}", workers=workers, checkpoint_every=1e9))
    assert contents(tmp_path / "0") == contents(tmp_path / "2")


def test_broken_off_with_workers_it_goes_on(quick, tmp_path, monkeypatch) -> None:
    start("linear_probe", {}, quick(out=tmp_path / "whole"))
    after = Record.after

    def breaks(self: Record, *args: Any) -> None:
        after(self, *args)
        if self.progress.step == 4:
            raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Record, "after", breaks)
        with pytest.raises(InterruptedError):
            start("linear_probe", {}, quick(out=tmp_path / "broken", workers=1))
    resume(tmp_path / "broken")
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


def test_fewer_than_no_workers_are_refused(quick) -> None:
    with pytest.raises(UserError, match="workers"):
        quick(workers=-1)
