"""A run's folder as plain data: what the pages are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from rwf.errors import UserError
from rwf.files import read_json
from rwf.metrics import NOT_EVALUATED


@dataclass(frozen=True)
class Run:
    """A finished run. ``result`` and ``environment`` are its files; ``predictions`` its guesses."""

    result: Mapping[str, Any]
    environment: Mapping[str, Any]
    predictions: Mapping[str, NDArray[Any]]
    cost: Mapping[str, Any]
    """Operations of a step and of an answer, where they were counted."""
    folder: Path = Path()

    @staticmethod
    def read(folder: Path) -> Run:
        """From the files that the run left."""
        result, environment = read_json(folder / "result.json"), read_json(folder / "env.json")
        cost = read_json(folder / "cost.json") if (folder / "cost.json").exists() else {}
        return Run(result, environment, read_arrays(folder / "predictions.npz"), cost, folder)

    @property
    def name(self) -> str:
        """The method; of a user's file only the class."""
        return str(self.result["method"]).rpartition(":")[2]

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """R in percent, NaN where nothing was asked.  # E T"""
        return np.array(self.result["accuracy_matrix"], float)

    @cached_property
    def after_each(self) -> NDArray[np.float64]:
        """Mean accuracy over the tasks met so far, at each evaluation.  # E"""
        return np.array([np.mean(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in self.matrix])

    @property
    def asked(self) -> int:
        """Test pictures at the last evaluation."""
        return int((self.predictions["evaluations"][-1] != NOT_EVALUATED).sum())

    @property
    def class_count(self) -> int:
        return len(self.predictions["classes"])

    @property
    def synthetic(self) -> bool:
        """Whether the pictures were drawn by a program."""
        return str(self.environment.get("benchmark_source", "")).startswith("synthetic")

    def said(self, picture: int, evaluation: int) -> tuple[str, str | None]:
        """The class of a test picture, and the one that was guessed; None if it was not asked."""
        classes = self.predictions["classes"]
        guess = int(self.predictions["evaluations"][evaluation][picture])
        right = str(classes[int(self.predictions["labels"][picture])])
        return right, None if guess == NOT_EVALUATED else str(classes[guess])


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except FileNotFoundError:
        raise UserError(f"there is no file {path}: is this the right folder?") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UserError(f"{path} is damaged ({error}): restore it from a copy or start anew.") from error
