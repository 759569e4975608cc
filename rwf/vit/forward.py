"""The one ViT: timm's weights, one block forward of ours with four sockets, and only the rows that are read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, get_args

import torch
from timm.layers import GluMlp, SwiGLU, global_pool_nlc
from torch import Tensor, nn

from rwf.errors import UserError
from rwf.vit.attention import Kernel, attend
from rwf.vit.door import check_plain
from rwf.vit.sockets import LowRank, Plug

Read = Literal["native", "cls", "mean"] | slice
Statistics = tuple[float, float, float]

_NOTHING = Plug()
_DELTAS = frozenset({"q", "k", "v", "proj", "fc1", "fc2"})


class Keeper(Protocol):
    """Stands before a ViT's ``features`` and keeps what the frozen network says (``rwf.vit.feature_cache``)."""

    asked: int
    computed: int

    def about(self, pictures: Sequence[int]) -> AbstractContextManager[None]:
        """Within it, who asks about as many views asks about these test pictures."""

    def features(self, x: Tensor, plug: Plug | None, read: Read) -> Tensor:
        """As ``ViT.compute``.  # B 3 P P -> B F"""


class ViT(nn.Module):
    """A frozen plain ViT of timm whose blocks have sockets.

    It takes the model over: drops its classifier, freezes it, and keeps it in evaluation mode even while something
    around it is being trained (a network with dropout is not the same function twice). Give it a copy if the model
    is needed elsewhere. For full fine-tuning switch ``requires_grad`` on; the forward is the same.

    ``total_parameters`` counts the network with a classifier of 1000 classes, whatever head it came with: the
    number that percentages of trained parameters refer to. ``hash`` names the weights as they were given. ``frozen``,
    where it is set, keeps what the network says with nothing trained in it.
    """

    timm: Any  # a timm VisionTransformer, whose parts have no types of their own

    def __init__(
        self,
        model: nn.Module,
        *,
        name: str = "",
        mean: Statistics | None = None,
        std: Statistics | None = None,
        attention: Kernel = "auto",
    ) -> None:
        super().__init__()
        check_plain(model)
        if attention not in get_args(Kernel):
            raise ValueError(f"attention is one of {', '.join(get_args(Kernel))}, not {attention!r}")
        self.timm = model.requires_grad_(False)
        self.timm.reset_classifier(0)
        self.name, self.mean, self.std = name or type(model).__name__, mean, std
        self.attention: Kernel = attention
        self.width: int = self.timm.embed_dim
        self.depth: int = len(self.timm.blocks)
        self.heads: int = self.timm.blocks[0].attn.num_heads
        self.image_size: int = self.timm.patch_embed.img_size[0]
        self.patches: int = self.timm.patch_embed.num_patches
        self.prefix_tokens: int = self.timm.num_prefix_tokens  # class and register tokens
        self.feature_width: int = self.timm.embed_dim
        self.total_parameters = sum(p.numel() for p in model.parameters()) + 1000 * (self.feature_width + 1)
        self.hash = weights_hash(model)
        self.frozen: Keeper | None = None
        self.eval()

    def train(self, mode: bool = True) -> ViT:
        """Stays in evaluation mode, whatever the module around it does."""
        return super().train(False)

    def embed(self, x: Tensor) -> Tensor:
        """Pictures to the first block's input: all of it is timm's.  # B 3 P P -> B L d"""
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            got = " x ".join(str(n) for n in x.shape[-2:])
            raise UserError(f"the pictures are {got}, the ViT {self.name} takes {self.image_size} x {self.image_size}.")
        model = self.timm
        z: Tensor = model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(x))))
        return z

    def block(self, i: int, z: Tensor, plug: Plug | None = None, rows: slice | None = None) -> Tensor:
        """Block i with the plug in its sockets.  # B L d -> B L d, or B R d

        With ``rows`` (counted after tokens have joined) only these attend, pass the MLP and are returned; what
        they attend to is not changed. The tap ``attn`` still sees all rows, ``mlp`` and ``bypass`` only these.
        """
        plug = _NOTHING if plug is None else plug
        block = self.timm.blocks[i]
        joining = plug.tokens(i, z)
        if joining is not None:
            z = torch.cat([z, joining.to(z.dtype).expand(z.shape[0], -1, -1)], dim=1)  # B L+n d
        prefix, delta = plug.prefix(i, z), plug.delta(i)
        if not delta.keys() <= _DELTAS:
            raise ValueError(f"delta names are {', '.join(sorted(_DELTAS))}; got {', '.join(sorted(delta))}")
        if rows is not None and not range(*rows.indices(z.shape[1])):
            raise ValueError(f"{rows} names no row of a sequence of {z.shape[1]}")
        x = block.norm1(z)
        plug.tap(i, "attn", x)
        y = attend(block.attn, block.norm1, x, rows=rows, prefix=prefix, delta=delta, kernel=self.attention)
        h = (z if rows is None else z[:, rows]) + block.drop_path1(block.ls1(y))  # B R d
        x = block.norm2(h)
        plug.tap(i, "mlp", x)
        out: Tensor = h + block.drop_path2(block.ls2(_mlp(block.mlp, x, delta.get("fc1"), delta.get("fc2"))))
        beside = plug.bypass(i, h)
        return out if beside is None else out + beside

    def encode(self, x: Tensor, plug: Plug | None = None, read: Read = "native") -> Tensor:
        """Rows of the last block that ``read`` needs, after the final norm.  # B 3 P P -> B R d"""
        rows = self._rows(read)
        z = self.embed(x)
        for i in range(self.depth - 1):
            z = self.block(i, z, plug)
        z = self.block(self.depth - 1, z, plug, rows)
        out: Tensor = self.timm.norm(z)
        return out

    def features(self, x: Tensor, plug: Plug | None = None, read: Read = "native") -> Tensor:
        """One vector a picture, before any classifier; read where it is kept.  # B 3 P P -> B F

        "native" is what the weights were trained for: timm's ``forward_head(forward_features(x), pre_logits=True)``;
        "cls" the class token, "mean" the mean over the patch tokens, a slice the mean over these rows. Tokens that a
        plug joins to the sequence are read by a slice only.
        """
        if self.frozen is not None:
            return self.frozen.features(x, plug, read)
        return self.compute(x, plug, read)

    def compute(self, x: Tensor, plug: Plug | None = None, read: Read = "native") -> Tensor:
        """``features``, computed.  # B 3 P P -> B F"""
        z = self.encode(x, plug, read)
        if read != "native":
            z = z.mean(dim=1)
        elif self.timm.attn_pool is not None:
            z = self.timm.attn_pool(z)
        else:  # the rows that are pooled are all that is here
            z = global_pool_nlc(z, pool_type=self.timm.global_pool, num_prefix_tokens=0)
        out: Tensor = self.timm.fc_norm(z)
        return out

    def reading(self, read: Read) -> str:
        """A name for what is read: two readings of one name give the same features."""
        mean = read != "native" or (self.timm.attn_pool is None and self.timm.global_pool in ("token", "avg"))
        return f"mean of {self._rows(read)}" if mean else "native"

    def _rows(self, read: Read) -> slice:
        """Which rows of the last block are read."""
        if isinstance(read, slice):
            return read
        if read not in ("native", "cls", "mean"):
            raise ValueError(f"read is 'native', 'cls', 'mean' or a slice, not {read!r}")
        model, patches = self.timm, slice(self.prefix_tokens, self.prefix_tokens + self.patches)
        if read == "cls" or (read == "native" and model.attn_pool is None and model.global_pool == "token"):
            if not model.has_class_token:
                raise UserError(f"the ViT {self.name} has no class token: read 'native' or 'mean' instead of 'cls'.")
            return slice(0, 1)
        if read == "native" and model.pool_include_prefix:
            return slice(0, patches.stop)
        return patches


def weights_hash(model: nn.Module) -> str:
    """sha256 over names, types, shapes and bytes of the state, sorted by name; "" where there are no bytes (meta)."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        if tensor.is_meta:
            return ""
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _mlp(mlp: Any, x: Tensor, fc1: LowRank | None, fc2: LowRank | None) -> Tensor:
    """The block's MLP; written out only where something low-rank is added.  # B R d"""
    if fc1 is None and fc2 is None:
        out: Tensor = mlp(x)
        return out
    if isinstance(mlp, SwiGLU):
        if fc1 is not None:
            raise UserError("the MLP of this ViT has two input layers and no fc1: adapt q, k, v, proj or fc2 instead.")
        h = mlp.act(mlp.fc1_g(x)) * mlp.fc1_x(x)  # B R f
    else:
        h = mlp.fc1(x) if fc1 is None else mlp.fc1(x) + fc1(x)
        if isinstance(mlp, GluMlp):
            a, b = h.chunk(2, dim=-1)
            h = a * mlp.act(b) if mlp.gate_last else mlp.act(a) * b
        else:
            h = mlp.act(h)
    h = mlp.norm(h)
    return mlp.fc2(h) if fc2 is None else mlp.fc2(h) + fc2(h)
