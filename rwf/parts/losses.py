"""Loss terms of replay methods: DER++, LODE, PCR, ER-ACE, each as its formula says."""

from __future__ import annotations

import torch
from torch import Tensor

from rwf.parts.masks import masked_cross_entropy


def logit_distance(logits: Tensor, stored: Tensor, known: Tensor) -> Tensor:
    """DER: mean squared distance to stored logits, over the entries that were stored.  # three times B C

    With a head that grows, a row stored early has no entry for later classes; with all rows from the start this is
    the mean over batch and all classes.
    """
    squares = (logits - stored.to(logits)).square().masked_fill(~known, 0.0)
    return squares.sum() / known.sum().clamp_min(1)


def decoupled_terms(logits: Tensor, rows: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """LODE's two parts of the cross-entropy, for pictures whose labels are all new.  # B C -> B, B

    ``old`` and ``new`` are bool over the classes. inter: is it new at all; intra: which of the new. Their sum is the
    cross-entropy among old and new.
    """
    among_new = logits.masked_fill(~new, -torch.inf).logsumexp(1)
    among_all = logits.masked_fill(~(old | new), -torch.inf).logsumexp(1)
    return among_all - among_new, masked_cross_entropy(logits, rows, new, "none")


def decoupled_loss(
    logits: Tensor, rows: Tensor, old: Tensor, new: Tensor, *, ratio: float, task: float, intra_weight: float = 1.0
) -> Tensor:
    """LODE: (ratio / task) mean inter + intra_weight mean intra; the more tasks there are, the less old is pushed."""
    inter, intra = decoupled_terms(logits, rows, old, new)
    return ratio / task * inter.mean() + intra_weight * intra.mean()


def proxy_contrast(logits: Tensor, rows: Tensor) -> Tensor:
    """PCR: contrast of each picture with the class proxies of all pictures of this batch.  # B C -> scalar

    A class with n pictures is n times in the denominator, absent classes are not. ``logits`` are the scaled cosines
    to all proxies.
    """
    counts = torch.bincount(rows, minlength=logits.shape[1])
    weighted = logits + counts.to(logits).log()  # log 0 = -inf: absent
    return (weighted.logsumexp(1) - logits.gather(1, rows[:, None]).squeeze(1)).mean()


def asymmetric_cross_entropy(
    logits: Tensor, rows: Tensor, replayed: Tensor, replayed_rows: Tensor, seen: int
) -> Tensor:
    """ER-ACE: new pictures compete among their own classes only, replayed ones among all ``seen`` classes.

    So new classes do not push old ones down; that old and new are told apart is left to the memory.
    """
    own = torch.zeros(logits.shape[1], dtype=torch.bool, device=logits.device)
    own[rows] = True
    loss = masked_cross_entropy(logits, rows, own)
    if not len(replayed_rows):
        return loss
    met = torch.arange(logits.shape[1], device=logits.device) < seen
    return loss + masked_cross_entropy(replayed, replayed_rows, met)
