"""The command `rwf experiment`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from rwf.commands.shown import print_table
from rwf.experiments.asked import Asked


@dataclass(frozen=True)
class Experiment(Asked):
    """run one of the paper's experiments

    `rwf list experiments` shows them. Finished runs are used again; OUT/rows.json has a row for each run.
    """

    usage = "experiment NAME"
    name: str
    """Which experiment."""

    def __call__(self) -> int:
        from rwf.experiments.carry_out import carry_out, dry_run

        asked = Asked(**{own.name: _value(getattr(self, own.name)) for own in fields(Asked)})
        if self.dry_run:
            table, sentence = dry_run(self.name, asked)
            print_table(table)
            print(sentence)
            return 0
        rows, table = carry_out(self.name, asked)
        print(table)
        return int(any(row["status"] != "done" for row in rows))


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
