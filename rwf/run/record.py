"""What a run writes down while it goes: rows, guesses, counts, and the checkpoint that holds them together."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.files import JsonLines
from rwf.metrics import accuracy, accuracy_matrix, plain
from rwf.parts.saved import STATE, below, part_of, read_state, write_state
from rwf.run.evaluate import TEST_BATCH, guess
from rwf.run.forwards import Forwards, Mark, no_forwards
from rwf.run.world import World

ROWS = "rows.jsonl"


@dataclass
class Progress:
    """All that the loop itself counts."""

    step: int = 0
    pictures: int = 0
    met: list[str] = field(default_factory=list)
    online_correct: int = 0
    forwards: dict[str, int] = field(default_factory=no_forwards)
    evaluated_seen: list[int] = field(default_factory=list)
    anytime_seen: list[int] = field(default_factory=list)
    learn_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    rows_length: int = 0


class Record:
    """The run's memory of itself; a checkpoint is one file, and ``rows.jsonl`` is cut back to what it names."""

    def __init__(self, world: World, folder: Path, *, goes_on: bool) -> None:
        self.world, self.folder, self.goes_on = world, folder, goes_on
        self.guesses: list[np.ndarray] = []  # one line an evaluation
        self.anytime_guesses: list[np.ndarray] = []  # one line a point
        self.progress = Progress()
        self.forwards = Forwards(world.learner)
        self.last_loss = ""

    def __enter__(self) -> Record:
        self.rows = JsonLines(self.folder / ROWS)
        if self.goes_on:
            self.restore()
        self.rows.cut_back(self.progress.rows_length)
        if not self.goes_on:
            self.save()
        self.forwards.start()
        return self

    def __exit__(self, *_error: Any) -> None:
        self.forwards.stop()
        self.rows.close()

    # -- around a step -------------------------------------------------------------------------------------------

    def boundary(self, boundary: Boundary, since: Mark) -> None:
        """A task has begun; ``since`` is the moment before the method was told."""
        self.forwards.charge(self.progress.forwards, "boundaries", since)
        self.rows.append({"task": boundary.task, "classes": list(boundary.classes)})

    def before(self, batch: Batch) -> Before:
        """What is known, and where need be asked, of a batch before it is learned."""
        learner = self.world.learner
        columns = {label: i for i, label in enumerate(learner.classes)}
        mark, said = self.forwards.mark(), None
        if len(batch) and not learner.answers_while_learning:
            said = learner.scores(batch.view())
            self.forwards.charge(self.progress.forwards, "online", mark)
        return Before(columns, said, self.forwards.mark(), time.perf_counter())

    def after(self, batch: Batch, before: Before, notes: dict[str, float]) -> None:
        """A batch was learned. A label met for the first time counts as an error of the online accuracy."""
        progress = self.progress
        right = self._right(batch, before) if len(batch) else 0  # empty: none of its pictures could be read
        met = set(progress.met)
        progress.met += [str(label) for label in dict.fromkeys(batch.labels) if label not in met]
        progress.step += 1
        progress.pictures += len(batch)
        progress.online_correct += right
        self.forwards.charge(progress.forwards, "learning", before.forwards)
        progress.learn_seconds += time.perf_counter() - before.clock
        self.last_loss = f"loss {notes['loss']:.3f}" if "loss" in notes else ""
        online = right / max(1, len(batch))
        self.rows.append({"step": progress.step, "pictures": progress.pictures, "online": online, **notes})

    def _right(self, batch: Batch, before: Before) -> int:
        """How many pictures of the batch were guessed before it was learned."""
        said, learner, met = before.said, self.world.learner, set(self.progress.met)
        if said is None:
            if learner.answered is None:
                raise RuntimeError(f"{type(learner).__name__} declares answers_while_learning but left no answer")
            said = learner.answered[:, : len(before.columns)].float().cpu()
        if not met:
            return 0
        pairs = zip(batch.labels, said.argmax(1).tolist(), strict=True)
        return sum(label in met and before.columns[label] == guess for label, guess in pairs)

    # -- questions -----------------------------------------------------------------------------------------------

    def evaluate(self) -> str:
        """The test pictures of all classes met so far; returns a line for the person who watches."""
        progress, stream, plan = self.progress, self.world.stream, self.world.plan
        self.guesses.append(self._ask("evaluations", stream.test_batches(progress.met, TEST_BATCH)))
        progress.evaluated_seen.append(progress.pictures)
        line = accuracy_matrix(plan.test_labels, plan.test_tasks, self.guesses[-1], plan.tasks)[0]
        self.rows.append({"evaluation": len(self.guesses), "step": progress.step, "accuracy": plain(line)})
        known, groups = line[~np.isnan(line)], "tasks" if plan.learned is None else "groups of classes"
        found = (
            f"mean accuracy {known.mean():.2f} % over {len(known)} {groups}" if len(known) else "no test picture yet"
        )
        return f"{progress.pictures} pictures, {len(progress.met)} classes: {found}"

    def anytime(self) -> None:
        """The fixed small set of test pictures, as far as their classes have been met."""
        progress, stream = self.progress, self.world.stream
        self.anytime_guesses.append(self._ask("anytime", stream.anytime_batches(progress.met, TEST_BATCH)))
        progress.anytime_seen.append(progress.pictures)
        value = accuracy(self.world.plan.test_labels, self.anytime_guesses[-1])[0]
        self.rows.append({"anytime": plain(value), "step": progress.step})

    def _ask(self, phase: str, batches: Iterable[Batch]) -> np.ndarray:
        began, mark = time.perf_counter(), self.forwards.mark()
        line = guess(self.world.learner, self.world.catalog, batches)
        self.forwards.charge(self.progress.forwards, phase, mark)
        self.progress.evaluate_seconds += time.perf_counter() - began
        return line

    def note(self) -> str:
        """What the bar shows beside the count."""
        return self.last_loss

    # -- checkpoint ----------------------------------------------------------------------------------------------

    def save(self) -> None:
        """One file for everything: learner, guard, guesses, counts; and how long rows.jsonl is now."""
        self.progress.rows_length = self.rows.sync()
        tensors, extra = self.world.learner.state()
        everything = below("learner", tensors) | below("guard", self.world.stream.guard.state())
        for name, lines in (("guesses", self.guesses), ("anytime", self.anytime_guesses)):
            everything[name] = torch.from_numpy(np.array(lines, np.int32))
        write_state(self.folder / STATE, everything, {"learner": extra, "progress": asdict(self.progress)})

    def restore(self) -> None:
        """Everything as the last checkpoint has it."""
        tensors, extra = read_state(self.folder / STATE)
        self.world.learner.restore(part_of(tensors, "learner"), extra["learner"])
        self.world.stream.guard.restore(part_of(tensors, "guard"))
        self.guesses, self.anytime_guesses = list(tensors["guesses"].numpy()), list(tensors["anytime"].numpy())
        self.progress = Progress(**extra["progress"])


@dataclass
class Before:
    """What was so before a batch was learned."""

    columns: dict[Hashable, int]
    said: Tensor | None
    forwards: Mark
    clock: float
