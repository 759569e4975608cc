"""A foreign pickle, read without letting it call anything: containers, text, numbers and plain arrays."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from rwf.errors import UserError


class _Plain(pickle.Unpickler):
    """Knows the three names that an array needs, and no other."""

    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct"):
                return _array
            case "numpy", "ndarray":
                return np.ndarray
            case "numpy", "dtype":
                return np.dtype
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to something outside")


def _array(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """What numpy begins an array with; its content follows in the pickle."""
    if kind is not np.ndarray or shape != (0,):
        raise pickle.UnpicklingError("it holds an array of an unknown kind")
    return np.ndarray((0,), dtype=np.uint8)


def read_pickle(data: bytes, name: str) -> Any:
    """The content; text of Python 2 stays bytes. Anything but plain data is a sentence."""
    try:
        return _Plain(io.BytesIO(data), encoding="bytes").load()
    except Exception as error:  # damaged pickles raise nearly every kind of exception
        raise UserError(
            f"{name} is not the plain data it should be ({' '.join(str(error).split())[:120]}): remove it and fetch it "
            "again from its source."
        ) from error
