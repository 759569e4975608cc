"""bf16 beside fp32: what is compared, the interval, and that trained weights and optimiser stay in single precision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rwf.cli import main
from rwf.errors import UserError
from rwf.parts.saved import STATE, read_state
from rwf.run import precision
from rwf.run.precision import Pair, agreement, compare, interval, markdown, sentence
from rwf.run.toy import BACKBONE


def made(seed: int, fp32: float, bf16: float) -> Pair:
    return Pair(seed, 98.0, 99.0, fp32, bf16, fp32_seconds=4.0, bf16_seconds=2.0)


def test_agreement_is_over_what_both_were_asked() -> None:
    assert agreement(np.array([1, 2, 3, -1, 4]), np.array([1, 2, 0, 3, -1])) == pytest.approx(100 * 2 / 3)


def test_the_interval_is_students() -> None:
    assert interval([0.5]) is None
    low, high = interval([1.0, 2.0, 3.0]) or (0, 0)
    assert (low, high) == pytest.approx((2 - 4.3026527 / 3**0.5, 2 + 4.3026527 / 3**0.5))
    many = interval(list(np.linspace(-1, 1, 100)))
    assert many is not None
    assert many[1] == pytest.approx(1.9842169 * np.linspace(-1, 1, 100).std(ddof=1) / 10)


def test_the_outcome_in_words_and_figures() -> None:
    pairs = [made(0, 50.0, 50.5), made(1, 60.0, 59.5)]
    assert "+0.00 points (95 % interval -6.35 to +6.35)" in sentence(pairs)
    assert "0.50 of the time" in sentence(pairs)
    assert "| 1 | 60.00 | 59.50 | -0.50 | 98.00 | 99.00 |" in markdown(pairs)
    assert "no interval" in sentence(pairs[:1])


def test_both_formats_are_run_and_kept(quick: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = quick(out=None, checkpoint_every=60.0)
    pairs = compare("rwf", options, [0], tmp_path / "pairs")
    assert 0 <= pairs[0].agreement <= 100
    assert pairs[0].agreement_asked > 80
    for name in ("fp32", "bf16"):
        folder = tmp_path / "pairs" / f"s0-{name}"
        assert json.loads((folder / "config.json").read_text())["learner"]["precision"] == name
        tensors, _ = read_state(folder / STATE)
        kept = {key: t.dtype for key, t in tensors.items() if key.startswith("learner/") and t.is_floating_point()}
        assert any("adam" in key for key in kept)
        assert any("trained" in key for key in kept)
        assert set(kept.values()) == {torch.float32}
    monkeypatch.setattr(precision, "start", None)  # what is finished is not run again
    assert compare("rwf", options, [0], tmp_path / "pairs") == pairs
    with pytest.raises(UserError, match="holds a run with other options"):
        compare("ncm", options, [0], tmp_path / "pairs")


def test_the_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["precision", "ncm", f"folder:{folder}", "--backbone", BACKBONE, "--seeds", "2", "--tasks", "5"]
    command += ["--threads", "1", "--out", str(tmp_path / "pairs")]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [pair["seed"] for pair in found["seeds"]] == [0, 1]
    assert found["difference"] == pytest.approx(np.mean([pair["difference"] for pair in found["seeds"]]))
    assert len(found["difference_interval"]) == 2
    assert main(["precision", "ncm", f"folder:{folder}", "--seeds", "0"]) == 2
    assert "--seeds is 0" in capsys.readouterr().err
