"""The command `rwf new`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass
class New:
    """write a method of your own, ready to be changed"""

    usage = "new FILE.py"
    file: Path
    """The file to write; it must not exist."""

    def __call__(self) -> int:
        from rwf.run.new import write_template

        print(write_template(self.file))
        return 0
