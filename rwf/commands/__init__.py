"""The commands by name: a dataclass each, whose fields are its options; what it needs is imported when it is called."""

from __future__ import annotations

from typing import Any

from rwf.commands.bench import Bench
from rwf.commands.check import Check
from rwf.commands.demo import Demo
from rwf.commands.doctor import Doctor
from rwf.commands.experiment import Experiment
from rwf.commands.list import List
from rwf.commands.new import New
from rwf.commands.params import Params
from rwf.commands.precision import Precision
from rwf.commands.report import Report
from rwf.commands.resume import Resume

COMMANDS: dict[str, type[Any]] = {
    "demo": Demo,
    "resume": Resume,
    "experiment": Experiment,
    "list": List,
    "params": Params,
    "report": Report,
    "bench": Bench,
    "precision": Precision,
    "doctor": Doctor,
    "check": Check,
    "new": New,
}
