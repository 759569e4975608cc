"""The command line: `rwf COMMAND ...`; every command imports what it needs when it is called."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence

from rwf import registry
from rwf.commands import COMMANDS
from rwf.commands.run import RUN_USAGE, run
from rwf.commands.shown import first_line
from rwf.commands.tune import TUNE_USAGE, tune
from rwf.errors import UserError
from rwf.options import read_options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; what a user caused is one sentence on stderr and exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except UserError as error:
        if os.environ.get("RWF_TRACEBACK"):
            raise
        print(f"rwf: {error}", file=sys.stderr)
        return int(getattr(error, "code", 2))
    except KeyboardInterrupt:
        print("rwf: interrupted; a run that has begun goes on with `rwf resume DIR`.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] == "--version":
        from rwf import __version__

        print(f"rwf {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name == "run":
        return run(rest)
    if name == "tune":
        return tune(rest)
    if name not in COMMANDS:
        raise registry.unknown("command", name, ["run", "tune", *COMMANDS])
    command = COMMANDS[name]
    about = inspect.getdoc(command) or ""
    values = read_options({"command": command}, rest, prog=f"rwf {name}", about=about, positional=True)
    return int(command(**values)())


def overview() -> str:
    """The commands and what each is for."""
    uses = {RUN_USAGE: run, TUNE_USAGE: tune, **{command.usage: command for command in COMMANDS.values()}}
    width = max(map(len, uses)) + 2
    return "\n".join(
        [
            "rwf: a pre-trained ViT keeps learning from a stream, every picture seen once",
            "",
            *(f"  {usage:<{width}}{first_line(command)}" for usage, command in uses.items()),
            "",
            "METHOD is a name of `rwf list methods`, or FILE.py:Class for one of your own.",
            "`rwf COMMAND --help` shows a command's options, `rwf run METHOD --help` those",
            "of a method too.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
