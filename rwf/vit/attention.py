"""Attention of one timm block with extra keys and values, low-rank additions and few query rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from timm.layers import Attention
from torch import Tensor, nn
from torch.nn import functional as F

from rwf.vit.sockets import LowRank, Prefix

Kernel = Literal["auto", "sdpa", "explicit"]


def attend(
    attn: Attention,
    norm: nn.Module,
    x: Tensor,
    *,
    rows: slice | None = None,
    prefix: Prefix | None = None,
    delta: Mapping[str, LowRank] | None = None,
    kernel: Kernel = "auto",
) -> Tensor:
    """What ``attn(x)`` gives for ``rows`` (default: all), with the sockets prefix and delta filled.

    ``x`` is already normalised by ``norm`` (the block's norm1), which is needed for a prefix made from tokens.  # B L d
    Queries, gate and projection are computed for ``rows`` only, keys and values for all of ``x``; of prefix tokens
    only keys and values are made. Low-rank additions of k and v apply to prefix tokens too: they are part of the
    block's own layer. The k-norm applies to keys made from tokens; given keys are used as they are.
    """
    delta = delta or {}
    if rows is None:
        own = x
        q, k, v = attn.qkv(x).chunk(3, dim=-1)
        q, k, v = (_add(part, x, delta.get(name)) for part, name in ((q, "q"), (k, "k"), (v, "v")))
    else:
        own = x[:, rows]  # B R d
        q = _add(_part(attn.qkv, own, 0, attn.attn_dim), own, delta.get("q"))  # B R a
        k, v = _keys_values(attn, x, delta)  # B L a
    q, k, v = attn.q_norm(_heads(attn, q)), attn.k_norm(_heads(attn, k)), _heads(attn, v)  # B H . c
    bias = None
    if prefix is not None:
        more_k, more_v = _prefix_keys_values(attn, norm, prefix, delta)
        k, v = (torch.cat([_like(more, part), part], dim=2) for more, part in ((more_k, k), (more_v, v)))
        if prefix.bias:
            bias = q.new_zeros(k.shape[2])  # n+L
            bias[: more_k.shape[2]] = prefix.bias
    y = _mix(attn, q, k, v, kernel, bias).transpose(1, 2).flatten(2)  # B R a
    y = attn.norm(y)
    if attn.gate is not None:
        y = y * attn.gate(own).sigmoid()
    return attn.proj_drop(_add(attn.proj(y), y, delta.get("proj")))  # B R d


def _mix(attn: Attention, q: Tensor, k: Tensor, v: Tensor, kernel: Kernel, bias: Tensor | None = None) -> Tensor:
    """softmax(q k^T + bias) v in the form that is fast here: torch's CPU flash attention is slow in bfloat16."""
    if kernel == "explicit" or (kernel == "auto" and _bfloat16_on_cpu(q)):
        scores = (q * attn.scale) @ k.transpose(-2, -1)  # B H R n+L
        return (scores if bias is None else scores + bias).softmax(dim=-1) @ v
    if bias is not None:
        bias = bias.expand(1, 1, q.shape[2], -1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=attn.scale)


def _bfloat16_on_cpu(q: Tensor) -> bool:
    if q.device.type != "cpu":
        return False
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else q.dtype
    return dtype == torch.bfloat16


def _part(layer: nn.Linear, x: Tensor, start: int, stop: int) -> Tensor:
    """The outputs start..stop of a linear layer, and only these."""
    return F.linear(x, layer.weight[start:stop], None if layer.bias is None else layer.bias[start:stop])


def _add(y: Tensor, x: Tensor, low_rank: LowRank | None) -> Tensor:
    return y if low_rank is None else y + low_rank(x)


def _keys_values(attn: Attention, x: Tensor, delta: Mapping[str, LowRank]) -> tuple[Tensor, Tensor]:
    k, v = _part(attn.qkv, x, attn.attn_dim, 3 * attn.attn_dim).chunk(2, dim=-1)
    return _add(k, x, delta.get("k")), _add(v, x, delta.get("v"))


def _prefix_keys_values(
    attn: Attention, norm: nn.Module, prefix: Prefix, delta: Mapping[str, LowRank]
) -> tuple[Tensor, Tensor]:
    """Keys and values of a prefix, by heads.  # (B or 1) H n c"""
    if prefix.tokens is not None:
        k, v = _keys_values(attn, norm(prefix.tokens), delta)
        return attn.k_norm(_heads(attn, k)), _heads(attn, v)
    if prefix.keys is None or prefix.values is None:
        raise ValueError("a Prefix needs either tokens, or keys and values")
    return _heads(attn, prefix.keys), _heads(attn, prefix.values)


def _heads(attn: Attention, x: Tensor) -> Tensor:
    return x.unflatten(-1, (attn.num_heads, attn.head_dim)).transpose(1, 2)  # B H L c


def _like(more: Tensor, part: Tensor) -> Tensor:
    """One prefix for the whole batch is repeated (without a copy); autocast may have changed the type."""
    return more.to(part.dtype).expand(part.shape[0], -1, -1, -1)
