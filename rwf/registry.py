"""What there is by name: methods, benchmarks and backbones, imported only when one of them is used."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.userfile import is_file_spec, load_file


@dataclass(frozen=True)
class Entry:
    """One registered thing. ``target`` is "module:Name" and imported on use; "" where there is nothing to import."""

    target: str
    title: str
    paper: str = ""
    alias_of: str = ""


@dataclass(frozen=True)
class MethodEntry(Entry):
    """A method, with what is known of its default configuration without importing it (tests compare with the class)."""

    needs: tuple[str, ...] = ()
    """What it must be told."""
    trainable_percent: float = 0.0
    """Trained in a task, head apart, of ViT-B/16 with its 1000-class head."""


METHODS: dict[str, MethodEntry] = {
    "rwf": MethodEntry(
        "rwf.methods.rwf:RwF",
        "learned queries retrieve prompts from the tokens of the first blocks",
        "Routing without Forgetting",
        trainable_percent=2.132,
    ),
    "linear_probe": MethodEntry("rwf.methods.linear_probe:LinearProbe", "a linear head on frozen features"),
    "finetune": MethodEntry(
        "rwf.methods.finetune:Finetune",
        "the whole network trained on the stream, nothing against forgetting",
        trainable_percent=99.112,
    ),
    "joint": MethodEntry(
        "rwf.methods.joint:Joint",
        "the whole network trained on the same pictures in random order",
        trainable_percent=99.112,
    ),
    "er": MethodEntry(
        "rwf.methods.er:ER",
        "with each batch of the stream a batch out of a memory",
        "On Tiny Episodic Memories in Continual Learning",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "er_ace": MethodEntry(
        "rwf.methods.er_ace:ERACE",
        "replay in which new pictures compete among their own classes only",
        "New Insights on Reducing Abrupt Representation Change in Online Continual Learning",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "agem": MethodEntry(
        "rwf.methods.agem:AGEM",
        "steps that do not raise the loss on a memory",
        "Efficient Lifelong Learning with A-GEM",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "ewc_pp": MethodEntry(
        "rwf.methods.ewc_pp:EWCpp",
        "weights that mattered for earlier tasks are pulled back",
        "Riemannian Walk for Incremental Learning: Understanding Forgetting and Intransigence",
        needs=("boundaries",),
        trainable_percent=99.112,
    ),
    "mir": MethodEntry(
        "rwf.methods.mir:MIR",
        "replay of the pictures that the next step would hurt most",
        "Online Continual Learning with Maximally Interfered Retrieval",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "gdumb": MethodEntry(
        "rwf.methods.gdumb:GDumb",
        "a balanced memory, and a network trained on it when asked",
        "GDumb: A Simple Approach that Questions Our Progress in Continual Learning",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "pcr": MethodEntry(
        "rwf.methods.pcr:PCR",
        "replay with a contrast of pictures and the class proxies of their batch",
        "PCR: Proxy-based Contrastive Replay for Online Class-Incremental Continual Learning",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "der_pp": MethodEntry(
        "rwf.methods.der_pp:DERpp",
        "replay with labels and with the scores of the time",
        "Dark Experience for General Continual Learning: a Strong, Simple Baseline",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "lode": MethodEntry(
        "rwf.methods.lode:LODE",
        "DER++ with the loss split into new-or-old and which of the new",
        "Loss Decoupling for Task-Agnostic Continual Learning",
        needs=("boundaries", "memory"),
        trainable_percent=99.112,
    ),
    "ema_der_pp": MethodEntry(
        "rwf.methods.ema_der_pp:EMADERpp",
        "DER++ whose averaged weights answer",
        "Improving Online Continual Learning Performance and Stability with Temporal Ensembles",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "ema_rar": MethodEntry(
        "rwf.methods.ema_rar:EMARAR",
        "several augmented steps on each batch and replay, averaged weights answer",
        "Improving Online Continual Learning Performance and Stability with Temporal Ensembles",
        needs=("memory",),
        trainable_percent=99.112,
    ),
    "ncm": MethodEntry(
        "rwf.methods.ncm:NCM",
        "the class whose mean frozen feature is nearest",
        "Distance-Based Image Classification: Generalizing to New Classes at Near-Zero Cost",
    ),
    "slda": MethodEntry(
        "rwf.methods.slda:SLDA",
        "linear discriminant analysis of frozen features, from sums",
        "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis",
    ),
    "ranpac": MethodEntry(
        "rwf.methods.ranpac:RanPAC",
        "ridge regression on random features of the frozen backbone, from sums",
        "RanPAC: Random Projections and Pre-trained Models for Continual Learning",
    ),
    "vpt": MethodEntry(
        "rwf.methods.vpt:VPT",
        "learned tokens in the first blocks: RwF without retrieval",
        "Visual Prompt Tuning",
        trainable_percent=0.08,
    ),
    "l2p": MethodEntry(
        "rwf.methods.l2p:L2P",
        "prompts out of a pool join the sequence",
        "Learning to Prompt for Continual Learning",
        trainable_percent=0.053,
    ),
    "dual_prompt": MethodEntry(
        "rwf.methods.dual_prompt:DualPrompt",
        "prefixes for all pictures, and prefixes of the task chosen by key",
        "DualPrompt: Complementary Prompting for Rehearsal-free Continual Learning",
        needs=("boundaries", "task_count"),
        trainable_percent=0.293,
    ),
    "coda_prompt": MethodEntry(
        "rwf.methods.coda_prompt:CodaPrompt",
        "prefixes as sums of learned components, a share of them a task",
        "CODA-Prompt: COntinual Decomposed Attention-based Prompting for Rehearsal-Free Continual Learning",
        needs=("boundaries", "task_count"),
        trainable_percent=4.436,
    ),
    "online_lora": MethodEntry(
        "rwf.methods.online_lora:OnlineLoRA",
        "low-rank pairs, frozen when the loss is flat",
        "Online-LoRA: Task-free Online Continual Learning via Low Rank Adaptation",
        needs=("memory",),
        trainable_percent=0.17,
    ),
    "aper_adapter": MethodEntry(
        "rwf.methods.aper_adapter:APERAdapter",
        "adapters trained on the first task, then prototypes",
        "Revisiting Class-Incremental Learning with Pre-Trained Models: "
        "Generalizability and Adaptivity are All You Need",
        needs=("boundaries",),
        trainable_percent=1.374,
    ),
    "ease": MethodEntry(
        "rwf.methods.ease:EASE",
        "adapters for each task, prototypes in every one's space",
        "Expandable Subspace Ensemble for Pre-Trained Model-Based Class-Incremental Learning",
        needs=("boundaries", "task_classes"),
        trainable_percent=1.374,
    ),
    "inflora": MethodEntry(
        "rwf.methods.inflora:InfLoRA",
        "a low-rank branch a task, designed not to disturb earlier ones",
        "InfLoRA: Interference-Free Low-Rank Adaptation for Continual Learning",
        needs=("boundaries", "task_classes", "task_count"),
        trainable_percent=0.17,
    ),
}

BENCHMARKS: dict[str, Entry] = {
    "split-cifar100": Entry("rwf.data.benchmarks.cifar:open_cifar100", "CIFAR-100, 100 classes, official split"),
    "split-imagenet-r": Entry(
        "rwf.data.benchmarks.imagenet:open_imagenet_r", "ImageNet-R, 200 classes, 80 % for training by rank"
    ),
    "split-imagenet-sketch": Entry(
        "rwf.data.benchmarks.imagenet:open_imagenet_sketch", "ImageNet-Sketch, 1000 classes, 80 % for training by rank"
    ),
    "split-imagenet-s": Entry("", "what the paper calls Split-ImageNet-S", alias_of="split-imagenet-sketch"),
    "split-renditions": Entry(
        "rwf.data.renditions:renditions", "embedded, synthetic: 100 symbols in 20 styles, drawn on first use"
    ),
    "split-digits": Entry("rwf.data.digits:digits", "embedded: 1,797 real handwritten digits, 10 classes"),
    "split-cub200": Entry("rwf.data.benchmarks.cub:open_cub200", "CUB-200-2011, 200 species, official split"),
}
"""Benchmarks with a name of their own; ``rwf.data`` opens them."""

BENCHMARK_FORMS: dict[str, Entry] = {
    "folder:PATH": Entry("", "pictures in PATH/train/CLASS/ and PATH/test/CLASS/"),
    "parquet:PATH": Entry("", "a dataset in the hub's parquet layout, with a picture and a label column"),
}
"""How a user names data of his own."""

BACKBONES: dict[str, Entry] = {
    "vit_nano_patch8_64.renditions": Entry(
        "", "ships with rwf: a small ViT pre-trained on plain drawings of other symbols than split-renditions has"
    ),
}
"""Backbones whose weights come with the package; ``rwf.vit.weights`` loads them."""

BACKBONE_FORMS: dict[str, Entry] = {
    "TIMM_NAME": Entry("", "a plain ViT of timm with its weights, e.g. vit_base_patch16_224.augreg_in21k"),
    "PATH.safetensors": Entry("", "a weights file whose metadata names its architecture"),
    "TIMM_NAME@PATH.safetensors": Entry("", "a weights file that does not say what it holds"),
    "random:WIDTHxDEPTH": Entry("", "a small ViT with seeded random weights, e.g. random:64x3, for tests"),
    "random:TIMM_NAME": Entry("", "a ViT of timm with seeded random weights, nothing is downloaded"),
}
"""The kinds of names a backbone can have."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that is not registered, with the names that come close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return UserError(f"there is no {kind} {name!r}; did you mean {' or '.join(map(repr, close))}?")
    listed = f"; there are {', '.join(names)}" if names else ""
    return UserError(f"there is no {kind} {name!r}{listed}.")


def load_object(target: str) -> Any:
    """The object "module:Name" points at."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def entry(kind: str, table: Mapping[str, Entry], name: str) -> Entry:
    """The entry of that name, aliases followed."""
    if name not in table:
        raise unknown(kind, name, table)
    found = table[name]
    return entry(kind, table, found.alias_of) if found.alias_of else found


def resolve_method(spec: str) -> type:
    """The class of a registered method, or of "FILE.py:Class"."""
    if not is_file_spec(spec):
        return load_object(entry("method", METHODS, spec).target)
    file, _, name = spec.rpartition(":")
    if not file or name.endswith(".py"):
        raise UserError(f"{spec!r} names no class: write FILE.py:Class.")
    module = load_file(Path(file))
    found = getattr(module, name, None)
    if not isinstance(found, type):
        own = [n for n, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
        raise unknown(f"class in {file} called", name, own)
    return found
