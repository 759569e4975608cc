"""The control that takes log m off the scores of m prompts."""

from __future__ import annotations

import math

import pytest
import torch

from rwf.errors import UserError
from rwf.vit.routing import Routing
from rwf.vit.together import Together
from rwf.vit.weights import load_backbone


@pytest.mark.parametrize("kernel", ["sdpa", "explicit"])
def test_m_equal_prompts_then_weigh_as_one(kernel) -> None:
    vit = load_backbone("random:32x3").double()
    vit.attention = kernel
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def features(prompts: int, one: bool) -> torch.Tensor:
        routing = Routing(
            width=32, depth=3, blocks=2, seed=0, train="none", uniform=True, prompts=prompts, weigh_as_one=one
        )
        return vit.features(x, plug=routing.double())

    single = features(1, False)
    torch.testing.assert_close(features(7, True), single, rtol=0, atol=1e-12)
    assert (features(7, False) - single).abs().max() > 1e-3
    torch.testing.assert_close(features(1, True), single, rtol=0, atol=0)


def test_prompts_that_stay_are_ordinary_tokens() -> None:
    with pytest.raises(UserError, match="keep or weigh_as_one"):
        Routing(width=32, depth=3, keep=True, weigh_as_one=True, seed=0)


def test_two_plugs_weigh_their_prompts_alike_or_not_at_all() -> None:
    z = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(0))
    one, many = (Routing(width=32, depth=3, prompts=4, weigh_as_one=w, seed=0) for w in (True, False))
    both = Together(one, one).prefix(0, z)
    assert both is not None
    assert both.bias == pytest.approx(-math.log(4))
    with pytest.raises(ValueError, match="different biases"):
        Together(one, many).prefix(0, z)
