"""The command `rwf run`: the method first, then the run's options and the method's, all flat."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rwf import registry
from rwf.commands.shown import first_line, print_result, print_table
from rwf.errors import UserError
from rwf.options import RunOptions, read_options

RUN_USAGE = "run METHOD --benchmark B"


@dataclass
class Ask:
    """What is asked for instead of a run."""

    dry_run: bool = False
    """Learn nothing; print how many pictures would go through the backbone."""


def run(arguments: list[str]) -> int:
    """learn a stream with a method"""
    if arguments and arguments[0] in ("-h", "--help"):
        about = "METHOD is a name of `rwf list methods`, or FILE.py:Class.\n\n"
        about += "`rwf run METHOD --help` shows the method's own options too."
        read_options({"run": RunOptions, "instead": Ask}, ["--help"], prog="rwf run METHOD", about=about)
    if not arguments or arguments[0].startswith("-"):
        raise UserError("name the method first: rwf run METHOD --benchmark B (`rwf list methods` shows them).")
    spec, rest = arguments[0], arguments[1:]
    method = method_class(spec)
    asked, tuned = asks_for_paper(rest), value_of("--tuned", rest)
    paper = dict(method.paper_options) if asked else {}
    found: dict[str, Any] = {}
    if tuned:
        from rwf.run.tuned import read_tuned

        found = read_tuned(Path(tuned), spec)["chosen"]
    values = read_options(
        {"run": RunOptions, "instead": Ask, spec.rpartition(":")[2]: method},
        rest,
        prog=f"rwf run {spec}",
        about=registry.METHODS[spec].title if spec in registry.METHODS else first_line(method),
        defaults=paper | found,
    )
    dry = values.pop("dry_run")
    own = {field.name for field in dataclasses.fields(RunOptions)}
    options = RunOptions(**{name: value for name, value in values.items() if name in own})
    if asked:
        resolved = ", ".join(f"{name} {values[name]}" for name in paper)
        print(f"protocol paper: {resolved or f'{spec} has no row in the paper, its own settings are used'}")

    method_options = {name: value for name, value in values.items() if name not in own}
    if dry:
        _print_forecast(spec, method_options, options)
        return 0

    from rwf.run.start import start

    print_result(start(spec, method_options, options))
    return 0


def _print_forecast(spec: str, method_options: dict[str, Any], options: RunOptions) -> None:
    from rwf.run.forecast import forecast

    found = forecast(spec, method_options, options)
    print_table(found.table())
    if found.proviso:
        print(f"These are exact but for one thing: {found.proviso}.")


def method_class(spec: str) -> Any:
    """The class of a name or FILE.py:Class, if it is a method with options."""
    method = registry.resolve_method(spec)
    from rwf.parts.learner import Learner

    if not (issubclass(method, Learner) and dataclasses.is_dataclass(method)):
        raise UserError(f"{spec} is not a method: make it a dataclass that derives from rwf.Learner (see `rwf new`).")
    return method


def asks_for_paper(arguments: list[str]) -> bool:
    """Whether ``--protocol paper`` is given: it changes defaults, so it must be known before options are read."""
    return value_of("--protocol", arguments) == "paper"


def value_of(flag: str, arguments: list[str]) -> str | None:
    """What stands after an option, before options are read."""
    for word, after in zip(arguments, [*arguments[1:], None], strict=False):  # one more where there is none
        if word == flag:
            return after
        if word.startswith(f"{flag}="):
            return word.partition("=")[2]
    return None
