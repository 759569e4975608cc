"""All checks of the conformance suite by name, and the command that runs them on one method."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.console import Console

from rwf.errors import UserError
from rwf.run import check
from rwf.run.check import CheckError, Subject

CHECKS: dict[str, Callable[[Subject], None]] = {
    f.__name__: f
    for f in (
        check.sees_each_picture_once,
        check.is_told_only_what_it_declared,
        check.prediction_changes_nothing,
        check.prediction_ignores_neighbours,
        check.takes_new_labels_at_any_time,
        check.resumes_exactly,
        check.same_seed_same_bits,
        check.memory_stays_in_budget,
        check.frozen_stays_frozen,
        check.trains_what_it_says,
        check.bf16_gradient_agrees,
    )
}
CHECKS |= {
    f"learns_at_batch_size_{size}_seed_{seed}": partial(check.learns, batch_size=size, seed=seed)
    for size in (16, 1)
    for seed in (0, 1, 2)
}


def main(method: str) -> int:
    """Runs every check on a method (a registered name or FILE.py:Class); 0 if all hold, 1 otherwise."""
    console = Console()
    failed = 0
    for name, promise in CHECKS.items():
        try:
            promise(Subject(method))
        except CheckError as error:
            failed += 1
            console.print(f"[red]fails[/red]  {name.replace('_', ' ')}: {error}", highlight=False, soft_wrap=True)
        except UserError:
            raise
        except Exception as error:  # the method's own: a report is more use than a traceback of ours
            failed += 1
            console.print(
                f"[red]breaks[/red] {name.replace('_', ' ')}: {type(error).__name__}: {error} ({_where(error)})",
                highlight=False,
                soft_wrap=True,
            )
        else:
            console.print(f"[green]holds[/green]  {name.replace('_', ' ')}", highlight=False)
    console.print(f"{len(CHECKS) - failed} of {len(CHECKS)} promises hold", highlight=False)
    return int(failed > 0)


def _where(error: BaseException) -> str:
    """File and line where an exception was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}" if trace else "unknown place"
