"""Prompts that join attention: static ones, L2P's pool, DualPrompt's general and expert prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.seeds import generator
from rwf.vit.sockets import Plug, Prefix


def initial(
    shape: tuple[int, ...], seed: int, purpose: str, std: float | None = None, bound: float = 1.0
) -> nn.Parameter:
    """Initial values by name: normal with this std, or uniform between minus and plus this bound, as pools start."""
    draw = generator(seed, purpose)
    if std is not None:
        return nn.Parameter(torch.randn(shape, generator=draw) * std)
    return nn.Parameter((torch.rand(shape, generator=draw) * 2 - 1) * bound)


def check_blocks(blocks: Iterable[int], depth: int) -> list[int]:
    """The blocks, sorted, if the ViT has them."""
    out = sorted(set(blocks))
    if not out or out[0] < 0 or out[-1] >= depth:
        raise UserError(f"the ViT has the blocks 0 to {depth - 1}; prompts were asked for {out or 'none'}.")
    return out


def check_counts(**counts: int) -> None:
    """All of these must be 1 or more."""
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"{name} is {count}; give 1 or more.")


class StaticPrompts(nn.Module, Plug):
    """VPT: learned tokens beside the picture's own in these blocks, the same for every picture.

    They pass the block's norm1 and qkv and are dropped after its attention, as RwF's retrieved prompts are.
    """

    def __init__(
        self, *, width: int, depth: int, blocks: Iterable[int], prompts: int, std: float = 0.02, seed: int = 0
    ) -> None:
        super().__init__()
        check_counts(prompts=prompts)
        self.blocks = check_blocks(blocks, depth)
        self.prompts = initial((len(self.blocks), prompts, width), seed, "static prompts", std)  # k m d

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return Prefix(tokens=self.prompts[self.blocks.index(block)][None]) if block in self.blocks else None


class Prefixes(Plug):
    """Prefixes made for one forward, by block."""

    def __init__(self, by_block: Mapping[int, Prefix]) -> None:
        self.by_block = by_block

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return self.by_block.get(block)


class JoiningTokens(Plug):
    """Tokens made for one forward that join before a block and stay."""

    def __init__(self, tokens: Tensor, block: int = 0) -> None:
        self.joining, self.at = tokens, block

    def tokens(self, block: int, z: Tensor) -> Tensor | None:
        return self.joining if block == self.at else None


@dataclass(frozen=True)
class Choice:
    """Which entries of a pool the pictures use."""

    ids: Tensor  # B k
    similarity: Tensor  # B pool, cosines of queries and keys

    @property
    def pull(self) -> Tensor:
        """The chosen cosines, summed over a picture's choices, mean over pictures: what draws keys to queries."""
        return self.similarity.gather(1, self.ids).sum(1).mean()


class Keys(nn.Module):
    """Learned keys of a pool, of which queries choose the ``top_k`` most alike by cosine."""

    def __init__(self, pool: int, width: int, *, top_k: int = 1, seed: int, purpose: str) -> None:
        super().__init__()
        check_counts(pool=pool)
        if not 1 <= top_k <= pool:
            raise UserError(f"{top_k} prompts cannot be chosen out of a pool of {pool}; give 1 to {pool}.")
        self.top_k = top_k
        self.weight = initial((pool, width), seed, purpose)

    def choose(self, query: Tensor, *, batchwise: bool = False, forced: int | Tensor | None = None) -> Choice:
        """The best keys of each query.  # B d -> B top_k

        ``batchwise`` gives all pictures the ids that are chosen most often in the batch (of equal ones the lower):
        with test batches of one task that tells the task. ``forced`` names the ids instead.
        """
        pool, top_k = len(self.weight), self.top_k
        with torch.autocast(query.device.type, enabled=False):  # which key is best must not hang on rounding
            unit = functional.normalize(query.to(self.weight), dim=1)
            similarity = unit @ functional.normalize(self.weight, dim=1).T
        if forced is not None:
            ids = torch.as_tensor(forced, device=query.device)
            ids = ids.expand(len(query), top_k) if ids.dim() == 0 else ids
            if bool((ids >= pool).any()):
                raise UserError(f"the pool has room for {pool} tasks, this is one more; give a larger pool.")
        else:
            ids = similarity.topk(top_k, dim=1).indices
            if batchwise:
                times = torch.bincount(ids.flatten(), minlength=pool)
                ids = times.argsort(descending=True, stable=True)[:top_k].expand(len(query), top_k)
        return Choice(ids, similarity)


class PromptPool(nn.Module):
    """L2P: a pool of short token sequences and their keys."""

    def __init__(
        self, *, width: int, pool: int = 10, length: int = 5, top_k: int = 5, bound: float = 1.0, seed: int = 0
    ) -> None:
        super().__init__()
        check_counts(length=length)
        self.keys = Keys(pool, width, top_k=top_k, seed=seed, purpose="l2p keys")
        self.prompts = initial((pool, length, width), seed, "l2p prompts", bound=bound)

    def tokens(self, ids: Tensor, position: Tensor | None = None) -> Tensor:
        """The chosen prompts, one after another, with the position embedding of their slots.  # B k -> B k*length d"""
        tokens = self.prompts[ids].flatten(1, 2)
        return tokens if position is None else tokens + position


class DualPrompts(nn.Module):
    """DualPrompt: prefixes for all pictures in the first blocks, prefixes chosen by key in the next ones.

    Both are given as keys and values, so they pass neither norm1 nor qkv. ``official_reshape`` is the published
    layout of the chosen ones: it takes the axes (keys or values, sample) of a block for (sample, keys or values),
    so half of a batch gets key prompts as values and half the other way round, partly from other samples.
    """

    def __init__(
        self,
        *,
        width: int,
        depth: int,
        pool: int,
        general_blocks: Iterable[int] = (0, 1),
        expert_blocks: Iterable[int] = (2, 3, 4),
        general_length: int = 5,
        expert_length: int = 5,
        bound: float = 1.0,
        official_reshape: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_counts(general_length=general_length, expert_length=expert_length)
        self.keys = Keys(pool, width, seed=seed, purpose="dual keys")
        self.general_blocks = check_blocks(general_blocks, depth)
        self.expert_blocks = check_blocks(expert_blocks, depth)
        if set(self.general_blocks) & set(self.expert_blocks):
            raise UserError("a block cannot have general and expert prompts; name different blocks.")
        self.official_reshape = official_reshape
        g, e = len(self.general_blocks), len(self.expert_blocks)
        self.general = initial((g, 2, general_length, width), seed, "dual general", bound=bound)
        self.expert = initial((e, 2, pool, expert_length, width), seed, "dual expert", bound=bound)

    def chosen(self, ids: Tensor) -> Tensor:
        """The expert prompts of these choices, keys then values.  # B k -> blocks B 2 k*length d"""
        picked = self.expert[:, :, ids].flatten(3, 4)  # blocks 2 B n d
        if self.official_reshape:
            return picked.reshape(len(picked), ids.shape[0], 2, *picked.shape[3:])
        return picked.transpose(1, 2)

    def plug(self, ids: Tensor) -> Prefixes:
        """The plug for pictures with these choices."""
        by_block = {
            block: Prefix(keys=keys[None], values=values[None])
            for block, (keys, values) in zip(self.general_blocks, self.general, strict=True)
        }
        for block, both in zip(self.expert_blocks, self.chosen(ids), strict=True):
            by_block[block] = Prefix(keys=both[:, 0], values=both[:, 1])
        return Prefixes(by_block)

    @torch.no_grad()
    def inherit(self, task: int) -> None:
        """A task's expert prompts start as those of the task before it; its key does not."""
        if task >= self.expert.shape[2]:
            raise UserError(f"the pool has room for {self.expert.shape[2]} tasks, task {task + 1} is one more.")
        if task > 0:
            self.expert[:, :, task] = self.expert[:, :, task - 1]
