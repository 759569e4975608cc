"""`rwf bench --input` prints rates; which, and of what, is held, how high they are is not."""

from __future__ import annotations

import io
import json

import pytest
import torch
from PIL import Image

from rwf.cli import main
from rwf.run import input_rates


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_rates, "BATCH", 2)
    monkeypatch.setattr(input_rates, "STORED", ((40, 30, "PNG"), (80, 60, "JPEG")))


def test_a_row_for_each_kind_of_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--input", "--json", "--rounds", "1"]) == 0
    small, large = json.loads(capsys.readouterr().out)
    assert (small["stored"], large["stored"]) == ("40 x 30 PNG", "80 x 60 JPEG")
    assert small["again"] == small["train_view"], "small pictures are kept decoded"
    assert large["again"] == large["first"]
    for row in (small, large):
        assert row["gain"] == row["again"] / row["pillow"]
        assert min(value for value in row.values() if value != row["stored"]) > 0


def test_the_table_for_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    assert main(["bench", "--input", "--rounds", "1"]) == 0
    assert torch.get_num_threads() == threads
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [9] * 4


def test_no_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--input", "--rounds", "0"]) == 2
    assert "--rounds is 0" in capsys.readouterr().err


def test_both_ways_make_the_same_kind_of_view() -> None:
    data = input_rates.picture_bytes(80, 60, "JPEG")
    assert Image.open(io.BytesIO(data)).size == (80, 60)
    ours, theirs = (input_rates.ways(data)[name]() for name in ("first", "pillow"))
    assert isinstance(ours, torch.Tensor)
    assert isinstance(theirs, torch.Tensor)
    assert ours.shape == theirs.shape == (2, 3, 224, 224)
    assert ours.dtype == theirs.dtype == torch.float32
