"""One file that holds all that learning changed: tensors, and JSON in the metadata of a safetensors file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rwf.errors import UserError
from rwf.files import write_bytes

STATE = "state.safetensors"
CONFIG = "config.json"


def write_state(path: Path, tensors: dict[str, Tensor], extra: dict[str, Any]) -> None:
    """Writes the file whole or leaves the old one."""
    own = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    write_bytes(path, save(own, metadata={"rwf": json.dumps(extra)}))  # not save_file, which hides a full disk


def read_state(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What ``write_state`` wrote."""
    if not path.exists():
        raise UserError(f"there is no {path}: the folder holds no checkpoint (yet).")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} cannot be read as a state ({error}): start anew or restore it from a copy.") from error
    if "rwf" not in metadata:
        raise UserError(f"{path} is a safetensors file, but not a state of rwf: give a folder that rwf wrote.")
    return tensors, json.loads(metadata["rwf"])


def part_of(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors below ``name/``, with that taken off their names."""
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}


def below(name: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, named below ``name/``."""
    return {f"{name}/{key}": value for key, value in tensors.items()}
