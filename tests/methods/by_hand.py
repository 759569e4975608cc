"""For the methods' own tests: a method on given network input, and its updates written out on copies of its weights."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.vit.forward import ViT
from tests.pictures import picture, tiny_vit


class Pictures:
    """A viewer over network input: the test view of picture i is x[i], its n-th train view x[i] + 0.1 (n + 1)."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __call__(self, images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        return torch.stack([self.x[i] + 0.1 * (v + 1) * (kind == "train") for i, v in zip(ids, visits, strict=True)])

    def batch(self, ids: Sequence[int], labels: Sequence[Hashable]) -> Batch:
        return Batch([picture(i) for i in ids], list(labels), list(ids), self)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def pictures(count: int, seed: int = 0) -> Pictures:
    """Input of ``tests.pictures.tiny_vit``."""
    return Pictures(noise(count, 3, 8, 8, seed=seed))


def bound(method: str, vit: ViT | nn.Module, viewer: Pictures, *, told: Told | None = None, **options: Any) -> Any:
    """A method on this network, in float64."""
    return make_method(method, options).bind(vit, viewer=viewer, told=told).double()  # type: ignore[arg-type]


def needs(method: str, **options: Any) -> frozenset[str]:
    return make_method(method, options).needs


def refuses(method: str, sentence: str, *, told: Told | None = None, **options: Any) -> None:
    """Impossible settings are one sentence that says this."""
    with pytest.raises(UserError, match=sentence) as refused:
        bound(method, tiny_vit(), pictures(1), told=told, **options)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


class ByHand:
    """The trained weights of a learner as leaves of the test's own, which torch's optimiser moves along its losses."""

    def __init__(
        self,
        learner: Any,
        *,
        lr: float,
        head_lr: float | None = None,
        clip: float = 0.0,
        weight_decay: float = 0.0,
        sgd: bool = False,
    ) -> None:
        self.lr, self.head_lr, self.clip, self.weight_decay, self.sgd = lr, head_lr, clip, weight_decay, sgd
        self.leaves: dict[str, Tensor] = {}
        self.norm = 0.0
        """Of the last step's gradient, before it was clipped."""
        self.take(learner)

    def take(self, learner: Any) -> None:
        """The learner's weights as they are now, and a new optimiser."""
        self.leaves = {name: p.detach().clone().requires_grad_() for name, p in learner.trained().items()}
        self.new_optimizer()

    def new_optimizer(self) -> None:
        head = self.lr if self.head_lr is None else self.head_lr
        groups = [
            {"params": [leaf], "lr": head if name.startswith("classifier.") else self.lr}
            for name, leaf in self.leaves.items()
        ]
        self.optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(groups, momentum=0.9, weight_decay=self.weight_decay, foreach=False)
            if self.sgd
            else torch.optim.Adam(groups, weight_decay=self.weight_decay, foreach=False)
        )

    def __getitem__(self, name: str) -> Tensor:
        return self.leaves[name]

    def head(self, features: Tensor) -> Tensor:
        """Scores of the linear head."""
        return features @ self["classifier.weight"].T + self["classifier.bias"]

    def step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        grads = [leaf.grad for leaf in self.leaves.values() if leaf.grad is not None]
        self.norm = sum(float(g.square().sum()) for g in grads) ** 0.5
        if self.clip:
            for grad in grads:
                grad.mul_(min(1.0, self.clip / (self.norm + 1e-6)))
        self.optimizer.step()

    def agrees_with(self, learner: Any, tolerance: float = 1e-10) -> None:
        """The learner has the same weights."""
        trained = learner.trained()
        assert trained.keys() == self.leaves.keys()
        for name, p in trained.items():
            torch.testing.assert_close(p.detach(), self[name].detach(), rtol=tolerance, atol=tolerance, msg=name)


def embedded(vit: ViT, x: Tensor) -> Tensor:
    """The first block's input, by timm alone.  # B 3 P P -> B L d"""
    model = vit.timm
    out: Tensor = model._pos_embed(model.patch_embed(x))
    return out


def block_by_hand(
    block: Any,
    z: Tensor,
    *,
    keys: Tensor | None = None,
    values: Tensor | None = None,
    added: Mapping[str, Tensor] | None = None,
    beside: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """One block of timm with its attention as a formula.  # B L d -> B L d

    ``keys`` and ``values`` (B n d) are attended to as well; ``added`` has by target (q, k, v) a d x d matrix that is
    added to its weights; ``beside`` is a path parallel to the MLP.
    """
    x = block.norm1(z)
    q, k, v = block.attn.qkv(x).chunk(3, dim=-1)
    extra = {name: x @ matrix.T for name, matrix in (added or {}).items()}
    q, k, v = (y + extra[name] if name in extra else y for name, y in zip("qkv", (q, k, v), strict=True))
    if keys is not None and values is not None:
        k, v = torch.cat([keys, k], dim=1), torch.cat([values, v], dim=1)
    q, k, v = (y.unflatten(-1, (block.attn.num_heads, -1)).transpose(1, 2) for y in (q, k, v))
    weights = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
    h = z + block.attn.proj((weights @ v).transpose(1, 2).flatten(2))
    out: Tensor = h + block.mlp(block.norm2(h))
    return out if beside is None else out + beside(h)


def adapted(vit: ViT, weights: Mapping[str, Tensor], x: Tensor, scale: float = 0.1) -> Tensor:
    """The class token behind blocks with one set of adapters: scale (up relu(down h) ) beside each MLP."""
    z = embedded(vit, x)
    for i, block in enumerate(vit.timm.blocks):
        down, down_bias, up, up_bias = (weights[f"adapters.{n}"][i] for n in ("down", "down_bias", "up", "up_bias"))

        def beside(h: Tensor, w: tuple[Tensor, ...] = (down, down_bias, up, up_bias)) -> Tensor:
            return scale * ((h @ w[0].T + w[1]).relu() @ w[2].T + w[3])

        z = block_by_hand(block, z, beside=beside)
    out: Tensor = vit.timm.norm(z)[:, 0]
    return out


def among(logits: Tensor, rows: Sequence[int], allowed: Sequence[int]) -> Tensor:
    """Cross-entropy of a softmax over the allowed classes alone, as published codes have it with local labels."""
    return functional.cross_entropy(logits[:, list(allowed)], torch.tensor([list(allowed).index(r) for r in rows]))
