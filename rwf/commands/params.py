"""The command `rwf params`."""

from __future__ import annotations

import json as jsonlib
from dataclasses import dataclass

from rwf.commands.shown import print_table
from rwf.options import RunOptions


@dataclass
class Params:
    """trained numbers of each method, beside the paper's

    Only shapes count, so no weights are downloaded.
    """

    usage = "params"
    backbone: str = RunOptions.backbone
    """The ViT, as for rwf run."""
    classes: int = 100
    """Classes of the head."""
    json: bool = False
    """Print JSON."""

    def __call__(self) -> int:
        from rwf.run.params import rows, table

        found = rows(self.backbone, self.classes)
        if self.json:
            print(jsonlib.dumps(found, indent=2))
        else:
            print_table(table(found))
        return 0
