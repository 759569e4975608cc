"""The fast form of the routing is the literal one: outputs and all gradients, in float64, for every setting."""

from __future__ import annotations

import itertools
from typing import Any, TypeVar, get_args

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from rwf.vit.forward import ViT
from rwf.vit.routing import KeysValues, Placement, Reading, Routing, TokenNorm, Train, TrainKV
from rwf.vit.routing_reference import HopfieldPooling, forward_features, layer_of, layers_of, retrieve, routed_block

WIDTH, DEPTH, PROMPTS = 16, 2, 4
M = TypeVar("M", bound=nn.Module)


def randomised(module: M, seed: int) -> M:
    """The module in float64 with weights (frozen ones too) so large that no term is too small to be seen."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.double().state_dict().values():
            tensor.add_(0.25 * torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    return module


@pytest.fixture(scope="module")
def model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = VisionTransformer(
            img_size=12, patch_size=4, embed_dim=WIDTH, depth=DEPTH, num_heads=2, num_classes=0, init_values=0.5
        )
    return randomised(model, 1).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def vit(model: Any) -> ViT:
    return ViT(model)


def routing_for(vit: ViT, **options: Any) -> Routing:
    options = {"blocks": 1, **options}
    return randomised(
        Routing(width=WIDTH, depth=DEPTH, prompts=PROMPTS, seed=3, backbone=vit.timm.blocks, **options), 4
    )


def compare(fast: Tensor, literal: Tensor, inputs: dict[str, Tensor], case: Any) -> None:
    """Equal to 1e-12 of their scale, and so are the gradients of one random cotangent.

    The scale of gradients is that of the largest among them: they are made of the same chain and share its round-off.
    """
    cotangent = torch.randn(literal.shape, generator=torch.Generator().manual_seed(5), dtype=literal.dtype)
    ours, theirs = (torch.autograd.grad((y * cotangent).sum(), list(inputs.values())) for y in (fast, literal))
    scale = max(g.abs().max().item() for g in theirs)
    close(fast, literal, literal.abs().max().item(), f"the output for {case}")
    for name, a, b in zip(inputs, ours, theirs, strict=True):
        close(a, b, scale, f"the gradient of {name} for {case}")


def close(a: Tensor, b: Tensor, scale: float, what: str) -> None:
    error = (a - b).abs().max().item()
    assert error <= 1e-12 * scale, f"{what} differs by {error:.1e} of {scale:.1e}"


def compare_models(vit: ViT, **options: Any) -> None:
    routing = routing_for(vit, **options)
    x = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(6), dtype=torch.float64, requires_grad=True)
    fast = vit.features(x, plug=routing)
    tokens = forward_features(vit.timm, layers_of(routing), x, keep=routing.keep)
    literal = vit.timm.forward_head(tokens, pre_logits=True)
    compare(fast, literal, {"pixels": x, **dict(routing.named_parameters())}, options)


@pytest.mark.parametrize("train", get_args(Train))
@pytest.mark.parametrize("norm", get_args(TokenNorm))
@pytest.mark.parametrize("kv", get_args(KeysValues))
def test_the_fast_form_is_the_literal_form(vit: ViT, kv: str, norm: str, train: str) -> None:
    for reading, placement, steps, keep in itertools.product(
        get_args(Reading), get_args(Placement), (1, 2, 3), (False, True)
    ):
        compare_models(vit, kv=kv, norm=norm, train=train, reading=reading, placement=placement, steps=steps, keep=keep)


@pytest.mark.parametrize("train_kv", get_args(TrainKV))
@pytest.mark.parametrize("kv", get_args(KeysValues))
def test_also_with_trained_keys_and_values(vit: ViT, kv: str, train_kv: str) -> None:
    for reading, steps, beta in itertools.product(get_args(Reading), (1, 2), (None, 0.7)):
        compare_models(vit, kv=kv, train_kv=train_kv, reading=reading, steps=steps, beta=beta)


@pytest.mark.parametrize("kv", get_args(KeysValues))
def test_also_for_uniform_prompts(vit: ViT, kv: str) -> None:
    for norm, keep in itertools.product(get_args(TokenNorm), (False, True)):
        compare_models(vit, kv=kv, norm=norm, keep=keep, train="none", uniform=True)


@pytest.mark.parametrize("kv", get_args(KeysValues))
def test_also_for_routed_blocks_in_a_row(vit: ViT, kv: str) -> None:
    for norm, steps, keep in itertools.product(get_args(TokenNorm), (1, 2), (False, True)):
        compare_models(vit, blocks=2, kv=kv, norm=norm, steps=steps, keep=keep)


def test_no_routed_block_is_the_plain_model(vit: ViT) -> None:
    x = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    torch.testing.assert_close(vit.features(x, plug=routing_for(vit, blocks=0)), vit.timm(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("kv", get_args(KeysValues))
def test_the_maps_are_the_literal_associations(vit: ViT, kv: str, steps: int) -> None:
    routing = routing_for(vit, placement="last", kv=kv, steps=steps)
    z = torch.randn(2, 10, WIDTH, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    prompts, association = retrieve(layer_of(routing._router(1)), z)
    torch.testing.assert_close(routing.maps(1, z), association, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(routing.prompts(1, z), prompts, rtol=1e-12, atol=1e-12)


def test_the_blocks_of_the_vit_take_prompts_as_the_paper_concatenates_them(vit: ViT) -> None:
    routing = routing_for(vit)
    z = torch.randn(2, 10, WIDTH, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    literal = routed_block(vit.timm.blocks[0], layer_of(routing._router(0)), z)
    torch.testing.assert_close(vit.block(0, z, plug=routing), literal, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("train", ["q", "out"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_reading_hopfield_pooling_is_that_layer(train: str, steps: int) -> None:
    """With static, parameter-free normed keys and values; ``out``: static queries and an output projection."""
    d, m = 8, 3
    routing = Routing(width=d, depth=1, blocks=1, prompts=m, train=train, steps=steps, seed=0)  # type: ignore[arg-type]
    router = randomised(routing, 10)._router(0)
    layer = HopfieldPooling(
        d,
        quantity=m,
        update_steps_max=steps - 1,
        update_steps_eps=1e-300,
        state_pattern_as_static=train == "out",
        stored_pattern_as_static=True,
        pattern_projection_as_static=True,
        disable_out_projection=train == "q",
        normalize_stored_pattern_affine=False,
        normalize_pattern_projection_affine=False,
    ).double()
    with torch.no_grad():
        layer.pooling_weights.copy_(router.queries)
        layer.norm_state_pattern.load_state_dict(router.norm_q.state_dict())
        if train == "q":
            assert router.w_q is not None
            assert router.b_q is not None
            assert layer.in_proj_bias is not None
            layer.in_proj_weight.copy_(router.w_q.T)
            layer.in_proj_bias[:d].copy_(router.b_q)
        else:
            assert router.w_o is not None
            layer.out_proj.load_state_dict({"weight": router.w_o.T, "bias": router.b_o})
    z = torch.randn(2, 6, d, generator=torch.Generator().manual_seed(11), dtype=torch.float64)
    torch.testing.assert_close(router(z), layer.retrieve(z)[0], rtol=1e-12, atol=1e-12)


def iterated(most: int, eps: float) -> HopfieldPooling:
    layer = HopfieldPooling(8, quantity=3, num_heads=2, update_steps_max=most, update_steps_eps=eps)
    return randomised(layer, 12)


def test_the_library_retrieves_once_more_than_its_option_says_unless_it_converged() -> None:
    z = 2 * torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    one, two, three = (iterated(most, 1e-300).retrieve(z)[1] for most in (0, 1, 2))
    assert not torch.allclose(one, two)
    assert not torch.allclose(two, three)
    assert torch.equal(iterated(9, 1e300).retrieve(z)[1], two), "the first repetition always happens"


def test_its_stop_depends_on_the_other_pictures() -> None:
    z = 2 * torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    change = (iterated(1, 1.0).retrieve(z)[1] - iterated(0, 1.0).retrieve(z)[1]).norm(dim=(2, 3))  # B H
    low, high = change[:, 0].sort().values
    layer = iterated(2, ((low + high) / 2).item())
    quick = int(change[:, 0].argmin())
    alone, in_company = layer.retrieve(z[quick : quick + 1])[1][0, 0], layer.retrieve(z)[1][quick, 0]
    assert not torch.allclose(alone, in_company)
