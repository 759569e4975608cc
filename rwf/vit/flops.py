"""A dry run: code over tensors runs as it is, nothing large is computed; its products and what it keeps are counted.

Results of large operations are zeros that take no memory, so a training step of a large ViT at batch size 64 is
counted in a part of a second, whatever a method does in it: replay, second forwards, copies of weights, decisions that
hang on a number. (On the meta device the last cannot be counted, because there no number exists.)
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map_only, tree_unflatten
from torch.utils.flop_counter import flop_registry

from rwf.vit.forward import ViT

M = TypeVar("M", bound=nn.Module)

LARGE = 50_000
"""Tensors with more numbers are not computed."""


class DryRun(TorchDispatchMode):
    """``with DryRun() as dry: ...; dry.flops``.

    A multiplication with its addition is two; matrix products and convolutions only. Norms, softmax and activations
    are about a hundredth of a ViT, and solvers are not products. What is compared should choose ``explicit`` attention:
    torch's formulas for fused kernels have one product more in the backward pass, and some versions have none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __enter__(self) -> Self:
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.filterwarnings("ignore", message="grad and param do not obey")  # nothing of blanks lies in memory
        return cast(Self, super().__enter__())

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._quiet.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.is_view:
            return func(*args, **kwargs)
        leaves, form = tree_flatten((args, kwargs))
        shapes = None
        if not func._schema.is_mutable:
            shapes = _shapes(func, form, *(_Like(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in leaves))
            if shapes is None:  # what comes out hangs on numbers
                return func(*args, **kwargs)
        formula = _formula(func)
        if not formula and not any(_left_out(x) for x in [*leaves, *tree_leaves(shapes)] if isinstance(x, Tensor)):
            return func(*args, **kwargs)
        out = _written(func, args, kwargs) if shapes is None else tree_map_only(Tensor, _zeros, shapes)
        if formula:
            self.flops += int(formula(*args, **kwargs, out_val=out))
        return out


def count(run: Callable[[], object]) -> int:
    """Operations of the products that ``run`` would do, backward passes included."""
    with DryRun() as dry:
        run()
    return dry.flops


class Saved(saved_tensors_hooks):
    """``bytes``: most that forwards keep at once for their backward, apart from ``known`` tensors such as weights.

    Counts memory that is held, not tensors: a view of a large tensor keeps all of it. Works in dry runs too.
    """

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        self.bytes, self._now = 0, 0
        self._known = [x.untyped_storage() for x in known]  # held, or a new tensor could have the place of one
        self._known_places = {storage._cdata for storage in self._known}
        self._holders: Counter[int] = Counter()
        super().__init__(self._pack, lambda held: held.tensor if isinstance(held, _Held) else held)

    def _pack(self, x: Tensor) -> Any:
        place = x.untyped_storage()._cdata
        return x if place in self._known_places else _Held(self, x, place)

    def _change(self, place: int, size: int, by: int) -> None:
        """One more, or one less, of what is saved lies in this place."""
        self._holders[place] += by
        if self._holders[place] == max(by, 0):  # the first, or the last
            self._now += by * size
            self.bytes = max(self.bytes, self._now)


class _Held:
    """What a backward pass keeps; gone when that no longer needs it."""

    def __init__(self, owner: Saved, tensor: Tensor, place: int) -> None:
        whole = tensor._base if tensor._base is not None else tensor
        size = whole.nbytes if _hollow(tensor) else tensor.untyped_storage().nbytes()
        self.tensor, self._change = tensor, partial(owner._change, place, size)
        self._change(1)

    def __del__(self) -> None:
        self._change(-1)


def blank(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros of this shape in the memory of one."""
    return torch.zeros((), dtype=dtype).expand(shape)


def without_numbers(module: M) -> M:
    """The same module for dry runs: same shapes and ``requires_grad``, no memory; every ViT with explicit attention."""
    twins: dict[int, Any] = {}
    for parameter in module.parameters():
        made = blank(*parameter.shape, dtype=parameter.dtype)
        twins[id(parameter)] = nn.Parameter(made, requires_grad=parameter.requires_grad)
    for buffer in module.buffers():
        twins[id(buffer)] = blank(*buffer.shape, dtype=buffer.dtype)
    twin = copy.deepcopy(module, twins)
    for part in twin.modules():
        if isinstance(part, ViT):
            part.attention = "explicit"
    return twin


@torch.no_grad()
def frozen_forward_flops(vit: ViT, batch: int = 1) -> int:
    """F, the unit of costs: one frozen forward of a batch, nothing in the sockets, all rows through all blocks."""
    twin = without_numbers(vit)
    return count(lambda: twin.encode(blank(batch, 3, vit.image_size, vit.image_size), read=slice(None)))


def _formula(func: Any) -> Any:
    """torch's count of an operation, or of the one it is the in-place form of; None where there is none."""
    packet = func.overloadpacket
    plain = packet.__name__.removesuffix("_")
    return flop_registry.get(packet) or flop_registry.get(getattr(torch.ops.aten, plain, None))


class _Like(NamedTuple):
    """A tensor without numbers."""

    shape: torch.Size
    dtype: torch.dtype


@lru_cache(maxsize=1 << 14, typed=True)
def _shapes(func: Any, form: TreeSpec, *leaves: Any) -> Any:
    """What comes out, on the meta device; None where its shape hangs on numbers. Blocks are alike, so it is kept."""
    meta = torch.device("meta")
    there = [
        torch.empty(x.shape, dtype=x.dtype, device=meta) if isinstance(x, _Like) else meta if _is_device(x) else x
        for x in leaves
    ]
    args, kwargs = tree_unflatten(there, form)
    try:
        return func(*args, **kwargs)
    except (NotImplementedError, RuntimeError):
        return None


def _is_device(x: Any) -> bool:
    return isinstance(x, torch.device)


def _hollow(x: Tensor) -> bool:
    """Whether one number in memory stands for many."""
    return any(n > 1 and step == 0 for n, step in zip(x.shape, x.stride(), strict=True))


def _left_out(x: Tensor) -> bool:
    return x.numel() > LARGE or _hollow(x)


def _zeros(like: Tensor) -> Tensor:
    """Zeros of this shape and type: blank ones where there are many."""
    return blank(*like.shape, dtype=like.dtype) if like.numel() > LARGE else torch.zeros(like.shape, dtype=like.dtype)


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an operation gives back that writes into one of its arguments: that argument, as it is."""
    if not func._schema.returns:
        return None
    given = {a.name: value for a, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    return next(given[a.name] for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
