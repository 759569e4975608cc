"""What a training step and a prediction of each method cost in frozen forwards: counted exactly, nothing computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, Literal, cast

import torch
from torch import Tensor

from rwf.data.batch import Batch, Boundary
from rwf.methods.finetune import Finetune
from rwf.methods.ranpac import FIRST_CHOICE
from rwf.parts.gradient import GradientLearner
from rwf.parts.learner import Learner
from rwf.parts.told import Told
from rwf.registry import METHODS, resolve_method, unknown
from rwf.run.build import make_method
from rwf.run.forwards import Forwards
from rwf.run.step import tell
from rwf.vit.adapter import Kept
from rwf.vit.flops import DryRun, Saved, frozen_forward_flops, without_numbers
from rwf.vit.forward import Read, ViT
from rwf.vit.routing_reference import Layer, forward_features, layers_of
from rwf.vit.sockets import Plug

Variant = Literal["fast", "literal", "cached"]
CLASSES, TASKS = 100, 10
CACHED = "linear_probe ncm slda ranpac l2p dual_prompt coda_prompt aper_adapter ease".split()
"""Methods that ask a network that no longer changes about a view: what it says can be given instead."""
SHORT: dict[str, dict[str, int]] = {"gdumb": {"memory_size": 32, "epochs": 1}}
"""Where an evaluation trains: a short training, to whose pictures the real one's cost is proportional."""


@dataclass(frozen=True)
class Case:
    """One row: a method with these options, as it is, as the paper writes it, or with frozen features given."""

    method: str
    variant: Variant = "fast"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """As a person reads it."""
        return " ".join([self.method, *(f"{name}={value}" for name, value in self.options.items())])

    def bound(self, vit: ViT, batch_size: int) -> Learner:
        """The method on this ViT (its own from now on), before any picture."""
        cls = resolve_method(self.method)
        names = {own.name for own in fields(cls)}
        scaled = {"replay": batch_size, "candidates": 200 * batch_size // 64}  # as much as at a batch of 64
        options = {name: value for name, value in scaled.items() if name in names}
        options |= SHORT.get(self.method, {}) | dict(self.options)
        learner = make_method(self.method, options).bind(
            vit, viewer=Still(vit.image_size), told=Told(class_count=CLASSES, task_count=TASKS)
        )
        if self.variant == "literal":
            _make_literal(learner)
        if self.variant == "cached":
            vars(vit)["features"] = Given(vit)
        return learner


def cases(methods: Sequence[str] = ()) -> list[Case]:
    """The rows of these methods, or of all registered ones."""
    registered = [name for name, entry in METHODS.items() if not entry.alias_of]
    for name in methods:
        if name not in METHODS and ":" not in name:
            raise unknown("method", name, registered)
    out = []
    for name in methods or registered:
        out.append(Case(name))
        if name == "rwf":
            dense = {"kv": "random"}
            out += [Case(name, "literal"), Case(name, "fast", dense), Case(name, "literal", dense)]
        if name in CACHED:
            out.append(Case(name, "cached"))
    return out


# -- the state in which a step is counted ----------------------------------------------------------------------------


class Still:
    """A viewer that shows every picture as the same: what a step costs does not depend on what is in it."""

    def __init__(self, size: int) -> None:
        self.picture = torch.rand(1, 3, size, size, generator=torch.Generator().manual_seed(0))
        self.views: dict[int, Tensor] = {}

    def __call__(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        if len(ids) not in self.views:
            self.views[len(ids)] = self.picture.repeat(len(ids), 1, 1, 1)
        return self.views[len(ids)]


class Feed:
    """Batches of a stream whose pictures are nothing but their labels."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.next = learner, 0

    def batch(self, size: int, names: Sequence[str]) -> Batch:
        ids = range(self.next, self.next + size)
        self.next += size
        pixel = torch.zeros(3, 1, 1, dtype=torch.uint8)
        return Batch([pixel] * size, [names[i % len(names)] for i in ids], ids, self.learner.viewer)


def brought_to_work(learner: Learner, batch_size: int, tasks: int = 1) -> Batch:
    """Tells, teaches and fills memories, as at the end of so many tasks; gives the batch that comes next.

    A method that is told of tasks is in the last of them, with ten classes of each; any other knows all classes.
    """
    feed, names = Feed(learner), [str(i) for i in range(CLASSES)]
    if "boundaries" in learner.needs:
        names = names[: CLASSES // TASKS * tasks]
    for task, new in enumerate([names[i::tasks] for i in range(tasks)]):
        tell(learner, Boundary(task, new))
        learner.rows(new)
        learner.learn(feed.batch(max(batch_size, _first(learner)), new))
    memory = getattr(learner, "memory", None)
    while memory is not None and len(memory) < memory.size and memory.seen < 4 * memory.size:
        batch = feed.batch(memory.size, names)
        if hasattr(learner, "remember"):  # what a step does last; the steps themselves are not needed
            learner.answered = torch.zeros(len(batch), len(names))
            learner.remember(batch)
        else:
            learner.learn(batch)
    return feed.batch(batch_size, new)


def _first(learner: Learner) -> int:
    """Pictures after which a step is like most others: where InfLoRA designs, and RanPAC chooses, after the first."""
    return int(getattr(learner, "design_after", 0)) if isinstance(learner, GradientLearner) else 2 * FIRST_CHOICE


# -- counting --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Price:
    """In units of one frozen forward of a batch: all rows through all blocks, no graph, explicit attention."""

    train_f: float
    """A training step."""
    predict_f: float
    """A prediction of as many pictures."""
    evaluation_f: float
    """What an evaluation costs once, before any picture is asked (GDumb trains then)."""
    train_forwards: float
    """Pictures through the backbone for each picture of the stream, as a run's ``forwards_per_image`` has it."""
    predict_forwards: float
    """The same for each test picture."""
    saved_mb: float
    """Most that a step keeps at once for its backward passes, weights apart (single precision, explicit attention)."""
    held_mb: float
    """What lasts between steps: weights, frozen ones too, moments, averages, importances; a memory's pictures apart."""


def price(case: Case, vit: ViT, batch_size: int = 64, *, tasks: int = 1) -> Price:
    """What the case costs in the first task, or in a later one. ``vit`` gives shapes; not even these are touched."""
    unit = frozen_forward_flops(vit, batch_size)
    with DryRun() as dry:
        learner = case.bound(without_numbers(vit), batch_size)
        _explicit(learner.vit)
        batch = brought_to_work(learner, batch_size, tasks)
        forwards = Forwards(learner)
        forwards.start()
        spent, seen = [dry.flops], [0]
        for act in (lambda: learner.learn(batch), learner.prepare, lambda: learner.predict(batch)):
            act()
            spent.append(dry.flops)
            seen.append(forwards.count)
        train, evaluation, predict = (b - a for a, b in pairwise(spent))
        saved = Saved([*learner.net.parameters(), *learner.net.buffers()])
        with saved:
            learner.learn(batch)
    return Price(
        train_f=train / unit,
        predict_f=predict / unit,
        evaluation_f=evaluation / unit * _longer(case.method),
        train_forwards=seen[1] / batch_size,
        predict_forwards=(seen[3] - seen[2]) / batch_size,
        saved_mb=saved.bytes / 1e6,
        held_mb=_held(learner) / 1e6,
    )


def _held(learner: Learner) -> int:
    """Bytes of the network and of what the method's parts would write into a checkpoint."""
    tensors = [*learner.net.parameters(), *learner.net.buffers()]
    for _, part in learner.kept():
        tensors += part.state()[0].values()
    return sum(x.numel() * x.element_size() for x in tensors)


def is_told_of_tasks(case: Case) -> bool:
    """Whether what the case costs may depend on how many tasks there were."""
    return "boundaries" in make_method(case.method, dict(case.options)).needs


def trains_backbone(case: Case) -> bool:
    """Whether the case needs a ViT of its own."""
    return issubclass(resolve_method(case.method), Finetune)


def _longer(method: str) -> float:
    """How many times more pictures an evaluation trains on than the short one."""
    if method not in SHORT:
        return 1.0
    full: Any = make_method(method, {})
    return full.memory_size * full.epochs / (SHORT[method]["memory_size"] * SHORT[method]["epochs"])


def _explicit(vit: ViT) -> None:
    """Explicit attention in timm's own blocks too, which the literal form runs."""
    for block in vit.timm.blocks:
        block.attn.fused_attn = False


# -- variants --------------------------------------------------------------------------------------------------------


class Given:
    """In the place of a ViT's ``features``: what a network without anything trained says is given, not computed."""

    def __init__(self, vit: ViT) -> None:
        self.width, self.compute = vit.feature_width, vit.features

    def __call__(self, x: Tensor, plug: Plug | None = None, read: Read = "native") -> Tensor:
        if plug is None or isinstance(plug, Kept):
            return x.new_zeros(len(x), self.width)
        return self.compute(x, plug, read)


class One:
    """The identity where the formulas have a matrix and a setting has none: nothing to compute."""

    def __rmatmul__(self, x: Tensor) -> Tensor:
        return x


def _make_literal(learner: Any) -> None:
    """RwF as the paper writes it, on timm's own blocks, every row of every block, prompts as ordinary rows."""
    model = learner.vit.timm

    def features(x: Tensor) -> Tensor:
        tokens = forward_features(model, _layers(learner.plug), x, learner.keep)
        out: Tensor = model.forward_head(tokens, pre_logits=True)
        return out

    vars(learner)["features"] = features


def _layers(routing: Any) -> dict[int, Layer]:
    """The layers of the formulas, without products by an identity."""
    layers = layers_of(routing)
    for i in layers:
        absent = [name for name in ("w_q", "w_k", "w_v", "w_o") if getattr(routing.routers[str(i)], name) is None]
        layers[i] = replace(layers[i], **cast(Any, {name.upper(): One() for name in absent}))
    return layers
