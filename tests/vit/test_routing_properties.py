"""What the paper claims of its routing, with the constants, for inputs nobody chose."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor

from rwf.vit.forward import ViT
from rwf.vit.routing import Routing
from rwf.vit.routing_reference import forward_features, layer_of, layers_of, routed_block

WIDTH = 8
examples = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**31 - 1)
scales = st.floats(0.01, 30)
lengths = st.integers(1, 12)
kvs = st.sampled_from(["identity", "random"])


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def large(seed: int, scale: float = 1.0, **options: Any) -> Routing:
    """A routing with weights of unit size times scale, so that its maps are far from uniform."""
    routing = Routing(width=WIDTH, depth=2, blocks=2, prompts=3, seed=0, **options).double()
    with torch.no_grad():
        for i, tensor in enumerate(routing.state_dict().values()):
            tensor.copy_(scale * normal(seed + i, *tensor.shape))
    return routing


def entropy(p: Tensor) -> Tensor:
    return -torch.special.xlogy(p, p).sum(dim=-1)


def some_distribution(seed: int, length: int, sharpness: float) -> Tensor:
    return (sharpness * normal(seed, length)).softmax(dim=-1)


# --- the maps ---


@examples
@given(seeds, scales, lengths, kvs, st.sampled_from([1, 2, 3]), st.sampled_from(["equations", "hopfield_pooling"]))
def test_rows_of_the_map_are_distributions(
    seed: int, scale: float, length: int, kv: str, steps: int, reading: str
) -> None:
    a = large(seed, scale, kv=kv, steps=steps, reading=reading).maps(0, scale * normal(seed, 2, length, WIDTH))
    assert (a >= 0).all()
    torch.testing.assert_close(a.sum(dim=-1), torch.ones(2, 3, dtype=torch.float64), rtol=0, atol=1e-12)


@examples
@given(seeds, scales, lengths, st.sampled_from(["none", "plain"]))
def test_with_identity_prompts_are_convex_combinations_of_tokens(
    seed: int, scale: float, length: int, norm: str
) -> None:
    routing, z = large(seed, norm=norm), scale * normal(seed + 99, 2, length, WIDTH)
    tokens = routing._router(0).norm_z(z)
    prompts = routing.prompts(0, z)
    torch.testing.assert_close(prompts, routing.maps(0, z) @ tokens, rtol=1e-12, atol=1e-12 * scale)
    slack = 1e-12 * scale
    assert (prompts <= tokens.amax(dim=1, keepdim=True) + slack).all()
    assert (prompts >= tokens.amin(dim=1, keepdim=True) - slack).all()


def test_with_a_value_matrix_they_are_not() -> None:
    """The paper calls prompts convex combinations of the input features: of Z W_V they are, of Z only if W_V = I."""
    routing, z = large(0, 3, kv="random", norm="none"), normal(1, 1, 5, WIDTH)
    assert (routing.prompts(0, z) > z.amax(dim=1, keepdim=True)).any()


@examples
@given(seeds, scales, st.integers(2, 12), st.sampled_from([1, 2, 3]))
def test_the_order_of_tokens_changes_no_prompt(seed: int, scale: float, length: int, steps: int) -> None:
    routing, z = large(seed, steps=steps), scale * normal(seed + 99, 2, length, WIDTH)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(routing.prompts(0, z[:, order]), routing.prompts(0, z), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(routing.maps(0, z[:, order]), routing.maps(0, z)[..., order], rtol=1e-10, atol=1e-10)


# --- the free energy ---


@examples
@given(seeds, st.floats(0.05, 20), st.floats(0.1, 5), st.integers(2, 12), st.floats(0, 10))
def test_softmax_minimises_the_free_energy_with_minus_entropy(
    seed: int, beta: float, scale: float, length: int, sharpness: float
) -> None:
    """F(p) = -<p, s> - H(p) / beta exceeds its value at softmax(beta s) by exactly KL(p || softmax) / beta."""
    s, p = scale * normal(seed, length), some_distribution(seed + 1, length, sharpness)

    def free_energy(p: Tensor) -> Tensor:
        return -(p @ s) - entropy(p) / beta

    best, log_best = (beta * s).softmax(dim=-1), (beta * s).log_softmax(dim=-1)
    divergence = (torch.special.xlogy(p, p) - p * log_best).sum()
    excess = free_energy(p) - free_energy(best)
    tolerance = 1e-12 * (1 + s.abs().max().item() + length / beta)
    assert excess >= -tolerance
    assert abs(excess - divergence / beta) <= tolerance
    assert abs(free_energy(best) + (beta * s).logsumexp(dim=-1) / beta) <= tolerance


@examples
@given(seeds, st.floats(0.05, 20), st.floats(0.1, 5), st.integers(2, 12))
def test_with_the_printed_sign_softmax_is_not_the_minimiser(seed: int, beta: float, scale: float, length: int) -> None:
    """-<p, s> + H(p) / beta is concave: all on the best token is better than softmax, by log-sum-exp and more."""
    s = scale * normal(seed, length)

    def printed(p: Tensor) -> Tensor:
        return -(p @ s) + entropy(p) / beta

    best = (beta * s).softmax(dim=-1)
    one_hot = torch.nn.functional.one_hot(s.argmax(), length).double()
    assert printed(one_hot) == pytest.approx(-s.max().item())
    if entropy(best) > 1e-9:  # a softmax that is one-hot in float64 has nothing left to lose
        assert printed(one_hot) < printed(best)


def test_a_counterexample_to_the_printed_sign() -> None:
    """Two tokens that fit equally well: softmax is (1/2, 1/2) with +H = log 2, either token alone has 0."""
    p, alone = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
    assert entropy(p) > 0.69 > 0 == entropy(alone)


@examples
@given(seeds, st.floats(0.1, 3), lengths)
def test_a_row_of_the_map_is_that_minimiser(seed: int, beta: float, length: int) -> None:
    routing, z = large(seed, reading="equations", kv="random", beta=beta), normal(seed + 99, 1, length, WIDTH)
    layer = layer_of(routing._router(0))
    s = (layer.Q @ layer.W_Q) @ (z[0] @ layer.W_K).T  # m L: <q~, k_i>
    torch.testing.assert_close(routing.maps(0, z)[0], (beta * s).softmax(dim=-1), rtol=1e-11, atol=1e-13)


# --- smoothness ---


def bound(routing: Routing) -> Tensor:
    """(beta / 2) || Q~ W_K^T ||_2: the Lipschitz constant of Z -> A(Z) in the Frobenius norm, without LayerNorm."""
    layer = layer_of(routing._router(0))
    q_tilde = layer.norm_Q(layer.Q) @ layer.W_Q + layer.b_Q
    return layer.beta / 2 * torch.linalg.matrix_norm(q_tilde @ layer.W_K.T, ord=2)


@examples
@given(seeds, scales, st.floats(1e-6, 100), lengths, kvs, st.sampled_from(["equations", "hopfield_pooling"]))
def test_the_map_is_lipschitz_with_half_beta_times_the_queries(
    seed: int, scale: float, step: float, length: int, kv: str, reading: str
) -> None:
    routing = large(seed, kv=kv, norm="none", reading=reading)
    z, dz = scale * normal(seed + 97, 1, length, WIDTH), step * normal(seed + 98, 1, length, WIDTH)
    change = torch.linalg.norm(routing.maps(0, z + dz) - routing.maps(0, z))
    assert change <= bound(routing) * torch.linalg.norm(dz) * (1 + 1e-9) + 1e-13


def test_the_constant_cannot_be_smaller() -> None:
    """One query, two equal tokens moved apart along it: the bound is attained in the limit."""
    routing = Routing(width=WIDTH, depth=1, blocks=1, prompts=1, reading="equations", seed=0).double()
    direction = routing._router(0).effective_queries().detach()
    z = torch.zeros(1, 2, WIDTH, dtype=torch.float64)
    dz = 1e-4 * torch.stack([direction, -direction], dim=1)
    change = torch.linalg.norm(routing.maps(0, z + dz) - routing.maps(0, z))
    assert change >= 0.999999 * bound(routing) * torch.linalg.norm(dz)


# --- in the block ---


@pytest.fixture(scope="module")
def vit() -> ViT:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = VisionTransformer(img_size=12, patch_size=4, embed_dim=WIDTH, depth=2, num_heads=2, num_classes=0)
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.3)
    return ViT(model.double())


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_the_order_of_queries_changes_nothing_but_the_order_of_the_maps(vit: ViT, keep: bool, steps: int) -> None:
    routing, x = large(5, keep=keep, steps=steps), normal(6, 2, 3, 12, 12)
    before, z = vit.features(x, plug=routing), vit.embed(x)
    block, maps = vit.block(0, z, plug=routing)[:, :10], routing.maps(0, z)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        for i in routing.routed:
            queries = routing._router(i).queries
            queries.copy_(queries[order].clone())
    torch.testing.assert_close(vit.block(0, z, plug=routing)[:, :10], block, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(vit.features(x, plug=routing), before, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(routing.maps(0, z), maps[:, order], rtol=1e-12, atol=1e-14)
    assert not torch.allclose(maps[:, order], maps)


def rows_through_the_mlp(vit: ViT, call: Any) -> list[int]:
    rows: list[int] = []
    hooks = [
        b.mlp.register_forward_pre_hook(lambda _m, inputs: rows.append(inputs[0].shape[1]))
        for b in vit.timm.blocks
        if isinstance(b, Block)
    ]
    call()
    for hook in hooks:
        hook.remove()
    return rows


def test_prompts_never_reach_the_mlp(vit: ViT) -> None:
    routing, x = large(7), normal(8, 2, 3, 12, 12)
    everything = slice(0, 10)
    assert rows_through_the_mlp(vit, lambda: vit.encode(x, plug=routing, read=everything)) == [10, 10]
    assert rows_through_the_mlp(vit, lambda: forward_features(vit.timm, layers_of(routing), x)) == [10, 10]


def test_kept_prompts_do(vit: ViT) -> None:
    routing, x = large(7, keep=True), normal(8, 2, 3, 12, 12)
    literal = rows_through_the_mlp(vit, lambda: forward_features(vit.timm, layers_of(routing), x, keep=True))
    assert literal == [10 + 3, 10 + 3 + 3]
    assert rows_through_the_mlp(vit, lambda: vit.block(0, vit.embed(x), plug=routing)) == [13]


@pytest.mark.parametrize("other", [0.0, 1e3])
def test_what_the_mlp_would_do_to_prompts_does_not_matter(vit: ViT, other: float) -> None:
    """The output of a routed block does not depend on the rows of P after attention: they are nowhere."""
    routing, z = large(9), normal(10, 2, 10, WIDTH)
    block = vit.timm.blocks[0]
    handle = block.attn.register_forward_hook(lambda _m, _i, out: torch.cat([other * out[:, :3], out[:, 3:]], dim=1))
    changed = routed_block(block, layer_of(routing._router(0)), z)
    handle.remove()
    torch.testing.assert_close(vit.block(0, z, plug=routing), changed, rtol=1e-12, atol=1e-12)
