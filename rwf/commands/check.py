"""The command `rwf check`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Check:
    """whether a method keeps the promises of all methods"""

    usage = "check METHOD"
    method: str
    """A name of `rwf list methods`, or FILE.py:Class."""

    def __call__(self) -> int:
        from rwf.run.conformance import main as check

        return check(self.method)
