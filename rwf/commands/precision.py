"""The command `rwf precision`."""

from __future__ import annotations

import json as jsonlib
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from rwf.errors import UserError
from rwf.options import RunOptions


@dataclass
class Precision:
    """what bf16 changes, in pairs of runs over seeds

    Runs that are finished in the folder are read, so a report may grow. Prints Markdown.
    """

    usage = "precision METHOD B"
    method: str
    """The method, with its own settings."""
    benchmark: str
    """What to learn: a name of `rwf list benchmarks`, folder:PATH or parquet:PATH."""
    backbone: str = RunOptions.backbone
    """The ViT, as for rwf run."""
    seeds: int = 5
    """How many seeds, from 0."""
    out: Path = Path("runs/precision")
    """Folder of the runs."""
    tasks: int = RunOptions.tasks
    """Into how many tasks the classes are split."""
    batch_size: int = RunOptions.batch_size
    """Pictures a step."""
    train_fraction: float = RunOptions.train_fraction
    """Part of each class's training pictures that is used."""
    image_size: int | None = None
    """Side of the network's input; the backbone's own if not given."""
    device: str = RunOptions.device
    """cpu, cuda, mps, or auto for the fastest there is."""
    threads: int | None = None
    """Threads of torch; torch's own choice if not given."""
    data_dir: Path | None = None
    """Where benchmarks with a name of their own lie."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        if self.seeds < 1:
            raise UserError(f"--seeds is {self.seeds}: give 1 or more.")
        names = "benchmark backbone tasks batch_size train_fraction image_size device threads data_dir".split()
        options = RunOptions(anytime=0, **{name: getattr(self, name) for name in names})

        from rwf.run.precision import as_json, compare, markdown

        with redirect_stdout(sys.stderr):  # what the runs say on their way is not the report
            pairs = compare(self.method, options, range(self.seeds), self.out)
        print(jsonlib.dumps(as_json(pairs), indent=2) if self.json else markdown(pairs))
        return 0
