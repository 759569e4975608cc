"""The loop: hand out each picture once, let the method learn, ask it after each task, and keep the record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.run.console import Reporter
from rwf.run.record import Record
from rwf.run.result import finish
from rwf.run.step import learn, tell
from rwf.run.watch import Watch
from rwf.run.world import World

Observer = Callable[[World, int], None]
"""Looks at a run and changes nothing: called with 0 before the first batch, then after each evaluation."""


def unobserved(_world: World, _evaluations: int) -> None:
    """The observer that most runs have."""


class Stopped(UserError):
    """The run was asked to end and has been saved."""

    code = 130


def run(world: World, folder: Path, *, goes_on: bool = False, observe: Observer = unobserved) -> dict[str, Any]:
    """From where the folder stands to the end of the stream; returns what ``result.json`` then holds."""
    learner, stream, options = world.learner, world.stream, world.options
    plan = world.plan
    with Record(world, folder, goes_on=goes_on) as record, Watch(options.checkpoint_every) as watch:
        with Reporter(len(stream), world.title, record.progress.step) as reporter:
            if not record.progress.step:
                observe(world, 0)
            for item in stream.items(start=record.progress.step):
                if isinstance(item, Boundary):
                    mark = record.forwards.mark()
                    tell(learner, item)
                    record.boundary(item, mark)
                    continue
                before = record.before(item)
                notes = learn(learner, item, options.seed, record.progress.step)
                record.after(item, before, notes)
                step = record.progress.step
                if step in plan.anytime:
                    record.anytime()
                if step in plan.evaluations:
                    reporter.say(record.evaluate())
                    observe(world, len(record.guesses))
                reporter.step(step, record.note())
                if watch.due():
                    record.save()
                    watch.saved()
                if watch.stop is not None:
                    raise Stopped(f"stopped after {step} of {len(stream)} batches; rwf resume {folder} goes on.")
        record.save()
        return finish(world, folder, record)
