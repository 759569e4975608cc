"""Adapters give the official outputs and gradients, alone and inside a block; kept sets do not change."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.vit.adapter import Adapters
from tests.golden import below, golden
from tests.pictures import tiny_vit


def load(adapters: Adapters, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for kind in ("down", "up"):
            adapters.get_parameter(kind)[0].copy_(weights[f"{kind}_proj.weight"])
            adapters.get_parameter(f"{kind}_bias")[0].copy_(weights[f"{kind}_proj.bias"])


def test_golden_adapter() -> None:
    a, o = golden("adapter_forward")
    adapters = Adapters(width=o["d"], depth=1, bottleneck=o["bottleneck"], scale=o["scale"]).double()
    load(adapters, below("param.", a))
    x = a["x"].requires_grad_()
    out = adapters.bypass(0, x)
    torch.testing.assert_close(out, a["out_no_residual"], rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(x + out, a["out_residual"], rtol=1e-10, atol=1e-13)
    names = {
        "down": "down_proj.weight",
        "down_bias": "down_proj.bias",
        "up": "up_proj.weight",
        "up_bias": "up_proj.bias",
    }
    grads = torch.autograd.grad((out * a["cotangent"]).sum(), [x, *(adapters.get_parameter(n) for n in names)])
    torch.testing.assert_close(grads[0], a["grad_x"], rtol=1e-10, atol=1e-13)
    for grad, name in zip(grads[1:], names.values(), strict=True):
        torch.testing.assert_close(grad[0], a[f"grad.{name}"], rtol=1e-10, atol=1e-13)


def test_golden_block_with_adapter() -> None:
    a, o = golden("adapter_block")
    given = below("param.", a)
    weights = {f"blocks.0.{k.replace('fc', 'mlp.fc')}": v for k, v in given.items() if "adapt" not in k}
    for kind in ("weight", "bias"):
        parts = [given[f"attn.{part}_proj.{kind}"] for part in "qkv"]
        weights[f"blocks.0.attn.qkv.{kind}"] = torch.cat(parts)
    vit = tiny_vit(depth=1, width=o["d"], heads=o["heads"])
    state = vit.timm.state_dict()
    vit.timm.load_state_dict({name: weights.get(name, value) for name, value in state.items()})
    adapters = Adapters(width=o["d"], depth=1, bottleneck=o["bottleneck"], scale=o["scale"]).double()
    load(adapters, below("adaptmlp.", given))
    out = vit.block(0, a["x"], adapters)
    torch.testing.assert_close(out, a["out"], rtol=1e-10, atol=1e-13)


def test_a_new_set_adds_nothing() -> None:
    vit, x = tiny_vit(), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    adapters = Adapters(width=16, depth=4, bottleneck=5).double()
    y = vit.features(x, adapters)
    torch.testing.assert_close(y, vit.features(x), rtol=1e-13, atol=1e-13)
    y.sum().backward()
    grad = adapters.get_parameter("up").grad
    assert grad is not None
    assert grad.abs().sum(dim=(1, 2)).all()
    with torch.device("meta"):
        assert sum(p.numel() for p in Adapters(width=768, depth=12).parameters()) == 1_189_632


def test_kept_sets_stay_and_the_new_one_starts_from_scratch() -> None:
    vit, x = tiny_vit(depth=2), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    adapters = Adapters(width=16, depth=2, bottleneck=3, seed=4).double()
    outputs, starts = [], []
    with torch.no_grad():
        for n in range(3):
            starts.append(adapters.get_parameter("down").clone())
            for p in adapters.parameters():
                p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(n)))
            outputs.append(vit.features(x, adapters))
            adapters.keep()
            torch.testing.assert_close(vit.features(x, adapters), vit.features(x))
        assert adapters.kept_sets == 3
        for n, expected in enumerate(outputs):
            assert torch.equal(vit.features(x, adapters.kept(n)), expected)
    assert not torch.equal(starts[0], starts[1])
    assert not torch.equal(outputs[0], outputs[1])


def test_dropout_only_while_training() -> None:
    adapters = Adapters(width=4, depth=1, bottleneck=4, dropout=0.5)
    for p in adapters.parameters():
        p.data.normal_(generator=torch.Generator().manual_seed(0))
    h = torch.randn(1, 50, 4, generator=torch.Generator().manual_seed(1))
    adapters.train()
    torch.manual_seed(0)
    assert not torch.equal(adapters.bypass(0, h), adapters.bypass(0, h))
    adapters.eval()
    assert torch.equal(adapters.bypass(0, h), adapters.bypass(0, h))


def test_impossible_settings_are_one_sentence() -> None:
    with pytest.raises(UserError, match="adapter of 9"):
        Adapters(width=8, depth=1, bottleneck=9)
    with pytest.raises(UserError, match="dropout of 1"):
        Adapters(width=8, depth=1, bottleneck=2, dropout=1.0)
