"""One run of a queue: what its folder's job.json says, begun or gone on with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rwf.files import make_folder, read_json, write_json
from rwf.options import RunOptions
from rwf.parts.saved import CONFIG
from rwf.run.loop import Observer, unobserved
from rwf.run.maps import RoutingMaps
from rwf.run.routing_figures import RoutingFigures
from rwf.run.start import resume, start

JOB = "job.json"
WATCHERS: dict[str, Callable[[Path], Observer]] = {
    "": lambda _folder: unobserved,
    "maps": lambda folder: RoutingMaps(folder, 40),
    "figures": lambda folder: RoutingFigures(folder),
}
"""Who may look at a run of a queue."""


def write_job(folder: Path, method: str, own: Mapping[str, Any], run: RunOptions, watch: str = "") -> None:
    """Leaves in the run's folder what is to be run there."""
    make_folder(folder)
    write_json(folder / JOB, {"method": method, "options": dict(own), "run": run.as_json(), "watch": watch})


def work(folder: Path) -> dict[str, Any]:
    """Begins the run, or goes on with it; the result."""
    job = read_json(folder / JOB)
    observe = WATCHERS[job["watch"]](folder)
    if (folder / CONFIG).exists():
        return resume(folder, observe=observe)
    return start(
        job["method"], job["options"], RunOptions.from_json(job["run"] | {"out": str(folder)}), observe=observe
    )
