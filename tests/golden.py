"""Numbers that the official codes produced on small inputs; tests that need them skip when they are absent."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.shared import shared


def golden(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of one file (tensors; texts stay numpy arrays) and the settings of the run."""
    folder = shared("golden")
    with np.load(folder / f"{name}.npz") as file:
        arrays = {key: file[key] if file[key].dtype.kind == "U" else torch.from_numpy(file[key]) for key in file.files}
    index = json.loads((folder / "INDEX.json").read_text())
    (entry,) = (e for e in index["fixtures"] if e["name"] == name)
    return arrays, entry["hyper_parameters"]


def below(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays whose names start so, without that."""
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    """Equal to this relative tolerance (and a thousandth of it in absolute terms)."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * 1e-3)
