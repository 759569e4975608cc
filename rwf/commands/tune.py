"""The command `rwf tune`: the method first, then how to search, the run's options and the method's, all flat."""

from __future__ import annotations

import dataclasses

from rwf.commands.run import asks_for_paper, method_class
from rwf.errors import UserError
from rwf.options import RunOptions, read_options
from rwf.run.tune_options import TuneOptions

TUNE_USAGE = "tune METHOD --benchmark B"
ABOUT = """Every setting is one pass over training pictures of the first three tasks; a fifth of these is asked at the
end. No test picture and no later task is used. The same command goes on with a search that was broken off."""


def tune(arguments: list[str]) -> int:
    """choose a method's learning rate on the first tasks"""
    if arguments and arguments[0] in ("-h", "--help"):
        read_options({"search": TuneOptions, "run": RunOptions}, ["--help"], prog="rwf tune METHOD", about=ABOUT)
    if not arguments or arguments[0].startswith("-"):
        raise UserError("name the method first: rwf tune METHOD --benchmark B (`rwf list methods` shows them).")
    spec, rest = arguments[0], arguments[1:]
    method = method_class(spec)
    paper = dict(method.paper_options) if asks_for_paper(rest) else {}
    values = read_options(
        {"search": TuneOptions, "run": RunOptions, spec.rpartition(":")[2]: method},
        rest,
        prog=f"rwf tune {spec}",
        about=ABOUT,
        defaults={name: value for name, value in paper.items() if name != "lr"},
        first_wins=("lr",),
    )
    groups = [{own.name: values.pop(own.name) for own in dataclasses.fields(cls)} for cls in (TuneOptions, RunOptions)]
    fixed = {"lr": paper["lr"]} | values if "lr" in paper else values

    from rwf.report.tuning import tuning
    from rwf.run.tune import tune as search

    options, run = TuneOptions(**groups[0]), RunOptions(**groups[1])
    print(tuning(search(spec, fixed, run, options)))
    return 0
