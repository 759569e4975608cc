"""Several plugs at once are what they are one by one."""

from __future__ import annotations

import pytest
import torch

from rwf.parts.subspace import InputMoments
from rwf.vit.adapter import Adapters
from rwf.vit.lora import LoRA
from rwf.vit.prompts import JoiningTokens, Prefixes, StaticPrompts
from rwf.vit.sockets import Prefix
from rwf.vit.together import Together
from tests.pictures import tiny_vit
from tests.vit.test_lora import filled, merged, pictures


def test_low_rank_terms_of_one_layer_add_up() -> None:
    vit, x = tiny_vit(), pictures()
    a = filled(LoRA(width=16, depth=4, rank=2, targets=("q", "v"), scale=0.5).double(), 1)
    b = filled(LoRA(width=16, depth=4, rank=3, targets=("v", "fc1"), blocks=[1], scale=2.0).double(), 2)
    with torch.no_grad():
        expected = merged(merged(vit, a), b).features(x)
        torch.testing.assert_close(vit.features(x, Together(a, b)), expected, rtol=1e-12, atol=1e-12)


def test_bypasses_add_up_and_taps_all_read() -> None:
    vit, x = tiny_vit(depth=2), pictures()
    sets = []
    for seed in range(2):
        adapters = Adapters(width=16, depth=2, bottleneck=3, seed=seed).double()
        for p in adapters.parameters():
            p.data.normal_(generator=torch.Generator().manual_seed(seed))
        sets.append(adapters)
    h = torch.randn(2, 5, 16, dtype=torch.float64)
    both = Together(*sets).bypass(1, h)
    torch.testing.assert_close(both, sets[0].bypass(1, h) + sets[1].bypass(1, h))
    moments, alone = InputMoments(16, 2), InputMoments(16, 2)
    vit.features(x, Together(sets[0], moments))
    vit.features(x, sets[0])
    assert int(moments.counts[1]) == 3 * 5
    vit.features(x, alone)
    assert torch.equal(moments.mean(0), alone.mean(0)), "before the first adapter there is no difference"
    assert not torch.equal(moments.mean(1), alone.mean(1))


def test_tokens_and_prefixes_join() -> None:
    vit, x = tiny_vit(), pictures()
    g = torch.Generator().manual_seed(0)
    one, two = (torch.randn(n, 2, 16, dtype=torch.float64, generator=g) for n in (1, 3))
    joined = torch.cat([one.expand(3, -1, -1), two], dim=1)
    ours = vit.features(x, Together(JoiningTokens(one), JoiningTokens(two)), read=slice(-4, None))
    torch.testing.assert_close(ours, vit.features(x, JoiningTokens(joined), read=slice(-4, None)))
    a = Prefixes({1: Prefix(keys=one, values=one + 1)})
    b = Prefixes({1: Prefix(keys=two, values=two - 1), 2: Prefix(tokens=one)})
    values = torch.cat([(one + 1).expand(3, -1, -1), two - 1], dim=1)
    c = Prefixes({1: Prefix(keys=joined, values=values), 2: Prefix(tokens=one)})
    torch.testing.assert_close(vit.features(x, Together(a, b)), vit.features(x, c))
    with pytest.raises(ValueError, match="cannot be joined"):
        Together(Prefixes({2: Prefix(keys=one, values=one)}), b).prefix(2, x)


def test_what_is_trained_in_the_plugs_is_found() -> None:
    plug = Together(
        StaticPrompts(width=8, depth=2, blocks=[0], prompts=2), LoRA(width=8, depth=2), JoiningTokens(torch.ones(1))
    )
    assert len(list(plug.parameters())) == 1 + 4
    empty = Together()
    z = torch.zeros(1, 2, 8)
    assert empty.tokens(0, z) is None
    assert empty.prefix(0, z) is None
    assert empty.bypass(0, z) is None
    assert not empty.delta(0)
