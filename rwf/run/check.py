"""The conformance suite: what every method promises by being one. ``rwf check`` runs it on a user's method."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from rwf.data.batch import Batch, WithheldError
from rwf.data.catalog import Catalog
from rwf.data.guard import SecondLookError
from rwf.data.stream import Stream, make_stream
from rwf.parts.gradient import GradientLearner
from rwf.parts.learner import Learner
from rwf.parts.memory import Memory
from rwf.registry import resolve_method
from rwf.run.build import LearnerConfig, load, make_learner
from rwf.run.evaluate import guess
from rwf.run.step import LateStream, drive
from rwf.run.toy import BACKBONE, CLASSES, TASKS, toy_catalog

NEIGHBOURS = 1e-10
GRADIENT_COSINE = 0.99
TIMES_CHANCE = 3


class CheckError(AssertionError):
    """A method broke a promise; the sentence says which and how."""


@lru_cache(maxsize=4)
def _catalog(train_per_class: int) -> Catalog:
    return toy_catalog(train_per_class)


@dataclass
class Subject:
    """A method under test: how to make it anew, on a small stream, as often as a check needs."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)

    def make(
        self, *, seed: int = 0, batch_size: int = 16, precision: str = "fp32", double: bool = False, train: int = 32
    ) -> tuple[Learner, Stream]:
        """A fresh learner and a fresh stream of two tasks."""
        late = LateStream()
        config = LearnerConfig(
            self.method,
            BACKBONE,
            {**getattr(resolve_method(self.method), "toy_options", {}), **self.options},
            seed=seed,
            precision=precision,
            class_count=CLASSES,
            task_count=TASKS,
        )
        learner = make_learner(config, told=late.told(CLASSES, TASKS))
        if double:
            learner.double()
        stream = make_stream(
            _catalog(train),
            viewer=learner.viewer,
            tasks=TASKS,
            order=learner.stream_order or "split",
            batch_size=batch_size,
            seed=seed,
            class_order="shuffled",
        )
        late.open(stream, learner)
        return learner, stream


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise CheckError(sentence)


def snapshot(learner: Learner) -> dict[str, Tensor]:
    """Copies of every tensor the learner has, the frozen ones too."""
    tensors, _ = learner.state()
    everything = {f"vit/{n}": p for n, p in learner.vit.named_parameters()} | tensors
    return {name: tensor.detach().clone() for name, tensor in everything.items()}


def differences(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """Names whose tensors are not the same bits (or are on one side only)."""
    both = a.keys() & b.keys()
    return sorted((a.keys() ^ b.keys()) | {n for n in both if a[n].shape != b[n].shape or not torch.equal(a[n], b[n])})


def run_through(learner: Learner, stream: Stream, seed: int = 0, start: int = 0, end: int | None = None) -> None:
    for _ in drive(learner, stream, seed, start=start, end=end):
        pass


def test_pictures(stream: Stream, count: int = 12) -> Batch:
    return next(iter(stream.test_batches(stream.classes, count)))


# -- the promises ------------------------------------------------------------------------------------------------------


def sees_each_picture_once(subject: Subject) -> None:
    """Each id is handed out once; second looks happen only where they were declared."""
    learner, stream = subject.make()
    try:
        run_through(learner, stream)
    except SecondLookError as error:
        raise CheckError(str(error)) from error
    passes = stream.guard.certificate()
    require(passes["seen"] == passes["images_in_stream"], f"{passes['seen']} of {passes['images_in_stream']} were seen")
    if "second_look" not in learner.needs:
        require(passes["most_visits"] == 1, f"a picture was handed out {passes['most_visits']} times")


def is_told_only_what_it_declared(subject: Subject) -> None:
    """What is not among its needs raises when touched."""
    try:
        learner, stream = subject.make()
        run_through(learner, stream)
        learner.prepare()
        learner.predict(test_pictures(stream))
    except WithheldError as error:
        raise CheckError(str(error)) from error


def prediction_changes_nothing(subject: Subject) -> None:
    """predict twice: same scores, same bits everywhere, the random numbers of others untouched."""
    learner, stream = subject.make()
    run_through(learner, stream, end=6)
    learner.prepare()
    before, dice = snapshot(learner), torch.get_rng_state()
    pictures = test_pictures(stream)
    first, second = learner.predict(pictures), learner.predict(pictures)
    changed = differences(before, snapshot(learner))
    require(not changed, f"predict changed {', '.join(changed[:3])}")
    require(torch.equal(first, second), "predicting the same pictures twice gave two answers")
    require(torch.equal(dice, torch.get_rng_state()), "predict used the global random numbers")


def prediction_ignores_neighbours(subject: Subject) -> None:
    """A picture's scores are the same alone, in a batch and in another order (float64)."""
    learner, stream = subject.make(double=True)
    run_through(learner, stream, end=6)
    learner.prepare()
    batch = test_pictures(stream)
    x = learner.cast(batch.view(kind="test"))
    together = learner.scores(x)
    alone = torch.cat([learner.scores(x[i : i + 1]) for i in range(len(x))])
    backwards = learner.scores(x.flip(0)).flip(0)
    for name, other in (("alone", alone), ("in another order", backwards)):
        scale = max(1.0, float(together.abs().max()))
        worst = float((together - other).abs().max()) / scale
        require(worst <= NEIGHBOURS, f"scores of a picture {name} differ by {worst:.1e} from those in a batch")
        require(torch.equal(together.argmax(1), other.argmax(1)), f"a picture {name} gets another class")


def learns(subject: Subject, batch_size: int, seed: int) -> None:
    """At least three times chance on the toy stream at the end."""
    learner, stream = subject.make(seed=seed, batch_size=batch_size, train=32 if batch_size > 1 else 6)
    run_through(learner, stream, seed)
    catalog = stream.catalog
    guesses = guess(learner, catalog, stream.test_batches(stream.classes, 64))
    percent = 100.0 * float((guesses == catalog.test.labels).mean())
    bar = 100.0 * TIMES_CHANCE / CLASSES
    require(percent >= bar, f"{percent:.0f} % right at batch size {batch_size}, seed {seed}; the bar is {bar:.0f} %")


def takes_new_labels_at_any_time(subject: Subject) -> None:
    """Unheard labels in mid-stream get columns of their own, whatever the strings; a batch may hold one picture."""
    learner, stream = subject.make()
    batches = drive(learner, stream, 0)
    first = next(batches)
    known = len(learner.classes)
    late = [f"späte Klasse {i}" for i in range(3)]
    for i, label in enumerate(late):
        picture = first.images[i]
        learner.learn([picture], [label])
    require(len(learner.classes) == known + 3, f"{len(learner.classes) - known} of 3 new labels were taken up")
    scores = learner.predict(first)
    shape = (len(first), known + 3)
    require(tuple(scores.shape) == shape, f"predict gave {tuple(scores.shape)} scores, not {shape}")
    require(bool(torch.isfinite(scores).all()), "scores are not finite after new labels")
    next(batches, None)


def resumes_exactly(subject: Subject, step: int = 7) -> None:
    """Saved after some step and loaded into a fresh learner, it ends with the same bits."""
    whole, stream = subject.make()
    run_through(whole, stream)
    total = len(stream)
    step = step % total
    part, stream = subject.make()
    run_through(part, stream, end=step)
    if step == 0:
        part, stream = subject.make()
    with tempfile.TemporaryDirectory() as folder:
        part.save(folder)
        fresh = load(folder)
    changed = differences(snapshot(part), snapshot(fresh))
    require(not changed, f"rwf.load gave other tensors than were saved: {', '.join(changed[:3])}")
    _, rest = subject.make()
    rest.guard.restore(stream.guard.state())
    run_through(fresh, rest, start=step)
    changed = differences(snapshot(whole), snapshot(fresh))
    require(not changed, f"resumed after step {step} of {total}, {', '.join(changed[:3])} ended differently")
    require(whole.classes == fresh.classes, "resumed, the classes came in another order")


def same_seed_same_bits(subject: Subject) -> None:
    """Two runs of one seed end with the same bits, whatever the global random numbers were before."""
    ends = []
    for dice in (1, 2):
        torch.manual_seed(dice)
        learner, stream = subject.make()
        run_through(learner, stream, end=8)
        ends.append(snapshot(learner))
    changed = differences(*ends)
    require(not changed, f"two runs of one seed differ in {', '.join(changed[:3])}")


def memory_stays_in_budget(subject: Subject) -> None:
    """Only who declared a memory keeps pictures, and never more than its budget."""
    learner, stream = subject.make()
    for _ in drive(learner, stream, 0):
        if "memory" not in learner.needs:
            require(learner.memory_bytes == 0, "it keeps pictures without declaring a memory")
        else:
            for name, part in learner.kept():
                if isinstance(part, Memory):
                    require(len(part) <= part.size, f"{name} holds {len(part)} pictures, its size is {part.size}")
                    full = part.max_bytes is not None and part.nbytes > part.max_bytes
                    require(not full, f"{name} holds {part.nbytes} bytes, its budget is {part.max_bytes}")


def frozen_stays_frozen(subject: Subject) -> None:
    """What is not trained keeps its bits; what is called trained changes."""
    learner, stream = subject.make()
    before = {name: p.detach().clone() for name, p in learner.vit.named_parameters()}
    run_through(learner, stream)
    trained = learner.trained()
    for name, parameter in learner.vit.named_parameters():
        frozen = f"vit.{name}" not in trained
        require(not frozen or torch.equal(before[name], parameter), f"the frozen weight {name} changed")


def trains_what_it_says(subject: Subject) -> None:
    """Every parameter that wants gradients is changed by learning."""
    learner, stream = subject.make()
    run_through(learner, stream, end=1)
    learner.prepare()
    start = {name: p.detach().clone() for name, p in learner.trained().items()}
    run_through(learner, stream, start=1)
    learner.prepare()
    same = [
        n for n, p in learner.trained().items() if n in start and p.shape == start[n].shape and torch.equal(p, start[n])
    ]
    require(not same, f"{', '.join(same[:3])} is counted as trained but never changed")


def bf16_gradient_agrees(subject: Subject) -> None:
    """One step in bf16 has nearly the gradient it has in fp32."""
    gradients = []
    for precision in ("fp32", "bf16"):
        learner, stream = subject.make(precision=precision)
        if not isinstance(learner, GradientLearner):
            return
        with stolen_gradients(learner) as stolen:
            run_through(learner, stream, end=1)
        if not stolen:
            return
        gradients.append(torch.cat([g.flatten().double() for g in stolen[0]]))
    cosine = float(torch.nn.functional.cosine_similarity(gradients[0], gradients[1], dim=0))
    require(cosine >= GRADIENT_COSINE, f"the cosine of the bf16 and the fp32 gradient is {cosine:.3f}")


@contextlib.contextmanager
def stolen_gradients(learner: GradientLearner) -> Iterator[list[list[Tensor]]]:
    stolen: list[list[Tensor]] = []
    step = learner.adam.step

    def steal(clip: float = 0.0) -> None:
        stolen.append([p.grad.clone() for p in learner.adam.parameters.values() if p.grad is not None])
        step(clip)

    learner.adam.step = steal  # type: ignore[method-assign]
    try:
        yield stolen
    finally:
        del learner.adam.step
