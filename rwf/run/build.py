"""From names to a method with its backbone: what the Python door, the command line and a checkpoint all use."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from rwf.data.view import View
from rwf.errors import UserError
from rwf.files import read_json
from rwf.parts.learner import Learner
from rwf.parts.saved import CONFIG, STATE, part_of, read_state
from rwf.parts.told import Told
from rwf.registry import resolve_method
from rwf.vit.weights import load_backbone

PRECISIONS = ("fp32", "bf16")


@dataclass(frozen=True)
class LearnerConfig:
    """All that it takes to make the same method again. ``class_count`` and ``task_count`` are what it is told."""

    method: str
    backbone: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    image_size: int | None = None
    normalize: Literal["weights", "none"] = "weights"
    test_view: Literal["center", "cut"] = "center"
    precision: str = "fp32"
    class_count: int | None = None
    task_count: int | None = None
    backbone_hash: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> LearnerConfig:
        known = {f.name for f in fields(LearnerConfig)}
        if not known >= content.keys():
            raise UserError(f"this configuration has unknown keys: {', '.join(sorted(content.keys() - known))}.")
        return LearnerConfig(**content)


def make_method(name: str, options: dict[str, Any]) -> Learner:
    """The method with its options, not yet bound to a backbone."""
    cls = resolve_method(name)
    if not issubclass(cls, Learner):
        raise UserError(f"{name} is not a method: a method is a subclass of rwf.Learner.")
    known = [f.name for f in fields(cls) if f.init]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(f"{name} has no option {unknown[0]!r}; it has {', '.join(known)}.")
    return cls(**options)


def make_learner(config: LearnerConfig, *, device: str = "cpu", told: Told | None = None) -> Learner:
    """The method of this configuration on its own copy of the backbone."""
    if config.precision not in PRECISIONS:
        raise UserError(f"precision is {config.precision!r}; choose {' or '.join(PRECISIONS)}.")
    method = make_method(config.method, config.options)
    vit = load_backbone(config.backbone, image_size=config.image_size, normalize=config.normalize)
    if config.backbone_hash and config.backbone_hash != vit.hash:
        raise UserError(
            f"the backbone {config.backbone} is not the one this was made with (hash {vit.hash[:12]} instead of "
            f"{config.backbone_hash[:12]}): give the same weights."
        )
    viewer = View(seed=config.seed, size=vit.image_size, mean=vit.mean, std=vit.std, test=config.test_view)
    method.bind(
        vit,
        viewer=viewer,
        seed=config.seed,
        device=device,
        precision=config.precision,
        told=told or Told(class_count=config.class_count, task_count=config.task_count),
    )
    method.recipe = replace(config, backbone_hash=vit.hash).as_json()
    return method


def build(
    method: str = "rwf",
    *,
    backbone: str = "vit_base_patch16_224.augreg_in21k",
    seed: int = 0,
    image_size: int | None = None,
    normalize: Literal["weights", "none"] = "weights",
    precision: str = "fp32",
    device: str = "cpu",
    class_count: int | None = None,
    task_count: int | None = None,
    **options: Any,
) -> Learner:
    """A method on a backbone, ready for ``learn(images, labels)`` and ``predict(images)``.

    ``options`` are the method's own (``rwf run METHOD --help`` lists them). ``class_count`` and ``task_count`` are
    asked for only by configurations that need them.
    """
    config = LearnerConfig(
        method=method,
        backbone=backbone,
        options=options,
        seed=seed,
        image_size=image_size,
        normalize=normalize,
        precision=precision,
        class_count=class_count,
        task_count=task_count,
    )
    return make_learner(config, device=device)


def load(folder: str | Path, *, device: str = "cpu", backbone: str | None = None) -> Learner:
    """A learner as ``learner.save(folder)`` or a run left it; ``backbone`` says where the weights are now."""
    folder = Path(folder)
    content = read_json(folder / CONFIG)
    if not isinstance(content, dict) or "learner" not in content:
        raise UserError(f"{folder / CONFIG} is not a configuration of rwf: give a folder that rwf wrote.")
    config = LearnerConfig.from_json(content["learner"] | ({"backbone": backbone} if backbone else {}))
    learner = make_learner(config, device=device)
    tensors, extra = read_state(folder / STATE)
    learner.restore(part_of(tensors, "learner"), extra["learner"])
    return learner
