"""A dry run: any code over tensors runs as it is, but nothing large is computed; its products are counted instead.

Results of large operations are zeros that take no memory, so a training step of a large ViT at batch size 64 is
counted in about a second, whatever a method does in it: replay, second forwards, copies of weights, decisions that
hang on a number. Counting on the meta device cannot do the last, because there no number exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.flop_counter import flop_registry

LARGE = 50_000
"""Operations on or into tensors with more numbers are not computed."""


class DryRun(TorchDispatchMode):
    """``with DryRun() as dry: ...; dry.flops``. Fused attention is not counted: choose the explicit kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        """A multiplication with its addition is two; matrix products and convolutions only."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        formula = flop_registry.get(func.overloadpacket)
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        large = any(x.numel() > LARGE for x in tensors)
        if func.is_view or not (formula or large or _makes_large(func, args, kwargs)):
            return func(*args, **kwargs)
        if func._schema.is_mutable:
            if large:
                return args[0] if func._schema.returns else None
            return func(*args, **kwargs)
        try:
            shapes = func(*_on_meta(args), **_on_meta(kwargs))
        except NotImplementedError:  # its result's shape hangs on numbers
            return func(*args, **kwargs)
        out = tree_map_only(Tensor, _blank, shapes)
        if formula:
            self.flops += int(formula(*args, **kwargs, out_val=out))
        return out


def dry_count(run: Callable[[], object]) -> int:
    """Operations of the products that ``run`` would do."""
    with DryRun() as dry:
        run()
    return dry.flops


class Saved(saved_tensors_hooks):
    """Bytes that a forward keeps for its backward, parameters apart; meant for dry runs."""

    def __init__(self) -> None:
        self.bytes = 0
        self._met: set[int] = set()
        super().__init__(self._pack, lambda x: x)

    def _pack(self, x: Tensor) -> Tensor:
        storage = x.untyped_storage()._cdata
        if not isinstance(x, torch.nn.Parameter) and not x.requires_grad | x.is_leaf and storage not in self._met:
            self._met.add(storage)
            self.bytes += x.numel() * x.element_size()
        return x


def _makes_large(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a function without tensors (zeros, empty, arange) or with small ones (expand, cat) gives a large one."""
    if func._schema.is_mutable or not func._schema.returns:
        return False
    try:
        out = func(*_on_meta(args), **_on_meta(kwargs))
    except (NotImplementedError, RuntimeError):
        return False
    return any(isinstance(x, Tensor) and x.numel() > LARGE for x in tree_flatten(out)[0])


def _on_meta(values: Any) -> Any:
    if isinstance(values, dict) and isinstance(values.get("device"), torch.device):
        values = values | {"device": torch.device("meta")}
    return tree_map_only(Tensor, lambda x: x.to("meta"), values)


def _blank(like: Tensor) -> Tensor:
    """Zeros of this shape and type in the memory of one, or real ones where there are few."""
    if like.numel() > LARGE:
        return torch.zeros((), dtype=like.dtype).expand(like.shape)
    return torch.zeros(like.shape, dtype=like.dtype)
