"""route(): an ordinary module for anybody's training loop, and a model that does not notice."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from torch import Tensor, nn
from torch.func import functional_call

from rwf.errors import UserError
from rwf.vit.routed import RoutedViT, Watched, route
from rwf.vit.routing_reference import forward_features, layers_of

SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 16, "depth": 4, "num_heads": 2, "num_classes": 5}


def create(name: str = "vit_tiny_patch16_224", **options: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = timm.create_model(name, **{**SMALL, **options})
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
    return model


def pictures(n: int = 4, size: int = 16) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1))


def snapshot(model: nn.Module) -> dict[str, Any]:
    """All of a model that an outsider could change without replacing it."""
    return {
        "tensors": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "identity": [id(p) for p in model.parameters()] + [id(m) for m in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "gradients": [p.grad for p in model.parameters()],
        "training": [m.training for m in model.modules()],
    }


def assert_untouched(model: nn.Module, before: dict[str, Any]) -> None:
    after = snapshot(model)
    tensors = before["tensors"], after["tensors"]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
    for key in ("identity", "requires_grad", "gradients", "training"):
        assert before[key] == after[key], key


def steps(routed: RoutedViT, n: int, lr: float = 0.01) -> list[float]:
    """A training loop as anybody would write it."""
    routed.train()
    optimizer = torch.optim.Adam(routed.trainable_parameters(), lr=lr)
    x, y, losses = pictures(8), torch.arange(8) % 5, []
    for _ in range(n):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(routed(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", [{}, {"kv": "backbone", "norm": "norm1", "train_kv": "both"}])
def test_the_model_given_is_not_touched(training: bool, options: dict[str, Any]) -> None:
    model = create().train(training)
    model.norm.eval()
    model.blocks[0].requires_grad_(False)
    model.cls_token.grad = torch.ones_like(model.cls_token)
    before = snapshot(model)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index, union-attr]
    routed = route(model, **options)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # type: ignore[index, arg-type]
    assert random.getstate() == states[2]
    assert_untouched(model, before)
    steps(routed, 2)
    assert_untouched(model, before)
    assert not {t.data_ptr() for t in model.state_dict().values()} & {
        t.data_ptr() for t in routed.state_dict().values()
    }


MODELS = [
    ("vit_tiny_patch16_224", {}),
    ("vit_tiny_patch16_224", {"global_pool": "avg"}),
    ("vit_tiny_patch16_224", {"num_classes": 0}),
    ("vit_tiny_patch16_224", {"drop_rate": 0.5, "drop_path_rate": 0.5, "attn_drop_rate": 0.5, "qkv_bias": False}),
    ("deit3_small_patch16_224", {}),
    ("vit_small_patch14_reg4_dinov2", {}),
    ("vit_base_patch16_clip_224", {}),
    ("vit_base_patch16_siglip_224", {}),
]


@pytest.mark.parametrize(("name", "options"), MODELS)
@pytest.mark.parametrize("blocks", [0, 2])
def test_logits_and_tokens_are_those_timm_would_give(name: str, options: dict[str, Any], blocks: int) -> None:
    model = create(name, **options).double().eval()
    routed, x = route(model, blocks=blocks).train(), pictures().double()
    layers = layers_of(routed.routing)
    tokens = forward_features(model, layers, x) if blocks else model.forward_features(x)
    torch.testing.assert_close(routed.forward_features(x), tokens, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(routed(x), model.forward_head(tokens), rtol=1e-10, atol=1e-10)
    if blocks:
        assert not torch.allclose(routed(x), model(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [MODELS[0], MODELS[1], ("vit_base_patch16_siglip_224", {})],
)
def test_kept_prompts_are_not_among_the_tokens_given_back(name: str, options: dict[str, Any]) -> None:
    model = create(name, **options).double().eval()
    routed, x = route(model, blocks=2, prompts=3, keep=True), pictures().double()
    tokens = forward_features(model, layers_of(routed.routing), x, keep=True)
    assert routed.forward_features(x).shape == model.forward_features(x).shape
    torch.testing.assert_close(routed.forward_features(x), tokens, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(routed(x), model.forward_head(tokens), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"reading": "equations"}, {"train": "out"}, {"placement": "last"}])
def test_it_learns_in_a_plain_loop(options: dict[str, Any]) -> None:
    routed = route(create(), blocks=2, prompts=4, **options)
    frozen = {name: tensor.clone() for name, tensor in routed.vit.state_dict().items()}
    start = {name: p.detach().clone() for name, p in routed.named_parameters() if p.requires_grad}
    losses = steps(routed, 30)
    assert losses[-1] < 0.8 * losses[0]
    assert all(torch.equal(frozen[name], tensor) for name, tensor in routed.vit.state_dict().items())
    moved = {name for name, p in routed.named_parameters() if name in start and not torch.equal(start[name], p)}
    assert moved == start.keys(), "every declared parameter learns"


@pytest.mark.parametrize("train", ["q", "out", "direct"])
def test_the_routing_learns_alone_too(train: Any) -> None:
    routed = route(create(), blocks=2, prompts=4, train=train)
    routed.head.requires_grad_(False)
    losses = steps(routed, 30, lr=0.1)
    assert losses[-1] < 0.98 * losses[0]


@pytest.mark.parametrize(
    ("options", "trained"),
    [
        ({}, {"queries", "w_q", "b_q", "norm_q.weight", "norm_q.bias"}),
        ({"reading": "equations"}, {"queries", "w_q"}),
        ({"train": "out"}, {"queries", "w_o", "b_o", "norm_q.weight", "norm_q.bias"}),
        ({"train": "direct", "train_kv": "v"}, {"queries", "w_v"}),
        ({"train": "none"}, set()),
        ({"train": "none", "uniform": True}, set()),
    ],
)
def test_gradients_reach_what_is_declared_and_nothing_else(options: dict[str, Any], trained: set[str]) -> None:
    routed = route(create(), blocks=2, prompts=3, **options)
    nn.functional.cross_entropy(routed(pictures()), torch.arange(4)).backward()
    declared = {f"routing.routers.{i}.{name}" for i in range(2) for name in trained} | {"head.weight", "head.bias"}
    assert {name for name, p in routed.named_parameters() if p.grad is not None} == declared
    assert {name for name, p in routed.named_parameters() if p.requires_grad} == declared
    assert len(routed.trainable_parameters()) == len(declared)
    numbers = sum(p.numel() for p in routed.trainable_parameters())
    assert routed.routing.trained_numbers() == numbers - sum(p.numel() for p in routed.head.parameters())


def test_the_classifier_of_a_frozen_model_is_trained_too() -> None:
    routed = route(create().requires_grad_(False))
    assert routed.head.weight.requires_grad
    assert not any(p.requires_grad for p in routed.vit.parameters())


def test_without_a_classifier_only_the_routing_is_trained() -> None:
    routed = route(create(num_classes=0))
    assert routed(pictures()).shape == (4, 16)
    assert sum(p.numel() for p in routed.trainable_parameters()) == routed.routing.trained_numbers() > 0


def test_a_saved_state_goes_on_in_a_fresh_module(tmp_path: Path) -> None:
    options = {"kv": "random", "norm": "norm1", "blocks": 2}
    routed = route(create(), **options)  # type: ignore[arg-type]
    steps(routed, 2)
    torch.save(routed.state_dict(), tmp_path / "routed.pt")
    fresh = route(create(), seed=7, **options)  # type: ignore[arg-type]
    assert not torch.equal(fresh.routing._router(0).queries, route(create()).routing._router(0).queries)
    fresh.load_state_dict(torch.load(tmp_path / "routed.pt", weights_only=True))
    assert torch.equal(fresh(pictures()), routed(pictures()))


def test_a_deep_copy_learns_for_itself() -> None:
    routed = route(create(), kv="backbone", norm="norm1")
    before = routed(pictures()).detach()
    twin = copy.deepcopy(routed)
    steps(twin, 2)
    assert torch.equal(routed(pictures()), before)
    assert not torch.equal(twin(pictures()), before)


def test_nothing_it_computes_with_is_hidden_from_to() -> None:
    """On the meta device a tensor left behind would be met by one that moved."""
    routed = route(create(), kv="backbone", norm="norm1", train="out", steps=2).to("meta")
    assert routed(pictures().to("meta")).shape == (4, 5)


def test_it_computes_with_the_parameters_it_is_given() -> None:
    """What replicas of DataParallel and torch.func rely on: no reference to the module's own parameters is kept."""
    routed, x = route(create()), pictures()
    other = route(create(), seed=3)
    assert torch.equal(functional_call(routed, other.state_dict(), (x,)), other(x))
    assert torch.equal(nn.DataParallel(routed)(x), routed(x))


def test_training_mode_switches_no_dropout_on() -> None:
    routed = route(create(drop_rate=0.5, pos_drop_rate=0.5, attn_drop_rate=0.5, drop_path_rate=0.5)).train()
    assert torch.equal(routed(pictures()), routed(pictures()))


def test_type_and_device_are_the_models() -> None:
    assert {t.dtype for t in route(create().double()).state_dict().values()} == {torch.float64}
    assert route(create().bfloat16())(pictures().bfloat16()).dtype == torch.bfloat16


def test_maps_show_where_prompts_look() -> None:
    routed = route(create(), blocks=2, prompts=3, placement="last")
    maps = routed.maps(pictures())
    assert maps.keys() == {2, 3}
    for a in maps.values():
        assert a.shape == (4, 3, 17)
        torch.testing.assert_close(a.sum(dim=-1), torch.ones(4, 3))
        assert not a.requires_grad


@pytest.mark.parametrize("keep", [False, True])
def test_maps_of_a_forward_are_those_of_the_blocks_inputs(keep: bool) -> None:
    routed, x = route(create(), blocks=2, prompts=3, keep=keep), pictures()
    vit, routing, watched = routed.vit, routed.routing, Watched(routed.routing)
    with torch.no_grad():
        torch.testing.assert_close(vit.features(x, plug=watched), vit.features(x, plug=routing))
        z = vit.embed(x)
        assert watched.maps.keys() == {0, 1}
        torch.testing.assert_close(watched.maps[0], routing.maps(0, z))
        torch.testing.assert_close(watched.maps[1], routing.maps(1, vit.block(0, z, plug=routing)))
    assert watched.maps[1].shape == (4, 3, 17 + 3 * keep)


def test_what_is_not_a_plain_vit_is_refused() -> None:
    with pytest.raises(UserError):
        route(nn.Linear(3, 3))
    with pytest.raises(UserError):
        route(timm.create_model("swin_tiny_patch4_window7_224", img_size=32, window_size=1))


def test_options_are_those_of_the_routing() -> None:
    with pytest.raises(UserError, match="the ViT has 4"):
        route(create(), blocks=5)
    with pytest.raises(TypeError, match="promts"):
        route(create(), promts=3)
