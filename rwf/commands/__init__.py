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
from rwf.commands.resume import Resume

COMMANDS: dict[str, type[Any]] = {
    "demo": Demo,
    "resume": Resume,
    "experiment": Experiment,
    "list": List,
    "params": Params,
    "bench": Bench,
    "doctor": Doctor,
    "check": Check,
    "new": New,
}
