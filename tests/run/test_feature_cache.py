"""What a frozen network says is computed once for all methods of a stream, and nothing else changes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rwf.errors import UserError
from rwf.run.start import resume, start
from rwf.run.world import open_shards
from tests.run.test_run import contents


@pytest.fixture
def calm(quick):
    """Options of a quick run that is saved at its end only."""
    return partial(quick, checkpoint_every=1e9)


METHODS = "linear_probe l2p coda_prompt dual_prompt aper_adapter ncm slda".split()


def forwards(folder: Path) -> tuple[int, int]:
    """Pictures a run asked the backbone about, and those that it had to compute."""
    result = json.loads((folder / "result.json").read_text())
    return result["forwards"]["total"], result["timing"]["forwards_computed"]


def test_a_set_of_methods_needs_three_fifths_of_the_forwards_and_says_the_same(calm, tmp_path) -> None:
    asked, without, computed = 0, 0, 0
    for method in METHODS:
        plain = calm(out=tmp_path / f"plain-{method}", feature_cache="off", anytime=0)
        start(method, {}, plain)
        kept = calm(out=tmp_path / f"kept-{method}", feature_cache=str(tmp_path / "features"), anytime=0)
        start(method, {}, kept)
        assert contents(plain.out) == contents(kept.out)
        asked += forwards(plain.out)[0]
        without += forwards(plain.out)[1]
        computed += forwards(kept.out)[1]
    assert computed <= 0.6 * without
    assert computed <= 0.45 * asked, "most of what a frozen network is asked in evaluations, it was asked before"


def test_a_run_asks_about_a_test_view_once_even_without_a_cache(calm, tmp_path) -> None:
    result = start("ncm", {}, calm(anytime=3))
    test_pictures, asked = 40, result["forwards"]
    assert asked["evaluations"] == 8 + 16 + 24 + 32 + 40
    assert result["timing"]["forwards_computed"] == asked["learning"] + test_pictures


@pytest.mark.parametrize(("method", "own"), [("ease", {}), ("ranpac", {"random_features": 50})])
def test_warm_and_cold_are_equal(calm, tmp_path, method, own) -> None:
    folder = str(tmp_path / "features")
    for name in ("cold", "warm"):
        start(method, own, calm(out=tmp_path / name, feature_cache=folder))
    assert contents(tmp_path / "cold") == contents(tmp_path / "warm")
    asked, computed = forwards(tmp_path / "warm")
    assert computed == 0 if method == "ranpac" else computed < 0.6 * asked


def test_test_views_are_shared_by_all_seeds(calm, tmp_path) -> None:
    folder = str(tmp_path / "features")
    for seed in (0, 1):
        options = calm(out=tmp_path / f"{seed}", seed=seed, class_order="shuffled", feature_cache=folder)
        result = start("ncm", {}, options)
    assert result["timing"]["forwards_computed"] == result["forwards"]["learning"]


def test_a_trained_network_is_asked_anew(calm, tmp_path) -> None:
    folder = tmp_path / "features"
    for name in ("a", "b"):
        result: dict[str, Any] = start("finetune", {}, calm(out=tmp_path / name, feature_cache=str(folder)))
    assert result["timing"]["forwards_computed"] == result["forwards"]["total"]
    assert result["forwards"]["of_frozen_network"] == 0
    assert not list(folder.glob("*/*"))


def test_resumed_without_its_cache_it_ends_the_same(quick, tmp_path, monkeypatch) -> None:
    from rwf.run.record import Record

    start("l2p", {}, quick(out=tmp_path / "whole"))
    folder, after = tmp_path / "features", Record.after

    def breaks(self: Record, *args: Any) -> None:
        after(self, *args)
        if self.progress.step == 8:
            raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Record, "after", breaks)
        with pytest.raises(InterruptedError):
            start("l2p", {}, quick(out=tmp_path / "broken", feature_cache=str(folder)))
    for i, path in enumerate(sorted(folder.glob("*/*"))):
        path.unlink() if i % 2 else path.write_bytes(path.read_bytes()[:-1])
    resume(tmp_path / "broken")
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


def test_damaged_files_are_said(calm, tmp_path, capsys) -> None:
    folder = tmp_path / "features"
    start("ncm", {}, calm(out=tmp_path / "first", feature_cache=str(folder)))
    next(folder.glob("*/*")).write_bytes(b"")
    start("ncm", {}, calm(out=tmp_path / "second", feature_cache=str(folder)))
    assert "1 damaged files of the feature cache were dropped" in capsys.readouterr().out


def test_where_it_lies(quick, tmp_path, monkeypatch) -> None:
    assert open_shards(quick(), "cpu") is None  # the suite says so
    monkeypatch.setenv("RWF_FEATURE_CACHE", str(tmp_path / "named"))
    shards = open_shards(quick(), "cpu")
    assert shards is not None
    assert (shards.folder, shards.limit) == (tmp_path / "named", 4 * 10**9)
    monkeypatch.delenv("RWF_FEATURE_CACHE")
    monkeypatch.setenv("RWF_CACHE", str(tmp_path / "cache"))
    shards = open_shards(quick(feature_cache_gb=0.5), "cpu")
    assert shards is not None
    assert (shards.folder, shards.limit) == (tmp_path / "cache" / "features", 5 * 10**8)
    assert open_shards(quick(), "cuda") is None
    assert open_shards(quick(feature_cache="off"), "cpu") is None


@pytest.mark.parametrize("changes", [{"feature_cache_gb": 0.0}, {"feature_cache_gb": np.inf}, {"feature_cache": ""}])
def test_impossible_caches_get_a_sentence(quick, changes) -> None:
    with pytest.raises(UserError, match="feature-cache"):
        quick(**changes)
