"""ER against the official run and written out; and what the tests of the other methods share with it."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Batch, Boundary
from rwf.errors import UserError
from rwf.methods.er import ER
from rwf.parts.balance import RULES
from rwf.parts.gradient import GradientLearner
from rwf.parts.head import Head
from rwf.parts.memory import Memory, Replay
from rwf.parts.told import Told
from rwf.registry import resolve_method
from rwf.run.build import make_method
from rwf.seeds import generator
from rwf.vit.forward import ViT
from tests.golden import golden
from tests.parts.test_memory import Recorded, contents
from tests.pictures import batch_of, tiny_vit

L = TypeVar("L", bound=GradientLearner)
PUBLISHED: dict[str, Any] = {"mask": "none", "head": "linear", "head_lr": None, "clip": 0.0, "optimizer": "sgd"}
"""What the official runs on linear models have in common."""
PLAIN: dict[str, Any] = {"lr": 0.02, "head_lr": 0.1, "clip": 0.0, "head": "linear", "mask": "seen", "optimizer": "sgd"}
"""A configuration that can be written out in a few lines."""
LABELS = ((0, 1, 0, 1, 1), (1, 0, 0, 1, 0), (2, 3, 3, 2, 2), (3, 0, 2, 2, 3), (5, 4, 4, 5, 4), (4, 5, 5, 5, 2))
"""Three tasks of two batches; two pictures of earlier tasks come again."""


class Given(nn.Module):
    """Stands for a backbone and hands its input on, so that the head is all there is to train."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.feature_width = width
        self.nothing = nn.Parameter(torch.empty(0, dtype=torch.float64))

    def features(self, x: Tensor, plug: object = None) -> Tensor:
        return x


class Slots(Recorded):
    """A reservoir that takes from a record where pictures go and which slots each draw gives (-1: none)."""

    def __init__(self, size: int, viewer: Any, places: list[int], **draws: Sequence[Sequence[int]]) -> None:
        super().__init__(size, places)
        self.viewer, self.drawn = viewer, draws

    def sample(self, n: int, step: int, *, name: str = "draw") -> list[int]:
        slots = [int(slot) for slot in self.drawn[name.replace(" ", "_")][step] if slot >= 0]
        assert len(slots) <= n
        return slots


def stand_in(a: dict[str, Any], method: L) -> tuple[L, list[Batch], list[int]]:
    """Our method in the place of an official one, its batches, and the label of each row of its head."""
    table, labels = a["X"].double().flatten(0, 1), a["Y"].flatten().tolist()
    classes, width = a["w0_weight"].shape
    order = [*dict.fromkeys(labels), *sorted(set(range(classes)) - set(labels))]  # ours are numbered as they come

    def viewer(images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        return table[list(ids)]

    method.bind(cast(ViT, Given(width)), viewer=viewer, told=Told(class_count=classes))
    begin_with(method, a["w0_weight"].double()[order], a["w0_bias"].double()[order])
    parts = torch.arange(len(labels)).split(a["X"].shape[1])
    batches = [replace(batch_of(ids.tolist(), [labels[i] for i in ids]), viewer=viewer) for ids in parts]
    return method, batches, order


def begin_with(method: GradientLearner, weight: Tensor, bias: Tensor | None = None) -> None:
    """Gives the head these weights, and the optimiser no momentum."""
    head = head_of(method)
    head.weight.data = weight.clone()
    if bias is not None and head.bias is not None:
        head.bias.data = bias.clone()
    method.adam.momentum = 0.0
    method.adopt()


def head_of(method: GradientLearner) -> Head:
    assert method.classifier is not None
    return method.classifier


def follows(method: GradientLearner, a: dict[str, Any], step: int, order: list[int], tolerance: float) -> None:
    """The weights, and what the memory holds, are those of the official run after this step."""
    for name, theirs in (("weight", a["weights"]), ("bias", a["biases"])):
        ours, wanted = head_of(method).get_parameter(name), theirs[step][order].double()
        torch.testing.assert_close(ours.data, wanted, rtol=tolerance, atol=tolerance * 1e-2, msg=f"step {step}")
    if "buffer_x" in a:
        kept = a["X"].flatten(0, 1)[contents(cast(ER, method).memory)]
        assert torch.equal(kept, a["buffer_x"][step][: len(kept)])


def placed(a: dict[str, Any], size: int) -> list[int]:
    """Where each picture went that came when the memory was full, as its content after each batch shows."""
    out = []
    for step, batch in enumerate(a["X"]):
        for x in batch[max(0, size - step * len(batch)) :]:
            out += [*(a["buffer_x"][step] == x).all(1).nonzero().flatten().tolist(), size][:1]
    return out


def noise(images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
    """Another picture for each view of each id.  # B 3 8 8"""
    keys = zip(ids, visits, strict=True)
    return torch.stack([torch.randn(3, 8, 8, dtype=torch.float64, generator=generator(i, kind, n)) for i, n in keys])


def stream(labels: Sequence[Sequence[int]] = LABELS, start: int = 0) -> Iterator[tuple[int, Batch]]:
    """Batches with these labels, two a task, each with the number of its task."""
    for step, part in enumerate(labels):
        ids = range(start, start + len(part))
        start += len(part)
        yield step // 2, replace(batch_of(ids, part), viewer=noise)


def small(method: L, classes: int = 6) -> L:
    """The method on a small ViT in float64."""
    return method.bind(tiny_vit(depth=2), viewer=noise, told=Told(class_count=classes, task_count=3))  # type: ignore[return-value]


def tell(method: GradientLearner, task: int) -> None:
    """A task of two classes begins."""
    method.on_boundary(Boundary(task, [2 * task, 2 * task + 1]))


def handed_out(memory: Memory) -> list[Replay]:
    """A list that grows by each replay that the memory hands out from now on."""
    out: list[Replay] = []
    hand_out = memory.hand_out

    def note(slots: Sequence[int], *, views: int = 1) -> Replay:
        out.append(hand_out(slots, views=views))
        return out[-1]

    memory.hand_out = note  # type: ignore[method-assign]
    return out


def masked(logits: Tensor, rows: Tensor | Sequence[int], allowed: Collection[int]) -> Tensor:
    """Mean cross-entropy among the allowed classes, as its formula says."""
    rows = torch.as_tensor(rows)
    return logits[:, sorted(allowed)].logsumexp(1).mean() - logits.gather(1, rows[:, None]).mean()


class Twin:
    """A learner's network with the step of SGD written out; the loss is the test's. Its linear head grows as well."""

    def __init__(self, method: GradientLearner) -> None:
        self.method, self.vit = method, copy.deepcopy(method.vit)
        self.weights: dict[str, Tensor] = {f"vit.{name}": p for name, p in self.vit.named_parameters()}
        self.speed: dict[str, Tensor] = {}
        self.meet()

    def meet(self) -> None:
        """The learner's head may have grown: new rows begin as they do there."""
        for name, theirs in self.method.trained().items():
            if name.startswith("classifier."):
                ours = self.weights.get(name, theirs[:0])
                self.weights[name] = torch.cat([ours, theirs[len(ours) :]]).detach().clone().requires_grad_()

    def logits(self, x: Tensor) -> Tensor:
        weight, bias = (self.weights[f"classifier.{name}"] for name in ("weight", "bias"))
        return functional.linear(self.vit.features(x), weight, bias)

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        found = torch.autograd.grad(loss, list(self.weights.values()), allow_unused=True)
        return {name: g for name, g in zip(self.weights, found, strict=True) if g is not None}

    @torch.no_grad()
    def move(self, gradients: Mapping[str, Tensor]) -> None:
        for name, gradient in gradients.items():
            before = self.speed.get(name, gradient[:0])
            self.speed[name] = gradient + 0.9 * torch.cat([before, torch.zeros_like(gradient[len(before) :])])
            self.weights[name] -= self.method.rate_of(name) * self.speed[name]

    def same(self) -> None:
        """All trained weights of the learner are those here."""
        theirs = self.method.trained()
        assert theirs.keys() == self.weights.keys()
        for name, weight in self.weights.items():
            torch.testing.assert_close(theirs[name].data, weight.data, rtol=0, atol=1e-10, msg=name)


def weights_of(method: GradientLearner) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in method.trained().items()}


def needs_of_paper(name: str) -> frozenset[str]:
    """What the settings of the method's row of the paper must be told."""
    cls: Any = resolve_method(name)
    return make_method(name, {key: value for key, value in cls.paper_options.items() if hasattr(cls, key)}).needs


def same_bits(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_golden_run() -> None:
    a, o = golden("er_run")
    method = ER(**PUBLISHED, lr=o["lr"], memory_size=o["mem_size"], replay=o["eps_mem_batch"])
    learner, batches, order = stand_in(a, method)
    places = placed(a, o["mem_size"])
    learner.memory = Slots(o["mem_size"], learner.viewer, places, draw=a["mem_indices"].tolist())
    for step, batch in enumerate(batches):
        learner.learn(batch)
        follows(learner, a, step, order, 1e-9)


@pytest.mark.parametrize("mask", ["none", "seen", "task", "batch", "window"])
def test_an_update_is_the_sum_of_two_means_each_under_a_mask_of_its_own(mask: Any) -> None:
    learner = small(ER(**PLAIN | {"mask": mask}, memory_size=7, replay=4, window=6))
    twin, replays, shown = Twin(learner), handed_out(learner.memory), list[int]()
    for step, (task, batch) in enumerate(stream()):
        if mask == "task" and step % 2 == 0:
            tell(learner, task)
        y = learner.rows(batch.labels).tolist()
        twin.meet()
        shown = (shown + y)[-6:]
        classes = {
            "none": range(6),
            "seen": range(len(learner.classes)),
            "task": range(2 * task, 2 * task + 2),
            "batch": [],
            "window": shown,
        }[mask]
        notes = learner.learn(batch)
        loss = masked(twin.logits(batch.view()), y, {*classes, *y})
        if step:
            again = learner.rows(replays[-1].labels).tolist()
            loss = loss + masked(twin.logits(replays[-1].view()), again, {*classes, *again})
        twin.move(twin.gradients(loss))
        twin.same()
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-12)


def test_replays_come_from_earlier_batches_and_each_is_a_new_view() -> None:
    learner = small(ER(**PLAIN, memory_size=8, replay=6))
    replays, views = handed_out(learner.memory), set[tuple[int, int]]()
    for step, (_, batch) in enumerate(stream()):
        learner.learn(batch)
        assert learner.memory.seen == 5 * (step + 1)
        assert not set(replays[-1].ids) & set(batch.ids)
        new = list(zip(replays[-1].ids, replays[-1].visits, strict=True))
        assert len(new) == min(6, 5 * step)
        assert all(visit > 0 for _, visit in new), "the stream's own view again"
        assert not views & set(new)
        views |= set(new)
    assert learner.replays == len(views)
    assert learner.gradient_steps == 6


@pytest.mark.parametrize("rule", sorted(RULES))
def test_the_memory_is_the_one_that_was_asked_for(rule: Any) -> None:
    four = 4 * (3 + 16)  # bytes of four pictures of one pixel, with their two integers
    learner = small(ER(**PLAIN, memory_size=9, memory_limit=four, memory_rule=rule))
    assert type(learner.memory) is RULES[rule]
    for _, batch in stream():
        learner.learn(batch)
    assert (len(learner.memory), learner.memory_bytes) == (4, four)


@pytest.mark.parametrize(
    ("options", "needs"),
    [
        ({}, {"memory"}),
        ({"mask": "none"}, {"memory", "class_count"}),
        ({"mask": "task"}, {"memory", "boundaries", "task_classes"}),
        ({"reset_optimizer": "all"}, {"memory", "boundaries"}),
    ],
)
def test_needs(options: dict[str, Any], needs: set[str]) -> None:
    assert ER(**options).needs == needs
    assert needs_of_paper("er") == {"memory", "class_count"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"memory_limit": 0}, "memory of 0 bytes"),
        ({"memory_rule": "fifo"}, "memory_rule is 'fifo'"),
        ({"replay": 0}, "replay is 0"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(ER(**options))
