"""Routing without Forgetting: prompts retrieved from a block's own tokens, in the form that computes little.

The same formulas written out beside the paper are in ``routing_reference``; tests hold both equal.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rwf.errors import UserError
from rwf.seeds import generator
from rwf.vit.sockets import Plug, Prefix

Reading = Literal["hopfield_pooling", "equations"]
Placement = Literal["first", "last"]
KeysValues = Literal["identity", "random", "backbone"]
TokenNorm = Literal["none", "plain", "norm1"]
Train = Literal["q", "out", "direct", "none"]
TrainKV = Literal["none", "k", "v", "both"]

STD = 0.02  # of every random matrix, as in the Hopfield library
EPS = 1e-5  # of the LayerNorms that are the router's own, as in the Hopfield library
VIT_B16 = 86_567_656  # parameters of ViT-B/16 with its 1000-class head: what the paper's percentages are of


def paper_percent(trained: int, digits: int = 1) -> float:
    """Trained numbers as a percentage of ViT-B/16, cut off after ``digits`` decimals.

    Cutting off instead of rounding, and a denominator with the 1000-class head, is an inference: only so do the
    paper's figures 0.7, 2.1, 3.5, 4.9, 7.1, 8.5 and 2.13 fit one number a block. The paper does not say it.
    """
    return (100 * 10**digits * trained // VIT_B16) / 10**digits


@dataclass(frozen=True)
class Settings:
    """What all routers of a model have in common; refuses what cannot be."""

    width: int
    prompts: int
    reading: Reading
    beta: float | None
    kv: KeysValues
    norm: TokenNorm | None
    train: Train
    uniform: bool
    steps: int
    train_kv: TrainKV
    seed: int

    def __post_init__(self) -> None:
        for name, allowed in (("reading", Reading), ("kv", KeysValues), ("train", Train), ("train_kv", TrainKV)):
            check_choice(name, getattr(self, name), get_args(allowed))
        if self.norm is not None:
            check_choice("norm", self.norm, get_args(TokenNorm))
        if self.prompts < 1:
            raise UserError(f"prompts={self.prompts} leaves nothing to route: take 1 or more.")
        if not 1 <= self.steps <= 3:
            raise UserError(f"steps={self.steps} is not a number of retrieval steps: take 1, 2 or 3.")
        if self.beta is not None and not (math.isfinite(self.beta) and self.beta > 0):
            raise UserError(f"beta={self.beta} is not an inverse temperature: take a finite number above 0.")
        if self.uniform and (self.train != "none" or self.train_kv != "none" or self.steps != 1):
            raise UserError(
                "uniform prompts have nothing to train or iterate: set train='none', train_kv='none', steps=1."
            )

    @property
    def library(self) -> bool:
        """Whether biases and a LayerNorm on the queries belong to it."""
        return self.reading == "hopfield_pooling"

    @property
    def token_norm(self) -> TokenNorm:
        return self.norm or ("plain" if self.library else "none")


class Router(nn.Module):
    """m prompts out of the tokens of one block.

    What is trained is a parameter, what is frozen a buffer: ``parameters()`` are exactly the trained numbers. Frozen
    matrices are in the state all the same, since without them a saved router would be another function. Matrices act
    from the right, as in the paper; one that would be the identity or zero is None.
    """

    queries: Tensor  # m d
    w_q: Tensor | None  # d d
    b_q: Tensor | None  # d
    w_k: Tensor | None  # d d
    w_v: Tensor | None  # d d
    w_o: Tensor | None  # d d
    b_o: Tensor | None  # d

    def __init__(self, settings: Settings, block: int, backbone: nn.Module | None) -> None:
        super().__init__()
        self.settings = settings
        self.beta = settings.width**-0.5 if settings.beta is None else float(settings.beta)
        d, train, library = settings.width, settings.train, settings.library
        queries = _draw(settings, "queries", block, settings.prompts)
        w_q = _draw(settings, "w_q", block, d)
        if train in ("direct", "none"):
            queries = _effective(queries, w_q, library)  # where "q" with this seed starts
        self.norm_q = nn.LayerNorm(d, eps=EPS) if library and train in ("q", "out") else nn.Identity()
        self._hold("queries", queries, train != "none")
        self._hold("w_q", w_q if train == "q" else None, True)
        self._hold("b_q", torch.zeros(d) if train == "q" and library else None, True)
        self._hold("w_o", _draw(settings, "w_o", block, d) if train == "out" else None, True)
        self._hold("b_o", torch.zeros(d) if train == "out" and library else None, True)
        for i, name in enumerate("kv"):
            trained = settings.train_kv in (name, "both")
            self._hold(f"w_{name}", _token_matrix(settings, block, i, trained, backbone), trained)
        self.norm_z = _token_norm(settings, backbone)

    def _hold(self, name: str, value: Tensor | None, trained: bool) -> None:
        if trained:
            self.register_parameter(name, None if value is None else nn.Parameter(value))
        else:
            self.register_buffer(name, value)

    def effective_queries(self) -> Tensor:
        """Q~: the queries as they meet the keys; depends on no picture, hence m x d numbers are all it can be."""
        q: Tensor = self.norm_q(self.queries)
        if self.w_q is not None:
            q = q @ self.w_q if self.b_q is None else torch.addmm(self.b_q, q, self.w_q)
        return q  # m d

    def forward(self, z: Tensor) -> Tensor:
        """Prompts of a block's input: (A U) W_V, so that W_V meets m rows instead of L.  # B L d -> B m d"""
        u: Tensor = self.norm_z(z)  # B L d, normed once for keys and values
        p = u.mean(dim=1, keepdim=True) if self.settings.uniform else self._association(u) @ u  # B (1 or m) d
        if self.w_v is not None:
            p = p @ self.w_v
        if self.w_o is not None:
            p = F.linear(p, self.w_o.T, self.b_o)
        return p.expand(-1, self.settings.prompts, -1)  # B m d

    def association(self, z: Tensor) -> Tensor:
        """A: for each prompt a distribution over the tokens.  # B L d -> B m L"""
        if self.settings.uniform:
            return z.new_full((z.shape[0], self.settings.prompts, z.shape[1]), 1 / z.shape[1])
        return self._association(self.norm_z(z))

    def _association(self, u: Tensor) -> Tensor:
        """softmax(beta Q~ W_K^T U^T): W_K meets the m queries instead of the L tokens, once for the whole batch."""
        left = self._to_tokens(self.effective_queries())  # m d
        scores = F.linear(u, left).transpose(1, 2)  # B m L
        for _ in range(self.settings.steps - 1):
            pattern = scores.softmax(dim=-1) @ u  # B m d
            if self.w_k is not None:
                pattern = pattern @ self.w_k  # what the library retrieves: xi K
            scores = self._to_tokens(pattern) @ u.transpose(1, 2)
        return scores.softmax(dim=-1)

    def _to_tokens(self, q: Tensor) -> Tensor:
        """beta q W_K^T: a query for keys becomes one for tokens."""
        q = self.beta * q
        return q if self.w_k is None else q @ self.w_k.T


class Routing(nn.Module, Plug):
    """The routers of a ViT as a plug: prompts are attended to and dropped, or with ``keep`` stay as tokens.

    - ``width``, ``depth``: of the ViT; ``blocks`` of its blocks are routed, the first or the last (``placement``).
    - ``reading``: what the paper's layer is taken to be. ``equations`` is its formulas, without norm and bias;
      ``hopfield_pooling`` the library layer it names: affine LayerNorm and bias on the queries, plain LayerNorm on
      the tokens.
    - ``beta``: inverse temperature, 1/sqrt(width) if None. ``steps``: retrievals, one in the paper.
    - ``kv``: what W_K and W_V are (or start from, where ``train_kv`` trains them): nothing, random numbers, or the
      block's own key and value weights without bias.
    - ``norm``: of the tokens before keys and values; ``plain`` has no weights, ``norm1`` is the block's own, None as
      the reading says.
    - ``train``: ``q`` queries and W_Q (the paper); ``out`` queries, used as they are, and an output matrix W_O;
      ``direct`` only the m x d effective queries Q~, starting where ``q`` starts; ``none`` stays there.
    - ``uniform``: every prompt is the mean token, the control without any routing.
    - ``weigh_as_one``: log m is taken off the prompts' scores in attention: m equal prompts weigh as one.
    - ``backbone``: the ViT's blocks, needed for ``kv="backbone"`` and ``norm="norm1"``. What is needed is copied.
    """

    def __init__(
        self,
        *,
        width: int,
        depth: int,
        blocks: int = 3,
        placement: Placement = "first",
        prompts: int = 30,
        reading: Reading = "hopfield_pooling",
        beta: float | None = None,
        kv: KeysValues = "identity",
        norm: TokenNorm | None = None,
        train: Train = "q",
        uniform: bool = False,
        steps: int = 1,
        keep: bool = False,
        train_kv: TrainKV = "none",
        weigh_as_one: bool = False,
        seed: int,
        backbone: Sequence[nn.Module] | nn.Sequential | None = None,
    ) -> None:
        super().__init__()
        check_choice("placement", placement, get_args(Placement))
        if not 0 <= blocks <= depth:
            raise UserError(f"blocks={blocks} cannot be routed, the ViT has {depth}: take 0 to {depth}.")
        self.settings = Settings(width, prompts, reading, beta, kv, norm, train, uniform, steps, train_kv, seed)
        if keep and weigh_as_one:
            raise UserError("prompts that stay are ordinary tokens: set keep or weigh_as_one, not both.")
        self.keep, self.bias = keep, -math.log(prompts) if weigh_as_one else 0.0
        self.routed = range(blocks) if placement == "first" else range(depth - blocks, depth)
        self.routers = nn.ModuleDict(
            {str(i): Router(self.settings, i, None if backbone is None else backbone[i]) for i in self.routed}
        )

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return None if self.keep or block not in self.routed else Prefix(tokens=self.prompts(block, z), bias=self.bias)

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        return self.prompts(block, z) if self.keep and block in self.routed else None

    def prompts(self, block: int, z: Tensor) -> Tensor:
        """The prompts of a routed block.  # B L d -> B m d"""
        return cast(Tensor, self._router(block)(z))

    def maps(self, block: int, z: Tensor) -> Tensor:
        """The routing of a block's input, for pictures of it.  # B L d -> B m L"""
        return self._router(block).association(z)

    def _router(self, block: int) -> Router:
        if block not in self.routed:
            raise UserError(f"block {block} is not routed: {list(self.routed)} are.")
        return cast(Router, self.routers[str(block)])

    def trained_numbers(self) -> int:
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def extra_repr(self) -> str:
        return f"{self.settings}, keep={self.keep}"


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise UserError(f"{name}={value!r} is unknown: take one of {', '.join(allowed)}.")


def _draw(settings: Settings, what: str, block: int, rows: int) -> Tensor:
    """The random start of one matrix of one block; the same whatever else is set.  # rows d"""
    named = generator(settings.seed, f"routing.{what}", block)
    drawn = STD * torch.randn(rows, settings.width, generator=named, dtype=torch.float32)
    return drawn.to(torch.get_default_dtype())


def _effective(queries: Tensor, w_q: Tensor, library: bool) -> Tensor:
    q = queries.double()
    if library:
        q = F.layer_norm(q, q.shape[-1:], eps=EPS)
    return (q @ w_q.double()).to(queries.dtype)


def _token_matrix(
    settings: Settings, block: int, which: int, trained: bool, backbone: nn.Module | None
) -> Tensor | None:
    """W_K (which = 0) or W_V (1) at the start; None for an identity that stays one.  # d d"""
    if settings.kv == "random":
        return _draw(settings, ("w_k", "w_v")[which], block, settings.width)
    if settings.kv == "identity":
        return torch.eye(settings.width) if trained else None
    weight = _needed(backbone, "kv='backbone'").attn.qkv.weight.detach()  # 3 a, d
    if weight.shape[0] != 3 * settings.width:
        raise UserError("kv='backbone' needs attention as wide as the tokens: take kv='identity' or 'random'.")
    return weight.chunk(3)[1 + which].T.clone(memory_format=torch.contiguous_format)


def _token_norm(settings: Settings, backbone: nn.Module | None) -> nn.Module:
    if settings.token_norm == "norm1":
        return _frozen_copy(_needed(backbone, "norm='norm1'").norm1)
    if settings.token_norm == "plain":
        return nn.LayerNorm(settings.width, eps=EPS, elementwise_affine=False)
    return nn.Identity()


def _needed(backbone: nn.Module | None, why: str) -> Any:
    if backbone is None:
        raise UserError(f"{why} copies weights of the ViT: pass its blocks as backbone=.")
    return backbone


def _frozen_copy(module: nn.Module) -> nn.Module:
    """A copy whose parameters are buffers: it moves and is saved with the router, and nothing can train it."""
    module = copy.deepcopy(module)
    for part in module.modules():
        for name, value in list(part.named_parameters(recurse=False)):
            delattr(part, name)
            part.register_buffer(name, value.detach().clone())
    return module
