"""The command `rwf resume`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rwf.commands.shown import print_result


@dataclass
class Resume:
    """go on with a run from its last checkpoint

    It ends with the same bits as a run without interruption.
    """

    usage = "resume DIR"
    dir: Path
    """The folder of the run."""

    def __call__(self) -> int:
        from rwf.run.start import resume

        print_result(resume(self.dir))
        return 0
