"""The command `rwf resume`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rwf.commands.shown import print_result


@dataclass
class Resume:
    """go on with a run from its last checkpoint

    It ends with the same bits as a run without interruption.
    """

    usage = "resume DIR"
    dir: Path
    """The folder of the run."""
    on_bad_image: Literal["stop", "skip"] | None = None
    """What to do with a picture that cannot be decoded, from now on; as the run began if not given."""

    def __call__(self) -> int:
        from rwf.run.start import resume

        print_result(resume(self.dir, on_bad_image=self.on_bad_image))
        return 0
