"""A timm ViT with routed blocks as an ordinary module, for anybody's own training loop."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from rwf.vit.door import check_plain
from rwf.vit.forward import ViT
from rwf.vit.routing import Routing
from rwf.vit.sockets import Plug, Prefix


class Watched(Plug):
    """A routing whose maps are kept: after a forward with this plug, ``maps`` holds A (B m L) by block."""

    def __init__(self, routing: Routing) -> None:
        self.routing = routing
        self.maps: dict[int, Tensor] = {}

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        if block in self.routing.routed:  # asked first of all in a block, with the block's own input
            self.maps[block] = self.routing.maps(block, z).detach()
        return self.routing.tokens(block, z)

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return self.routing.prefix(block, z)


class RoutedViT(nn.Module):
    """A frozen ViT, its routing, and the classifier the model came with; the last two are trained.

    The ViT stays in evaluation mode under ``train()`` too. The state holds everything, so one file saved with
    ``torch.save(routed.state_dict(), path)`` is enough to go on.
    """

    def __init__(self, vit: ViT, routing: Routing, head: nn.Module) -> None:
        super().__init__()
        self.vit, self.routing, self.head = vit, routing, head

    def forward(self, x: Tensor) -> Tensor:
        """Logits, or features where the model had no classifier, as timm's model gives.  # B 3 P P -> B C"""
        out: Tensor = self.head(self.vit.features(x, plug=self.routing))
        return out

    def forward_features(self, x: Tensor) -> Tensor:
        """All tokens of the pictures after the final norm (kept prompts are not among them).  # B 3 P P -> B L d"""
        return self.vit.encode(x, plug=self.routing, read=slice(0, self.vit.prefix_tokens + self.vit.patches))

    def trainable_parameters(self) -> list[nn.Parameter]:
        """What an optimizer should get."""
        return [p for p in self.parameters() if p.requires_grad]

    @torch.no_grad()
    def maps(self, x: Tensor) -> dict[int, Tensor]:
        """Where each prompt looks, by routed block; columns are tokens, class token first.  # B 3 P P -> B m L"""
        watched = Watched(self.routing)
        self.vit.features(x, plug=watched)
        return watched.maps


def route(model: nn.Module, blocks: int = 3, prompts: int = 30, *, seed: int = 0, **options: Any) -> RoutedViT:
    """A routed copy of a timm ViT; the model given is not touched, in nothing.

    ``options`` are those of ``Routing``: reading, placement, kv, norm, train, beta, steps, keep, ... For another
    number of classes give a model with that head (``timm.create_model(..., num_classes=10)``); without a classifier
    (``num_classes=0``) the module returns features and only the routing is trained.
    """
    check_plain(model)
    twin: Any = copy.deepcopy(model)
    head: nn.Module = twin.get_classifier()
    like = next(twin.parameters())
    vit = ViT(twin, name=getattr(twin, "pretrained_cfg", {}).get("architecture") or type(model).__name__)
    routing = Routing(
        width=vit.width,
        depth=vit.depth,
        blocks=blocks,
        prompts=prompts,
        seed=seed,
        backbone=vit.timm.blocks,
        **options,
    )
    return RoutedViT(vit, routing.to(like.device, like.dtype), head.requires_grad_(True))
