"""Class prototypes: cosine scores, and EASE's prototypes over several feature spaces."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def cosine_logits(features: Tensor, prototypes: Tensor, scale: Tensor | float = 1.0, *, eps: float = 0.0) -> Tensor:
    """``scale`` times the cosines; ``eps`` is added to both norms (PCR has 1e-6).  # B F, C F -> B C"""
    x, w = (_unit(v, eps) for v in (features.to(prototypes), prototypes))
    with torch.autocast(x.device.type, enabled=False):
        return scale * (x @ w.T)


def _unit(x: Tensor, eps: float) -> Tensor:
    return x / (x.norm(dim=-1, keepdim=True) + eps).clamp_min(1e-12)


def complete_prototypes(prototypes: Tensor, task_of: Tensor) -> Tensor:
    """EASE: prototypes of old classes in later spaces, where their pictures were never seen.  # C T d -> C T d

    ``prototypes[c, j]`` is known where class c came with task j or later. What class c of task i lacks in space j is
    put together from the classes that have it, weighted by a softmax of their cosines with c in c's own space i.
    """
    full = prototypes.clone()
    for j in range(1, prototypes.shape[1]):
        known = task_of >= j
        if not bool(known.any()):
            continue
        for i in range(j):
            old = task_of == i
            own = functional.normalize(prototypes[:, i], dim=1)  # C d
            alike = (own[old] @ own[known].T).softmax(1)
            full[old, j] = alike @ prototypes[known, j]
    return full


def reweighted_logits(features: Tensor, prototypes: Tensor, task_of: Tensor, alpha: float = 0.1) -> Tensor:
    """EASE: the cosine in a class's own space, plus alpha times the mean of the others.  # B T d, C T d -> B C"""
    x, w = functional.normalize(features.to(prototypes), dim=2), functional.normalize(prototypes, dim=2)
    with torch.autocast(x.device.type, enabled=False):
        cosines = torch.einsum("btd,ctd->bct", x, w)
    own = cosines.gather(2, task_of[None, :, None].expand(len(x), -1, 1)).squeeze(2)
    spaces = cosines.shape[2]
    if spaces == 1:
        return own
    return own + alpha * (cosines.sum(2) - own) / (spaces - 1)
