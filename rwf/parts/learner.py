"""The two verbs of every method: learn a batch that is seen once, predict over the classes met so far."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from rwf.data.batch import Batch, Boundary, Viewer
from rwf.data.decode import to_pictures
from rwf.data.endless import to_labels
from rwf.errors import UserError
from rwf.files import make_folder, write_json
from rwf.parts.saved import CONFIG, STATE, below, part_of, write_state
from rwf.parts.settings import check_choices
from rwf.parts.told import Told
from rwf.vit.forward import ViT

STATE_VERSION = 1
OWN_NAMES = frozenset(
    "vit viewer seed precision device told classes step_count picture_count answered recipe net".split()
)
"""Attributes of every learner, which no method may have as an option."""


@dataclass(kw_only=True, eq=False, repr=False)
class Learner:
    """Base of all methods. The fields of a method's dataclass are its whole configuration.

    It is no ``nn.Module``, so that an option may have any name; it has modules (``self.net`` finds them).

    A method fills in ``setup`` (make what is trained), ``update`` (learn from one batch) and ``answer`` (scores of
    input tensors).  Tensors that must survive a checkpoint are trained parameters, buffers, or live in an attribute
    with ``state()`` and ``restore()``.
    """

    extra_needs: ClassVar[frozenset[str]] = frozenset()
    """What every configuration of the method needs to be told."""
    answers_while_learning: ClassVar[bool] = False
    """``update`` leaves in ``self.answered`` what ``answer`` would have said of the batch's first train view."""
    stream_order: ClassVar[str | None] = None
    """The order of the stream that defines this method (joint: iid), where it has one."""
    forwards_proviso: ClassVar[str] = ""
    """What of the number of its forwards hangs on the numbers of a run, as a sentence; mostly nothing does."""
    toy_options: ClassVar[Mapping[str, Any]] = {}
    """Options that suit a stream of 320 pictures (a small memory, few epochs), for the conformance suite."""
    paper_options: ClassVar[Mapping[str, Any]] = {}
    """Options, of the run and of the method, that reproduce the method's row of the paper's tables."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options().items())
        return f"{type(self).__name__}({options})"

    def options(self) -> dict[str, Any]:
        """The configuration, as JSON can hold it."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    @property
    def needs(self) -> frozenset[str]:
        """What this configuration must be told, out of ``rwf.parts.told.NEEDS``."""
        return self.extra_needs

    def bind(
        self,
        vit: ViT,
        *,
        viewer: Viewer,
        seed: int = 0,
        device: str | torch.device = "cpu",
        precision: str = "fp32",
        told: Told | None = None,
    ) -> Self:
        """Gives the method its backbone (its own from now on) and what it may know; makes what is trained."""
        clash = OWN_NAMES & {option.name for option in fields(self)}
        if clash:
            raise UserError(
                f"{type(self).__name__} has an option {min(clash)!r}, which every method has already: rename it."
            )
        check_choices(self)
        self.vit, self.viewer, self.seed, self.precision = vit.to(device), viewer, seed, precision
        self.device = torch.device(device)
        self.told = (told or Told()).for_needs(self.needs)
        self.classes: list[Hashable] = []
        self._row_of: dict[Hashable, int] = {}
        self.step_count, self.picture_count = 0, 0
        self.answered: Tensor | None = None
        self.recipe: dict[str, Any] = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.setup()
        self.net.to(device).eval()
        return self

    @property
    def net(self) -> nn.ModuleDict:
        """The modules among the attributes, by name; ``vit`` is one of them."""
        bare = [name for name, value in vars(self).items() if isinstance(value, nn.Parameter)]
        if bare:
            raise TypeError(f"{type(self).__name__}.{bare[0]} is a bare parameter: put it into a module")
        return nn.ModuleDict({name: value for name, value in vars(self).items() if isinstance(value, nn.Module)})

    def double(self) -> Self:
        """In float64, for tests of equality."""
        self.net.double()
        return self

    # -- what a method fills in --------------------------------------------------------------------------------

    def setup(self) -> None:
        """Makes what is trained; ``self.vit`` and ``self.told`` are there, global randomness is seeded."""

    def update(self, batch: Batch, rows: Tensor) -> dict[str, float]:
        """Learns from one batch; ``rows`` are its labels as rows of the scores."""
        raise NotImplementedError(f"{type(self).__name__} has no update(batch, rows)")

    def answer(self, x: Tensor) -> Tensor:
        """Scores of network input, one column a row of the head; changes nothing.  # B 3 P P -> B rows"""
        raise NotImplementedError(f"{type(self).__name__} has no answer(x)")

    def on_boundary(self, boundary: Boundary) -> None:
        """A task begins (called only where boundaries or task_classes are among the needs)."""

    def prepare(self) -> None:
        """An evaluation follows; for methods that make their classifier then. Must not depend on being called."""

    def on_new_classes(self) -> None:
        """Labels met for the first time have just been added to ``self.classes``."""

    @property
    def memory_bytes(self) -> int:
        """Bytes of pictures (or of what stands for them) kept from the stream."""
        return sum(part.nbytes for _, part in self.kept() if hasattr(part, "nbytes"))

    @property
    def replays(self) -> int:
        """Pictures handed out again by memories."""
        return sum(part.replays for _, part in self.kept() if hasattr(part, "replays"))

    @property
    def trained_before(self) -> int:
        """Sets of trained numbers that were put away; what is trained now has their names and begins anew."""
        return 0

    @property
    def gradient_steps(self) -> int:
        """Updates by gradient so far."""
        return 0

    # -- the two verbs -----------------------------------------------------------------------------------------

    def learn(self, images: Batch | Sequence[Any] | Any, labels: Sequence[Hashable] | None = None) -> dict[str, float]:
        """Learns from pictures that will not be seen again: a stream's batch, or pictures with their labels."""
        batch = images if isinstance(images, Batch) else self._wrap(images, labels)
        if not len(batch):
            return {}
        rows = self.rows(batch.labels)
        self.answered = None
        notes = self.update(batch, rows)
        self.step_count += 1
        self.picture_count += len(batch)
        return notes

    @torch.no_grad()
    def predict(self, images: Batch | Sequence[Any] | Any, *, chunk: int = 256) -> Tensor:
        """Scores over ``self.classes``, one line a picture.  # N len(classes)"""
        batch = images if isinstance(images, Batch) else self._wrap(images, None)
        if not len(batch):
            return torch.zeros(0, len(self.classes))
        return torch.cat([self.scores(part.view(kind="test")) for part in batch.split(chunk)])

    def classify(self, images: Batch | Sequence[Any] | Any) -> list[Hashable]:
        """The label with the highest score for each picture."""
        if not self.classes:
            raise UserError("nothing has been learned yet: call learn(images, labels) first.")
        return [self.classes[row] for row in self.predict(images).argmax(1).tolist()]

    @torch.no_grad()
    def scores(self, x: Tensor) -> Tensor:
        """Scores of network input over the classes met so far, on the CPU.  # B 3 P P -> B len(classes)"""
        with self.autocast():
            return self.answer(self.cast(x))[:, : len(self.classes)].to("cpu", self.vit_dtype)

    # -- what methods use --------------------------------------------------------------------------------------

    @property
    def vit_dtype(self) -> torch.dtype:
        return next(self.vit.parameters()).dtype

    def cast(self, x: Tensor) -> Tensor:
        """Network input on the method's device and in its number format."""
        return x.to(self.device, self.vit_dtype, non_blocking=True)

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16")

    def rows(self, labels: Sequence[Hashable], *, new: bool = True) -> Tensor:
        """Labels as row numbers in first-seen order; unknown ones get the next row (if ``new``)."""
        before = len(self.classes)
        out = []
        for label in labels:
            if not isinstance(label, str | int):
                raise UserError(f"labels are strings or integers; {label!r} is a {type(label).__name__}.")
            if label not in self._row_of:
                if not new:
                    raise UserError(f"the label {label!r} has not been learned.")
                self._row_of[label] = len(self.classes)
                self.classes.append(label)
            out.append(self._row_of[label])
        if len(self.classes) > before:
            self.on_new_classes()
        return torch.tensor(out, dtype=torch.long, device=self.device)

    def trained(self) -> dict[str, nn.Parameter]:
        """What gradients change, by name."""
        return {name: p for name, p in self.net.named_parameters() if p.requires_grad}

    def _wrap(self, images: Any, labels: Sequence[Hashable] | None) -> Batch:
        pictures = to_pictures(images)
        names = [""] * len(pictures) if labels is None else to_labels(labels)
        if len(names) != len(pictures):
            raise UserError(f"{len(pictures)} pictures came with {len(names)} labels; give one label a picture.")
        ids = range(self.picture_count, self.picture_count + len(pictures))
        return Batch(pictures, names, ids, self.viewer)

    # -- what survives -----------------------------------------------------------------------------------------

    def kept(self) -> Iterator[tuple[str, Any]]:
        """The attributes with a state of their own, by name."""
        for name, part in vars(self).items():
            if name != "vit" and callable(getattr(part, "state", None)) and callable(getattr(part, "restore", None)):
                yield name, part

    def _buffers_kept(self) -> dict[str, Tensor]:
        return {name: b for name, b in self.net.named_buffers() if not name.startswith("vit.")}

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that learning has changed: tensors by name, and what JSON can hold."""
        tensors = below("trained", {name: p.data for name, p in self.trained().items()})
        tensors |= below("buffer", self._buffers_kept())
        extra: dict[str, Any] = {
            "version": STATE_VERSION,
            "classes": self.classes,
            "steps": self.step_count,
            "pictures": self.picture_count,
            "parts": {},
        }
        for name, part in self.kept():
            part_tensors, extra["parts"][name] = part.state()
            tensors |= below(f"part/{name}", part_tensors)
        return tensors, extra

    def restore(self, tensors: dict[str, Tensor], extra: Mapping[str, Any]) -> None:
        """Puts ``state()`` back into a method that was built with the same configuration."""
        if extra.get("version") != STATE_VERSION:
            raise UserError(f"this state has version {extra.get('version')}, this rwf reads version {STATE_VERSION}.")
        self.rows(extra["classes"])
        self.step_count, self.picture_count = extra["steps"], extra["pictures"]
        for name, part in self.kept():
            part.restore(part_of(tensors, f"part/{name}"), extra["parts"][name])
        wanted, saved = self.trained(), part_of(tensors, "trained")
        if wanted.keys() != saved.keys() or any(wanted[n].shape != saved[n].shape for n in wanted):
            differ = sorted(wanted.keys() ^ saved.keys()) or [n for n in wanted if wanted[n].shape != saved[n].shape]
            raise UserError(f"this state belongs to another configuration or backbone: {differ[0]} does not fit.")
        with torch.no_grad():
            for name, parameter in wanted.items():
                parameter.copy_(saved[name])
        for name in self._buffers_kept():
            owner, _, leaf = name.rpartition(".")
            module = self.net.get_submodule(owner)
            setattr(module, leaf, tensors[f"buffer/{name}"].to(self.device).clone())

    def save(self, folder: str | Path) -> None:
        """Writes configuration and state, never frozen weights; ``rwf.load(folder)`` brings the learner back."""
        if not self.recipe:
            raise UserError("this learner was bound by hand: make it with rwf.build to be able to save it.")
        path = make_folder(Path(folder))
        tensors, extra = self.state()
        write_state(path / STATE, below("learner", tensors), {"learner": extra})
        write_json(path / CONFIG, {"learner": self.recipe})
