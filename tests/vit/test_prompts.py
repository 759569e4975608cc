"""Static prompts, L2P's pool and DualPrompt's prefixes: official numbers, and what they are when written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from timm.layers import Attention
from torch import Tensor, nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.vit.attention import attend
from rwf.vit.prompts import DualPrompts, JoiningTokens, Keys, PromptPool, StaticPrompts
from rwf.vit.sockets import Plug, Prefix
from tests.golden import below, close, golden
from tests.pictures import tiny_vit

NEAR = 1e-10


def attention(a: dict[str, Any], heads: int) -> Attention:
    weights = below("attn.", a)
    out = Attention(weights["proj.weight"].shape[0], num_heads=heads, qkv_bias=True).double()
    out.load_state_dict(weights)
    return out


@pytest.mark.parametrize("name", ["persample", "batchwise"])
def test_golden_l2p_choice(name: str) -> None:
    a, o = golden(f"l2p_prompt_{name}")
    pool = PromptPool(width=o["d"], pool=o["pool"], length=o["length"], top_k=o["top_k"]).double()
    pool.prompts.data, pool.keys.weight.data = a["pool"], a["keys"]
    each = pool.keys.choose(a["query"])
    assert torch.equal(each.ids, a["topk_ids_per_sample"])
    choice = pool.keys.choose(a["query"], batchwise=o["batchwise_prompt"])
    assert torch.equal(choice.ids, a["prompt_idx"])
    close(choice.similarity, a["similarity"], NEAR)
    close(choice.pull, a["reduce_sim"], NEAR)
    both = torch.cat([pool.tokens(choice.ids), a["x_embed"]], dim=1)
    close(both, a["prompted_embedding"], NEAR)
    (grad,) = torch.autograd.grad(choice.pull, pool.keys.weight)
    close(grad, a["grad_keys"], NEAR)


def test_golden_l2p_forced_choice() -> None:
    a, o = golden("l2p_prompt_mask")
    pool = PromptPool(width=o["d"], pool=o["pool"], length=o["length"], top_k=o["top_k"]).double()
    pool.prompts.data, pool.keys.weight.data = a["pool"], a["keys"]
    choice = pool.keys.choose(a["query"], forced=a["prompt_mask"])
    close(choice.pull, a["reduce_sim"], NEAR)
    both = torch.cat([pool.tokens(choice.ids), a["x_embed"]], dim=1)
    close(both, a["prompted_embedding"], NEAR)


def test_batchwise_choice_is_the_majority() -> None:
    def keys(top_k: int) -> Keys:
        out = Keys(4, 4, top_k=top_k, seed=0, purpose="test")
        out.weight.data = torch.eye(4)
        return out

    query = torch.tensor([[3.0, 2, 1, 0], [0, 2, 3, 1], [0, 3, 2, 1]])  # best two: 0 1, 2 1, 1 2
    assert keys(2).choose(query).ids.tolist() == [[0, 1], [2, 1], [1, 2]]
    assert keys(2).choose(query, batchwise=True).ids.tolist() == [[1, 2]] * 3
    assert keys(1).choose(query, batchwise=True).ids.tolist() == [[0]] * 3, "of equal ones the lower"


def test_l2p_tokens_in_the_vit_are_the_official_sequence() -> None:
    """[CLS, prompts, patches] before block 0, the head reads the mean of the prompts after the final norm."""
    vit, x = tiny_vit(), torch.randn(3, 3, 8, 8, dtype=torch.float64)
    pool = PromptPool(width=16, pool=6, length=2, top_k=3, seed=1).double()
    query = vit.features(x)
    ids = pool.keys.choose(query).ids
    position = vit.timm.pos_embed[0, 0]
    ours = vit.features(x, JoiningTokens(pool.tokens(ids, position)), read=slice(-6, None))
    model = vit.timm
    z = model._pos_embed(model.patch_embed(x))
    prompts = torch.stack([torch.cat([pool.prompts[j] for j in row]) for row in ids]) + position
    z = model.norm(model.blocks(torch.cat([z[:, :1], prompts, z[:, 1:]], dim=1)))
    torch.testing.assert_close(ours, z[:, 1:7].mean(1), rtol=1e-11, atol=1e-11)


PREFIX_FILES = ["batchwise_B6", "select_B4", "task_B4", "task_B5"]


def dual_of(a: dict[str, Any], o: dict[str, Any], official: bool) -> DualPrompts:
    layers = o["layers"]
    dual = DualPrompts(
        width=o["d"],
        depth=layers + 1,
        pool=o["pool"],
        general_blocks=[layers],
        expert_blocks=range(layers),
        expert_length=o["length"],
        official_reshape=official,
    ).double()
    dual.expert.data, dual.keys.weight.data = a["prompt"].flatten(-2), a["keys"]
    return dual


@pytest.mark.parametrize("official", [False, True])
@pytest.mark.parametrize("name", PREFIX_FILES)
def test_golden_dual_prefixes(name: str, official: bool) -> None:
    a, o = golden(f"dual_prefix_{name}")
    dual = dual_of(a, o, official)
    forced = a["prompt_idx"] if o["mode"] == "task" else None
    choice = dual.keys.choose(a["query"], batchwise=o["mode"] == "batchwise", forced=forced)
    assert torch.equal(choice.ids, a["prompt_idx"])
    close(choice.similarity, a["similarity"], NEAR)
    close(choice.pull, a["reduce_sim"], NEAR)
    kind = "official" if official else "correct"
    close(dual.chosen(choice.ids), a[f"batched_prompt_{kind}"].flatten(-2), NEAR)
    plug, attn = dual.plug(choice.ids), attention(a, o["heads"])
    for i in range(o["layers"]):
        out = attend(attn, nn.Identity(), a["x"], prefix=plug.prefix(i, a["x"]))
        close(out, a[f"attn_out_{kind}"][i], NEAR)
    close(attend(attn, nn.Identity(), a["x"]), a["attn_out_noprompt"], NEAR)


def test_golden_dual_vit_with_the_official_layout() -> None:
    a, o = golden("dual_tiny_vit_official_reshape")
    weights = below("model.", a)
    vit = tiny_vit(weights, depth=o["depth"], width=o["embed_dim"], heads=o["num_heads"])
    dual = DualPrompts(
        width=o["embed_dim"],
        depth=o["depth"],
        pool=o["pool_size"],
        general_blocks=o["g_prompt_layer_idx"],
        expert_blocks=o["e_prompt_layer_idx"],
        general_length=o["g_prompt_length"],
        expert_length=o["prompt_length"],
        official_reshape=True,
    ).double()
    dual.general.data = weights["g_prompt"].flatten(-2)
    dual.expert.data = weights["e_prompt.prompt"].flatten(-2)
    dual.keys.weight.data = weights["e_prompt.prompt_key"]
    near = 1e-9
    query = vit.features(a["image"])
    close(query, a["query"], near)

    def logits(ids: Tensor) -> Tensor:
        return functional.linear(vit.features(a["image"], dual.plug(ids)), weights["head.weight"], weights["head.bias"])

    choice = dual.keys.choose(query, forced=1)
    train = logits(choice.ids)
    close(train, a["train_logits"], near)
    close(choice.pull, a["train_reduce_sim"], near)
    test_choice = dual.keys.choose(query)
    assert torch.equal(test_choice.ids, a["test_idx"])
    close(logits(test_choice.ids), a["test_logits"], near)
    loss = functional.cross_entropy(train[:, 2:4], a["label"] - 2) - choice.pull  # classes 2 and 3 are the task's
    close(loss, a["train_loss"], near)
    found = torch.autograd.grad(loss, [dual.expert, dual.general, dual.keys.weight])
    for grad, name in zip(found, ("e_prompt", "g_prompt", "keys"), strict=True):
        theirs = a[f"grad_{name}"]
        close(grad, theirs if name == "keys" else theirs.flatten(-2), near)


def test_official_layout_mixes_keys_and_values_as_described() -> None:
    """new[b, j] = old[(2b + j) // B, (2b + j) mod B], old by (keys or values, sample)."""
    dual = DualPrompts(width=4, depth=3, pool=5, general_blocks=[0], expert_blocks=[1], official_reshape=True)
    ids = torch.tensor([[3], [0], [4]])
    picked = dual.expert[0][:, ids[:, 0]]  # 2 B n d
    chosen = dual.chosen(ids)[0]
    for b in range(3):
        for j in range(2):
            assert torch.equal(chosen[b, j], picked[(2 * b + j) // 3, (2 * b + j) % 3])
    dual.official_reshape = False
    assert torch.equal(dual.chosen(ids)[0], picked.transpose(0, 1))


def test_experts_inherit_and_keys_do_not() -> None:
    dual = DualPrompts(width=4, depth=5, pool=3)
    before, keys = dual.expert.detach().clone(), dual.keys.weight.detach().clone()
    dual.inherit(0)
    assert torch.equal(dual.expert, before)
    dual.inherit(2)
    assert torch.equal(dual.expert[:, :, 2], before[:, :, 1])
    assert torch.equal(dual.expert[:, :, :2], before[:, :, :2])
    dual.inherit(1)
    assert torch.equal(dual.expert[:, :, 1], before[:, :, 0])
    assert torch.equal(dual.keys.weight, keys)


def test_static_prompts_are_deep_prompt_tuning() -> None:
    """Written out: prompts join the sequence before a block of timm and are cut off after it."""
    vit, x = tiny_vit(), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    plug = StaticPrompts(width=16, depth=4, blocks=[0, 2], prompts=3, std=1.0).double()
    model = vit.timm
    z = model._pos_embed(model.patch_embed(x))
    for i, block in enumerate(model.blocks):
        if i in (0, 2):
            joined = torch.cat([plug.prompts[i // 2].expand(2, -1, -1), z], dim=1)
            z = block(joined)[:, 3:]
        else:
            z = block(z)
    torch.testing.assert_close(vit.features(x, plug), model.norm(z)[:, 0], rtol=1e-11, atol=1e-11)


def test_counts_of_the_paper() -> None:
    def count(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters())

    assert count(PromptPool(width=768)) == 46_080
    assert count(DualPrompts(width=768, depth=12, pool=10)) == 253_440
    assert count(DualPrompts(width=768, depth=12, pool=10, expert_length=20)) == 944_640
    assert count(StaticPrompts(width=768, depth=12, blocks=range(3), prompts=30)) == 69_120


def test_initial_values_are_functions_of_the_seed() -> None:
    def make(seed: int) -> list[nn.Module]:
        return [
            PromptPool(width=8, seed=seed),
            DualPrompts(width=8, depth=5, pool=3, seed=seed),
            StaticPrompts(width=8, depth=2, blocks=[0], prompts=2, seed=seed),
        ]

    for a, b, c in zip(make(0), make(0), make(1), strict=True):
        for p, q, r in zip(a.parameters(), b.parameters(), c.parameters(), strict=True):
            assert torch.equal(p, q)
            assert not torch.equal(p, r)
    pool = PromptPool(width=64).prompts
    assert -1 <= float(pool.detach().min()) < -0.95
    assert 0.95 < float(pool.detach().max()) <= 1


def test_impossible_settings_are_one_sentence() -> None:
    with pytest.raises(UserError, match="5 prompts cannot be chosen out of a pool of 3"):
        PromptPool(width=8, pool=3)
    with pytest.raises(UserError, match="pool is 0"):
        PromptPool(width=8, pool=0)
    with pytest.raises(UserError, match="room for 3 tasks"):
        Keys(3, 8, seed=0, purpose="test").choose(torch.ones(2, 8), forced=3)
    with pytest.raises(UserError, match="room for 3 tasks, task 4"):
        DualPrompts(width=4, depth=5, pool=3).inherit(3)
    with pytest.raises(UserError, match="blocks 0 to 2"):
        DualPrompts(width=4, depth=3, pool=3)
    with pytest.raises(UserError, match="different blocks"):
        DualPrompts(width=4, depth=6, pool=3, general_blocks=[0, 2])
    with pytest.raises(UserError, match="length is 0"):
        PromptPool(width=8, length=0)
    with pytest.raises(UserError, match="prompts is 0"):
        StaticPrompts(width=8, depth=2, blocks=[0], prompts=0)


def test_an_unprompted_block_has_no_prefix() -> None:
    plug: Plug = StaticPrompts(width=8, depth=3, blocks=[1], prompts=2)
    assert plug.prefix(0, torch.zeros(1, 1, 8)) is None
    assert isinstance(plug.prefix(1, torch.zeros(1, 1, 8)), Prefix)


def test_pools_begin_within_their_bound() -> None:
    for bound in (1.0, 0.01):
        pool = PromptPool(width=16, bound=bound)
        dual = DualPrompts(width=16, depth=5, pool=3, bound=bound)
        for prompts in (pool.prompts, dual.general, dual.expert):
            assert bound / 2 < prompts.abs().max() <= bound
        assert pool.keys.weight.abs().max() > 0.5, "keys are compared by cosine and keep their size"
