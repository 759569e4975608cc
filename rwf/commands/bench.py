"""The command `rwf bench`."""

from __future__ import annotations

import dataclasses
import json as jsonlib
from dataclasses import dataclass

from rwf.options import RunOptions


@dataclass
class Bench:
    """what a step and a prediction of each method cost

    Counted in units of one frozen forward of the backbone, exactly and without computing; and timed on a small
    backbone, all methods in turn, beside the machine's own rates. Prints Markdown.
    """

    usage = "bench"
    backbone: str = RunOptions.backbone
    """The ViT that is counted; only its shapes count, so no weights are downloaded."""
    batch_size: int = 64
    """Pictures a step; replay methods replay as many."""
    methods: tuple[str, ...] = ()
    """Which methods; all if not given."""
    time: bool = True
    """Time what was counted (some minutes for all methods)."""
    time_backbone: str = "random:vit_tiny_patch16_224"
    """The ViT that is timed."""
    time_batch: int = 16
    """Pictures a step that is timed."""
    rounds: int = 3
    """Times that each step is timed; medians are printed."""
    threads: int | None = None
    """Threads of torch; with 1 the processor's own time is taken, which fits a machine that does other things too."""
    input: bool = False
    """Only the input: pictures a second and core from stored bytes to views."""
    json: bool = False
    """Print JSON, a list of rows."""

    def __call__(self) -> int:
        if self.input:
            return self._input()
        from rwf.run.bench import bench, markdown

        options = dataclasses.asdict(self)
        del options["json"], options["input"]
        rows = bench(**options)
        print(jsonlib.dumps(rows, indent=2) if self.json else markdown(rows))
        return 0

    def _input(self) -> int:
        from rwf.run.input_rates import input_markdown, input_rates

        rows = input_rates(self.rounds)
        shown = [dataclasses.asdict(row) | {"gain": row.gain} for row in rows]
        print(jsonlib.dumps(shown, indent=2) if self.json else input_markdown(rows))
        return 0
