"""How the embedded backbone was made: a small ViT trained on plain pictures of symbols that the stream does not have.

``python -m rwf.run.pretrain --out FOLDER`` starts, or goes on from the last checkpoint in FOLDER after a stop or a
kill; every step is a function of the seed and its number, so both ways lead to the same weights. Its files are
``log.jsonl``, ``checkpoint.safetensors`` and, at the end, the weights and their card.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import timm
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from rwf.data.world import plain
from rwf.data.world.glyphs import font_hashes
from rwf.data.world.symbols import PRETRAIN
from rwf.errors import UserError
from rwf.files import FolderLock, JsonLines, make_folder, write_bytes, write_json
from rwf.run.console import Reporter
from rwf.seeds import hash32

NAME = "vit_nano_patch8_64.renditions"
ARCHITECTURE = "vit_tiny_patch16_224"  # timm's, with the sizes below in place of its own
MEAN, STD, PATCH = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 8


@dataclass(frozen=True)
class Recipe:
    """Everything that the weights depend on, besides versions and the CPU."""

    width: int = 128
    """A multiple of 32: heads are 32 wide."""
    depth: int = 8
    steps: int = 16000
    batch: int = 64
    lr: float = 1e-3
    weight_decay: float = 0.05
    warmup: int = 200
    smoothing: float = 0.1
    drop: float = 0.5
    """Share of the patch tokens left out of a training picture, which is quicker and asks more of the rest ..."""
    drop_until: float = 0.8
    """... in this part of the steps; then all tokens, as in use."""
    settle: float = 0.3
    """Part of the steps in which pictures become as varied as the stream's; without it nothing is learned for long."""
    shape: float = 10.0
    """Weight of the second task, which says where things are: to redraw the symbol, coarse, from the class token."""
    clip: float = 1.0
    seed: int = 0
    bf16: bool = True
    """Matrix products in bfloat16; attention is then written out, the faster way on a CPU."""

    def __post_init__(self) -> None:
        if self.width % 32 or min(self.width, self.depth, self.steps, self.batch) < 1:
            raise UserError("the recipe cannot be used: width is a multiple of 32, the other sizes are 1 or more.")

    def sizes(self) -> dict[str, Any]:
        """What differs from timm's architecture."""
        sizes = {"img_size": plain.SIDE, "patch_size": PATCH, "num_classes": len(PRETRAIN)}
        return sizes | {"embed_dim": self.width, "depth": self.depth, "num_heads": self.width // 32}


def pretrain(
    out: Path, recipe: Recipe, *, save_every: float = 120.0, stop_after: int | None = None, held_out: int = 10
) -> dict[str, Any]:
    """Trains to the end (or ``stop_after`` steps in all) and gives the card, empty if stopped before the end.

    ``held_out`` pictures of each class, which no step saw, say on the card how good the weights are.
    """
    make_folder(out)
    last = recipe.steps if stop_after is None else min(stop_after, recipe.steps)
    with FolderLock(out), torch.random.fork_rng(devices=[]), JsonLines(out / "log.jsonl") as log:
        run = Run(recipe)
        run.load(out / "checkpoint.safetensors", log)
        saved = time.monotonic()
        with Reporter(recipe.steps, NAME, run.step) as reporter, ThreadPoolExecutor(1) as drawer:
            reporter.say(f"step {run.step} of {recipe.steps}, {run.seconds / 60:.1f} min so far, kept in {out}")
            coming = drawer.submit(draw, run.step, recipe)
            while run.step < last:
                drawn, coming = coming, drawer.submit(draw, run.step + 1, recipe)
                row = run.train_step(drawn)
                if row:
                    log.append(row)
                    line = f"loss {row['loss']:.3f}, {row['accuracy']:.1f} %, {row['images_per_second']:.0f}/s"
                    reporter.step(run.step, line)
                    if not reporter.console.is_terminal and run.step % 250 == 0:
                        reporter.say(f"step {run.step} of {recipe.steps}: {line}, {run.seconds / 60:.1f} min")
                if run.step == last or time.monotonic() - saved > save_every:
                    run.save(out / "checkpoint.safetensors", log)
                    saved = time.monotonic()
            coming.cancel()
        if run.step < recipe.steps:
            return {}
        card = finish(out, run, held_out)
    reporter.say(f"{card['accuracy']:.1f} % on held-out plain pictures; {card['file']} and its card are in {out}")
    return card


class Run:
    """Model, optimizer and where they are; saved and restored as one file."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        torch.manual_seed(hash32(recipe.seed, "pretrain"))
        self.model = build(recipe)
        self.redraw = nn.Linear(recipe.width, 2 * plain.SHAPE**2)  # for the second task, not shipped
        self.shapes = torch.from_numpy(plain.shapes()).float() / 255  # classes SHAPE*SHAPE
        self.dropper = timm.layers.PatchDropout(recipe.drop, num_prefix_tokens=1)
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for p in [*self.model.parameters(), *self.redraw.parameters()]:
            (matrices if p.ndim > 1 and p.shape[0] > 1 else others).append(p)
        self.parameters = matrices + others
        groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, 0.98), fused=True)
        self.step, self.seconds = 0, 0.0
        self._since: list[tuple[float, ...]] = []  # losses, share right, seconds: of the steps not yet logged

    def train_step(self, drawn: Future[tuple[np.ndarray, ...]], every: int = 25) -> dict[str, Any] | None:
        """One step; every so often a row for the log."""
        start, recipe = time.monotonic(), self.recipe
        pixels, labels, places = (torch.from_numpy(a) for a in drawn.result())
        torch.manual_seed(hash32(recipe.seed, "pretrain step", self.step))
        self.model.train()
        self.model.patch_drop = self.dropper if self.step < recipe.drop_until * recipe.steps else nn.Identity()
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.lr * schedule(self.step, recipe)
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
            tokens = self.model.forward_features(normalised(pixels))  # B 1+P d
            features = self.model.forward_head(tokens, pre_logits=True)
            scores, shapes = self.model.head(features).float(), self.redraw(features).float()
        loss = nn.functional.cross_entropy(scores, labels, label_smoothing=recipe.smoothing)
        wanted = torch.cat([self.shapes[labels], places.float() / 255], dim=1)
        drawn_wrong = nn.functional.binary_cross_entropy_with_logits(shapes, wanted)
        total = loss + recipe.shape * drawn_wrong
        if not total.isfinite():
            raise UserError(f"the loss is no longer a number at step {self.step}: take a lower lr and another folder.")
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        nn.utils.clip_grad_norm_(self.parameters, recipe.clip)
        self.optimizer.step()
        self.step += 1
        took = time.monotonic() - start
        self.seconds += took
        self._since.append((loss.item(), drawn_wrong.item(), (scores.argmax(1) == labels).float().mean().item(), took))
        if self.step % every and self.step != recipe.steps:
            return None
        losses, shapes_, right, took = (sum(column) for column in zip(*self._since, strict=True))
        count, self._since = len(self._since), []
        return {
            "step": self.step,
            "loss": round(losses / count, 4),
            "shape_loss": round(shapes_ / count, 4),
            "accuracy": round(100 * right / count, 2),
            "images_per_second": round(count * recipe.batch / took, 1),
        }

    def save(self, path: Path, log: JsonLines) -> None:
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"redraw.{k}": v for k, v in self.redraw.state_dict().items()}
        for i, p in enumerate(self.parameters):
            tensors |= {f"{key}.{i}": self.optimizer.state[p][key] for key in ("exp_avg", "exp_avg_sq", "step")}
        extra = {"step": self.step, "seconds": self.seconds, "log": log.sync(), "recipe": asdict(self.recipe)}
        write_bytes(path, save(tensors, metadata={"run": json.dumps(extra)}))

    def load(self, path: Path, log: JsonLines) -> None:
        """Goes back to the checkpoint, or to the beginning if there is none."""
        if not path.exists():
            log.cut_back(0)
            return
        with safe_open(path, "pt") as file:
            extra = json.loads(file.metadata()["run"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if extra["recipe"] != asdict(self.recipe):
            raise UserError(f"{path} belongs to another recipe: go on with that one or choose an empty folder.")
        for name, part in (("model.", self.model), ("redraw.", self.redraw)):
            part.load_state_dict({k.removeprefix(name): v for k, v in tensors.items() if k.startswith(name)})
        for i, p in enumerate(self.parameters):
            self.optimizer.state[p] = {key: tensors[f"{key}.{i}"].clone() for key in ("exp_avg", "exp_avg_sq", "step")}
        self.step, self.seconds = extra["step"], extra["seconds"]
        log.cut_back(extra["log"])


def build(recipe: Recipe) -> Any:
    """The model as timm builds it, its attention written out for bfloat16."""
    model: Any = timm.create_model(ARCHITECTURE, **recipe.sizes())
    for block in model.blocks:
        block.attn.fused_attn = not recipe.bf16
    # Learned from here, not from noise: otherwise the first hour is spent finding out where a patch was.
    grid = timm.layers.build_sincos2d_pos_embed(list(model.patch_embed.grid_size), dim=recipe.width)
    with torch.no_grad():
        model.pos_embed[0, 1:] = grid
    return model


def normalised(pixels: Tensor) -> Tensor:
    """uint8 to the network's input.  # B 3 H W"""
    mean, std = (torch.tensor(v)[:, None, None] for v in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


def draw(step: int, recipe: Recipe) -> tuple[np.ndarray, ...]:
    """The pictures of a step, their labels and where their ink is; varied as far as is due by then."""
    ramp = recipe.settle * recipe.steps
    return plain.batch(step, recipe.batch, recipe.seed, vary=min(100, int(100 * step / ramp)) if ramp else 100)


def schedule(step: int, recipe: Recipe) -> float:
    """The learning rate's factor: a linear start, then half a cosine down to nothing."""
    if step < recipe.warmup:
        return (step + 1) / recipe.warmup
    return 0.5 * (1 + math.cos(math.pi * (step - recipe.warmup) / max(1, recipe.steps - recipe.warmup)))


@torch.inference_mode()
def accuracy(model: Any, pixels: np.ndarray, labels: np.ndarray, bf16: bool) -> float:
    """Percent right."""
    model.eval()
    right = 0
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        for i in range(0, len(labels), 256):
            scores = model(normalised(torch.from_numpy(pixels[i : i + 256])))
            right += int((scores.argmax(1).numpy() == labels[i : i + 256]).sum())
    return 100 * right / len(labels)


def finish(out: Path, run: Run, held_out: int) -> dict[str, Any]:
    """Writes the weights in half precision, and the card that says where they come from."""
    recipe, half = run.recipe, {key: value.half().contiguous() for key, value in run.model.state_dict().items()}
    run.model.load_state_dict({key: value.float() for key, value in half.items()})  # the card is about what is shipped
    run.model.patch_drop = nn.Identity()
    found = accuracy(run.model, *plain.held_out(held_out, recipe.seed), bf16=False)
    metadata = {
        "architecture": ARCHITECTURE,
        **{key: str(value) for key, value in recipe.sizes().items()},
        "mean": ",".join(map(str, MEAN)),
        "std": ",".join(map(str, STD)),
    }
    content = save(half, metadata=metadata)
    write_bytes(out / f"{NAME}.safetensors", content)
    card = {
        "name": NAME,
        "what": "a small plain ViT for the embedded world; synthetic data, for a first look and for tests",
        "file": f"{NAME}.safetensors",
        "sha256": hashlib.sha256(content).hexdigest(),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "data": f"{len(PRETRAIN)} symbols, none of them in split-renditions, in the styles {', '.join(plain.STYLES)}; "
        f"{recipe.steps * recipe.batch:,} pictures, each drawn for one step",
        "symbols_sha256": hashlib.sha256("".join(PRETRAIN).encode()).hexdigest(),
        "fonts": font_hashes(),
        "accuracy": found,
        "accuracy_on": f"{held_out} held-out plain pictures of every pre-training class, in single precision",
        "minutes": round(run.seconds / 60, 1),
        "command": "python -m rwf.run.pretrain --out FOLDER",
        "recipe": asdict(recipe),
        "metadata": metadata,
        "versions": {"torch": torch.__version__, "timm": timm.__version__, "pillow": PIL.__version__},
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }
    write_json(out / f"{NAME}.json", card)
    return card


def main(out: Path, recipe: Recipe = Recipe(), save_every: float = 120.0, stop_after: int | None = None) -> None:
    """Pre-trains the backbone of the embedded world, or goes on with it.

    Args:
        out: The folder for log, checkpoint, weights and card.
        recipe: What the weights depend on.
        save_every: Seconds between checkpoints.
        stop_after: Stop when this many steps are done; the same command without it goes on.
    """
    pretrain(out, recipe, save_every=save_every, stop_after=stop_after)


if __name__ == "__main__":
    import sys

    import tyro

    try:
        tyro.cli(main, config=(tyro.conf.OmitArgPrefixes,))
    except UserError as error:
        sys.exit(f"rwf: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from the last checkpoint")
