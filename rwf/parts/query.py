"""What prompt pools are asked with: the frozen feature of a picture."""

from __future__ import annotations

import torch
from torch import Tensor

from rwf.vit.forward import ViT


@torch.no_grad()
def frozen_query(vit: ViT, x: Tensor) -> Tensor:
    """The class token of the ViT without any plug (the mean token where there is none).  # B 3 P P -> B d"""
    return vit.features(x, read="cls" if vit.timm.has_class_token else "mean")
