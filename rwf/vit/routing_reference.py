"""The paper's formulas of the routing layer, written out to be read beside it, and the Hopfield library's layer.

Nothing here is fast and nothing in the package depends on it: it is what the tests hold ``routing`` against.
Names are the paper's (Z, Q, W_Q, K, V, A, P, R); matrices act from the right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rwf.seeds import generator
from rwf.vit.routing import STD, Router, Routing


@dataclass(frozen=True)
class Layer:
    """One routing layer with every matrix explicit: what a setting does without is the identity or zero."""

    Q: Tensor  # m d
    W_Q: Tensor  # d d
    b_Q: Tensor  # d
    W_K: Tensor  # d d
    W_V: Tensor  # d d
    W_O: Tensor  # d d
    b_O: Tensor  # d
    norm_Q: Callable[[Tensor], Tensor]
    norm_Z: Callable[[Tensor], Tensor]
    beta: float
    steps: int = 1
    uniform: bool = False


def layer_of(router: Router) -> Layer:
    """The layer a router computes, over the router's own tensors, so that gradients arrive at them."""
    like, d = router.queries, router.settings.width
    one, zero = torch.eye(d, dtype=like.dtype, device=like.device), like.new_zeros(d)

    def given(tensor: Tensor | None, otherwise: Tensor) -> Tensor:
        return otherwise if tensor is None else tensor

    return Layer(
        Q=router.queries,
        W_Q=given(router.w_q, one),
        b_Q=given(router.b_q, zero),
        W_K=given(router.w_k, one),
        W_V=given(router.w_v, one),
        W_O=given(router.w_o, one),
        b_O=given(router.b_o, zero),
        norm_Q=router.norm_q,
        norm_Z=router.norm_z,
        beta=router.beta,
        steps=router.settings.steps,
        uniform=router.settings.uniform,
    )


def layers_of(routing: Routing) -> dict[int, Layer]:
    return {i: layer_of(routing._router(i)) for i in routing.routed}


def retrieve(layer: Layer, Z: Tensor) -> tuple[Tensor, Tensor]:
    """P = rho(beta Q~ K^T) V and A = rho(beta Q~ K^T).  # B L d -> B m d, B m L"""
    U = layer.norm_Z(Z)  # B L d
    K = U @ layer.W_K  # B L d
    V = U @ layer.W_V  # B L d
    Q_tilde = layer.norm_Q(layer.Q) @ layer.W_Q + layer.b_Q  # m d
    state = Q_tilde.expand(Z.shape[0], -1, -1)  # B m d
    A = torch.full((*state.shape[:2], Z.shape[1]), 1 / Z.shape[1], dtype=Z.dtype, device=Z.device)  # B m L
    if not layer.uniform:
        for _ in range(layer.steps):
            A = (layer.beta * state @ K.transpose(1, 2)).softmax(dim=-1)
            state = A @ K
    P = A @ V @ layer.W_O + layer.b_O  # B m d
    return P, A


def routed_block(block: Any, layer: Layer, Z: Tensor, keep: bool = False) -> Tensor:
    """A pre-norm block of timm on R = [P; Z]; of what attention gives, only the rows of Z go on.  # B L d -> B L d

    ``block`` is used as timm has it: its norm1 and attention see all of R as ordinary tokens. With ``keep`` the
    prompts are ordinary tokens for good, put at the end so that row 0 stays what it was.  # B L d -> B L+m d
    """
    P, _ = retrieve(layer, Z)
    if keep:
        out: Tensor = block(torch.cat([Z, P], dim=1))
        return out
    R = torch.cat([P, Z], dim=1)  # B m+L d
    R_tilde = R + block.drop_path1(block.ls1(block.attn(block.norm1(R))))
    Z_tilde = R_tilde[:, P.shape[1] :]  # B L d
    out = Z_tilde + block.drop_path2(block.ls2(block.mlp(block.norm2(Z_tilde))))
    return out


def forward_features(model: Any, layers: Mapping[int, Layer], x: Tensor, keep: bool = False) -> Tensor:
    """What timm's ``forward_features`` gives, with some blocks routed.  # B 3 P P -> B L d"""
    Z = model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(x))))
    length = Z.shape[1]
    for i, block in enumerate(model.blocks):
        Z = routed_block(block, layers[i], Z, keep) if i in layers else block(Z)
    out: Tensor = model.norm(Z)[:, :length]
    return out


class HopfieldPooling(nn.Module):
    """What the layer HopfieldPooling of the library hopfield-layers computes, with its defaults and option names.

    m learned state patterns (queries) retrieve from the stored patterns (keys) and return mixtures of the projected
    patterns (values). Each of the three has its own LayerNorm; a *static* pattern has no projection. Weights are
    used as ``x @ W.T``, the rows of ``in_proj_weight`` are queries, keys, values, as far as these are not static.
    """

    def __init__(
        self,
        input_size: int,
        quantity: int = 1,
        *,
        num_heads: int = 1,
        scaling: float | None = None,
        update_steps_max: int = 0,
        update_steps_eps: float = 1e-4,
        input_bias: bool = True,
        state_pattern_as_static: bool = False,
        stored_pattern_as_static: bool = False,
        pattern_projection_as_static: bool = False,
        disable_out_projection: bool = False,
        normalize_state_pattern: bool = True,
        normalize_state_pattern_affine: bool = True,
        normalize_stored_pattern: bool = True,
        normalize_stored_pattern_affine: bool = True,
        normalize_pattern_projection: bool = True,
        normalize_pattern_projection_affine: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        d = input_size
        self.static = (state_pattern_as_static, stored_pattern_as_static, pattern_projection_as_static)
        if any(self.static) and num_heads > 1:
            raise ValueError("static patterns are written out for one head only")
        self.num_heads, self.scaling = num_heads, (d // num_heads) ** -0.5 if scaling is None else scaling
        self.update_steps_max, self.update_steps_eps = update_steps_max, update_steps_eps
        projected = 3 - sum(self.static)
        # The bias has entries for the values even where these are static: they count as trained and do nothing.
        biases = projected + (1 if pattern_projection_as_static else 0)
        self.pooling_weights = nn.Parameter(torch.empty(1, quantity, d))
        self.in_proj_weight = nn.Parameter(torch.empty(projected * d, d))
        self.in_proj_bias = nn.Parameter(torch.zeros(biases * d)) if input_bias else None
        self.out_proj = nn.Identity() if disable_out_projection else nn.utils.skip_init(nn.Linear, d, d)
        self.norm_state_pattern = _norm(d, normalize_state_pattern, normalize_state_pattern_affine)
        self.norm_stored_pattern = _norm(d, normalize_stored_pattern, normalize_stored_pattern_affine)
        self.norm_pattern_projection = _norm(d, normalize_pattern_projection, normalize_pattern_projection_affine)
        for name, weight in self.named_parameters():
            if name in ("pooling_weights", "in_proj_weight", "out_proj.weight"):
                nn.init.normal_(weight, std=STD, generator=generator(seed, f"hopfield_pooling.{name}"))
            elif name == "out_proj.bias":
                nn.init.zeros_(weight)

    def forward(self, Z: Tensor) -> Tensor:
        return self.retrieve(Z)[0].flatten(1)  # B m*d

    def retrieve(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Pooled patterns and associations.  # B L d -> B m d, B H m L"""
        queries = self.norm_state_pattern(self.pooling_weights).expand(Z.shape[0], -1, -1)
        q, k, v = self._project(queries, self.norm_stored_pattern(Z), self.norm_pattern_projection(Z))  # B H . c
        xi = self._associate(q, k)
        pooled = (xi @ v).transpose(1, 2).flatten(2)  # B m d
        return self.out_proj(pooled), xi

    def _project(self, *patterns: Tensor) -> list[Tensor]:
        """Queries, keys and values by heads; a static one is its pattern as it is."""
        d, out, rows = patterns[0].shape[-1], [], 0
        for pattern, static in zip(patterns, self.static, strict=True):
            if not static:
                bias = None if self.in_proj_bias is None else self.in_proj_bias[rows : rows + d]
                pattern = F.linear(pattern, self.in_proj_weight[rows : rows + d], bias)
                rows += d
            out.append(pattern.unflatten(-1, (self.num_heads, -1)).transpose(1, 2))  # B H . c
        return out

    def _associate(self, q: Tensor, k: Tensor) -> Tensor:
        """One softmax, then up to ``update_steps_max`` more, each with the retrieved keys as queries.

        A head stops for the whole batch as soon as the last step changed its associations by no more than eps in
        every picture: what a picture gives then depends on its neighbours, which is why ``routing`` takes a fixed
        number of steps instead.
        """
        xi = (self.scaling * q @ k.transpose(-2, -1)).softmax(dim=-1)  # B H m L
        active = torch.ones(self.num_heads, 1, 1, dtype=torch.bool, device=xi.device)
        for _ in range(self.update_steps_max):
            new = (self.scaling * (xi @ k) @ k.transpose(-2, -1)).softmax(dim=-1)
            new = torch.where(active, new, xi)
            change = (new - xi).detach().norm(dim=(2, 3)).amax(dim=0)  # H
            xi, active = new, (change > self.update_steps_eps).view(-1, 1, 1)
            if not active.any():
                break
        return xi


def _norm(width: int, enabled: bool, affine: bool) -> nn.Module:
    return nn.LayerNorm(width, elementwise_affine=affine) if enabled else nn.Identity()
