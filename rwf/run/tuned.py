"""What a search found, for the runs that use it: options for the command line, and a note for the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.files import read_json

TUNE = "tune.json"
NOTED = tuple("benchmark backbone rate tuned_on looks_ahead seeds chosen edge budget rows study".split())


def read_tuned(folder: Path, method: str) -> dict[str, Any]:
    """The search that a folder holds, if it is a finished one of this method."""
    path = Path(folder) / TUNE
    found: dict[str, Any] = read_json(path)
    if not isinstance(found, dict) or not {"method", *NOTED} <= found.keys():
        raise UserError(f"{path} is no search: give the folder that rwf tune named.")
    if found["method"] != method:
        raise UserError(f"{folder} holds a search for {found['method']}, not for {method}: give one for {method}.")
    if not found["chosen"]:
        raise UserError(f"the search in {folder} has found nothing yet: go on with it, or leave --tuned out.")
    return found


def note(folder: Path, method: str) -> dict[str, Any]:
    """What goes with a result: on what its settings were chosen, at what cost, and the whole curve."""
    found = read_tuned(folder, method)
    return {name: found[name] for name in NOTED}
