"""The routing plug: what it trains, where it starts, what it refuses and what it computes."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from rwf.errors import UserError
from rwf.vit.forward import ViT
from rwf.vit.routing import VIT_B16, Routing, paper_percent
from rwf.vit.routing_reference import forward_features, layer_of, layers_of, retrieve


def small(**options: Any) -> Routing:
    return Routing(**{"width": 8, "depth": 4, "prompts": 3, "seed": 0, **options})


@pytest.fixture(scope="module")
def model() -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return VisionTransformer(img_size=8, patch_size=4, embed_dim=8, depth=4, num_heads=2, num_classes=0).eval()


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- trained numbers -------------------------------------------------------------------------------------------------

D, M = 768, 30
COUNTS = [
    ({"reading": "equations"}, M * D + D * D, 612_864),
    ({"reading": "hopfield_pooling"}, M * D + D * D + D + 2 * D, 615_168),
    ({"reading": "equations", "train": "out"}, M * D + D * D, 612_864),
    ({"reading": "hopfield_pooling", "train": "out"}, M * D + D * D + D + 2 * D, 615_168),
    ({"reading": "equations", "train": "direct"}, M * D, 23_040),
    ({"reading": "hopfield_pooling", "train": "direct"}, M * D, 23_040),
    ({"train": "none"}, 0, 0),
    ({"train": "none", "uniform": True}, 0, 0),
    ({"reading": "equations", "train_kv": "k"}, M * D + 2 * D * D, 1_202_688),
    ({"reading": "hopfield_pooling", "train_kv": "both"}, M * D + 3 * D * D + 3 * D, 1_794_816),
    ({"kv": "random"}, M * D + D * D + D + 2 * D, 615_168),
    ({"norm": "none", "steps": 3, "keep": True}, M * D + D * D + D + 2 * D, 615_168),
]


@pytest.mark.parametrize(("options", "formula", "count"), COUNTS)
def test_trained_numbers_a_block(options: dict[str, Any], formula: int, count: int) -> None:
    routing = Routing(width=D, depth=12, blocks=1, prompts=M, seed=0, **options)
    assert routing.trained_numbers() == formula == count
    assert sum(p.numel() for p in routing.parameters()) == count, "what is frozen must not be a parameter"


def test_the_papers_percentages_come_out_by_truncation() -> None:
    a_block = Routing(width=D, depth=12, blocks=1, seed=0).trained_numbers()
    assert [paper_percent(k * a_block) for k in (1, 3, 5, 7, 10, 12)] == [0.7, 2.1, 3.5, 4.9, 7.1, 8.5]
    assert paper_percent(3 * a_block, digits=2) == 2.13
    assert Routing(width=D, depth=12, seed=0).trained_numbers() == 3 * a_block == 1_845_504


def test_neither_rounding_nor_the_bare_formulas_give_the_papers_percentages() -> None:
    assert round(100 * 7 * 615_168 / VIT_B16, 1) == 5.0 != 4.9
    assert paper_percent(3 * 612_864, digits=2) == 2.12 != 2.13


# --- where it starts -------------------------------------------------------------------------------------------------


def test_the_start_is_that_of_the_library() -> None:
    router = Routing(width=256, depth=1, blocks=1, kv="random", train="q", seed=1)._router(0)
    for matrix in (router.queries, router.w_q, router.w_k, router.w_v):
        assert matrix is not None
        assert matrix.std().item() == pytest.approx(0.02, rel=0.05)
        assert abs(matrix.mean().item()) < 0.001
    assert router.b_q is not None
    assert not router.b_q.any()


def test_a_start_depends_on_seed_and_block_only() -> None:
    wide, last, other = small(blocks=4, kv="random"), small(blocks=1, placement="last"), small(seed=1)
    assert torch.equal(wide._router(3).queries, last._router(3).queries)
    assert not torch.equal(wide._router(0).queries, wide._router(1).queries)
    assert not torch.equal(wide._router(0).queries, other._router(0).queries)
    before = torch.get_rng_state()
    small(kv="random", train="out")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("reading", ["equations", "hopfield_pooling"])
def test_direct_and_untrained_queries_start_where_the_papers_start(reading: Any) -> None:
    z = tokens(2, 5, 8)
    expected = small(reading=reading).prompts(0, z)
    for train in ("direct", "none"):
        torch.testing.assert_close(small(reading=reading, train=train).prompts(0, z), expected)


@pytest.mark.parametrize("kv", ["identity", "random"])
def test_the_product_of_queries_and_their_matrix_is_all_there_is_to_learn(kv: Any) -> None:
    """W_Q adds numbers, not functions: some m x d direct queries give the same for every input."""
    trained, direct = small(kv=kv).double(), small(kv=kv, train="direct").double()
    with torch.no_grad():
        for p in trained.parameters():
            p.normal_(generator=torch.Generator().manual_seed(1))
        for i in direct.routed:
            direct._router(i).queries.copy_(trained._router(i).effective_queries())
    z = 3 * tokens(2, 5, 8).double()
    torch.testing.assert_close(direct.prompts(1, z), trained.prompts(1, z), rtol=1e-12, atol=1e-14)


def test_keys_and_values_of_the_backbone_are_the_blocks_own_without_bias(model: Any) -> None:
    blocks = copy.deepcopy(model.blocks).double()
    with torch.no_grad():
        for p in blocks.parameters():
            p.add_(0.1 * tokens(*p.shape).double())
        blocks[1].attn.qkv.bias.zero_()
    router, z = small(kv="backbone", norm="norm1", backbone=blocks).double()._router(1), tokens(2, 5, 8).double()
    _, k, v = blocks[1].attn.qkv(blocks[1].norm1(z)).chunk(3, dim=-1)
    for w, expected in ((router.w_k, k), (router.w_v, v)):
        assert w is not None
        torch.testing.assert_close(router.norm_z(z) @ w, expected, rtol=1e-13, atol=1e-14)


def test_copies_of_the_backbone_are_frozen_and_do_not_touch_it(model: Any) -> None:
    before = copy.deepcopy(model.state_dict())
    routing = small(kv="backbone", norm="norm1", train="direct", backbone=model.blocks)
    assert {name.split(".")[-1] for name, _ in routing.named_parameters()} == {"queries"}
    with torch.no_grad():
        for tensor in routing.state_dict().values():
            tensor.add_(1)
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))


# --- where it acts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("placement", "routed"), [("first", [0, 1]), ("last", [2, 3])])
@pytest.mark.parametrize("keep", [False, True])
def test_only_routed_blocks_and_only_one_socket(placement: Any, routed: list[int], keep: bool) -> None:
    routing, z = small(blocks=2, placement=placement, keep=keep), tokens(2, 5, 8)
    for block in range(4):
        prefix, joining = routing.prefix(block, z), routing.tokens(block, z)
        if block not in routed:
            assert prefix is None
            assert joining is None
        elif keep:
            assert prefix is None
            assert joining is not None
            assert joining.shape == (2, 3, 8)
        else:
            assert joining is None
            assert prefix is not None
            assert prefix.tokens is not None
            assert prefix.tokens.shape == (2, 3, 8)


def test_uniform_prompts_are_the_mean_token() -> None:
    routing, z = small(uniform=True, train="none", norm="none"), tokens(2, 5, 8)
    torch.testing.assert_close(routing.prompts(0, z), z.mean(dim=1, keepdim=True).expand(2, 3, 8))
    torch.testing.assert_close(routing.maps(0, z), torch.full((2, 3, 5), 0.2))


def test_no_picture_sees_its_neighbours() -> None:
    routing, z = small(steps=3, kv="random").double(), 3 * tokens(4, 5, 8).double()
    alone = torch.cat([routing.prompts(0, z[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(routing.prompts(0, z), alone, rtol=1e-12, atol=1e-14)


# --- its state -------------------------------------------------------------------------------------------------------


def test_a_saved_routing_is_the_same_function_under_any_seed(model: Any) -> None:
    options = {"kv": "random", "norm": "norm1", "train": "out", "backbone": model.blocks}
    a, b, z = small(**options), small(seed=9, **options), tokens(2, 5, 8)
    assert not torch.equal(a.prompts(0, z), b.prompts(0, z))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a.prompts(0, z), b.prompts(0, z))


def test_a_state_for_other_blocks_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"routers\.3"):
        small(blocks=1, placement="last").load_state_dict(small(blocks=1).state_dict())


def test_all_of_it_moves_and_copies(model: Any) -> None:
    routing = small(kv="backbone", norm="norm1", backbone=model.blocks).double()
    twin, z = copy.deepcopy(routing), tokens(2, 5, 8).double()
    assert torch.equal(twin.prompts(0, z), routing.prompts(0, z))
    assert routing.to("meta").prompts(0, z.to("meta")).shape == (2, 3, 8)


# --- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"blocks": 5}, "the ViT has 4"),
        ({"blocks": -1}, "blocks=-1"),
        ({"prompts": 0}, "prompts=0"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 4}, "steps=4"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"beta": -1.0}, "beta=-1.0"),
        ({"beta": math.nan}, "beta=nan"),
        ({"beta": math.inf}, "beta=inf"),
        ({"uniform": True}, "uniform"),
        ({"uniform": True, "train": "none", "steps": 2}, "uniform"),
        ({"uniform": True, "train": "none", "train_kv": "v"}, "uniform"),
        ({"reading": "paper"}, "reading='paper'"),
        ({"placement": "middle"}, "placement='middle'"),
        ({"kv": "dense"}, "kv='dense'"),
        ({"norm": "layer"}, "norm='layer'"),
        ({"train": "all"}, "train='all'"),
        ({"train_kv": "q"}, "train_kv='q'"),
        ({"kv": "backbone"}, "pass its blocks"),
        ({"norm": "norm1"}, "pass its blocks"),
    ],
)
def test_impossible_settings_are_refused_in_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as refused:
        small(**options)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_a_block_that_is_not_routed_has_no_map() -> None:
    with pytest.raises(UserError, match=r"block 3 is not routed: \[0, 1, 2\] are"):
        small().maps(3, tokens(1, 5, 8))


# --- what it costs ---------------------------------------------------------------------------------------------------


def flops(call: Any, *args: Any) -> int:
    with FlopCounterMode(display=False) as counter:
        call(*args)
    return counter.get_total_flops()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_tokens_meet_no_square_matrix(steps: int) -> None:
    """The cost of the fast form, exactly: mL d products of tokens; d x d only with m rows."""
    batch, length, d, m = 2, 11, 64, 3
    z = torch.zeros(batch, length, d, device="meta")
    per_picture, queries = 2 * 2 * steps * batch * m * length * d, 2 * m * d * d
    for kv, dense in (("identity", 0), ("random", 2 * m * d * d * (1 + 2 * (steps - 1) * batch + batch))):
        router = Routing(width=d, depth=1, blocks=1, prompts=m, kv=kv, steps=steps, seed=0)._router(0).to("meta")  # type: ignore[arg-type]
        assert flops(router, z) == per_picture + queries + dense


def test_what_the_literal_form_spends_on_keys_and_values() -> None:
    """In a ViT-B/16 the projections of all tokens are most of what the paper's layer costs, not its m L d."""
    batch, length, d, m = 64, 197, 768, 30
    z = torch.zeros(batch, length, d, device="meta")
    router = Routing(width=d, depth=1, blocks=1, kv="random", reading="equations", train="direct", seed=0)._router(0)
    router = router.to("meta")
    literal, fast = flops(retrieve, layer_of(router), z), flops(router, z)
    projections, mixing = 2 * 2 * batch * length * d * d, 2 * 2 * batch * m * length * d
    assert projections / (projections + mixing) > 0.96
    assert fast < 0.13 * (projections + mixing) < 0.13 * literal


def test_the_price_of_routing_a_whole_forward() -> None:
    """Three of twelve blocks, prompts attended to by all tokens, in units of one plain forward of ViT-B/16."""
    batch, d, m = 64, 768, 30
    with torch.device("meta"):
        model: Any = VisionTransformer(num_classes=0)
    for block in model.blocks:
        block.attn.fused_attn = False  # on the meta device the counter knows the explicit form only
    vit, x = ViT(model, attention="explicit"), torch.zeros(batch, 3, 224, 224, device="meta")
    plain = flops(model, x)
    share = {}
    for kv in ("identity", "random"):
        routing = Routing(width=d, depth=12, kv=kv, prompts=m, seed=0).to("meta")  # type: ignore[arg-type]
        share[kv] = flops(lambda r=routing: vit.encode(x, plug=r, read=slice(0, 197))) / plain
    output_matrix = 3 * 2 * batch * m * d * d  # written out in the literal form, not part of the paper's
    literal = (flops(forward_features, model, layers_of(routing), x) - output_matrix) / plain
    assert share["identity"] == pytest.approx(1.009, abs=0.001)
    assert share["random"] == pytest.approx(1.012, abs=0.001)
    assert literal == pytest.approx(1.057, abs=0.001)
