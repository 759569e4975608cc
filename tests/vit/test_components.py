"""CODA-Prompt's components: official weights, prefixes, penalties, gradients and Gram-Schmidt."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.vit.attention import attend
from rwf.vit.components import PromptComponents, component_weights, gram_schmidt, orthogonality
from rwf.vit.sockets import Prefix
from tests.golden import close, golden
from tests.vit.test_prompts import NEAR, attention

NEAR9 = 1e-9
LETTERS = {"prompts": "p", "keys": "k", "attention": "a"}


def components(a: dict[str, Any], o: dict[str, Any], task: int, source: str = "param.") -> PromptComponents:
    out = PromptComponents(width=o["d"], depth=5, tasks=o["n_tasks"], pool=o["pool"], length=o["length"]).double()
    out.entered = torch.zeros(task + 1)
    for name, letter in LETTERS.items():
        values = torch.stack([a[f"{source}e_{letter}_{i}"] for i in range(5)])
        out.get_parameter(name).data.copy_(values)
    return out


@pytest.mark.parametrize("name", ["task0_mu0.0", "task0_mu0.1", "task1_mu0.0", "task1_mu0.1", "task2_mu0.0"])
def test_golden_components(name: str) -> None:
    a, o = golden(f"coda_{name}")
    coda = components(a, o, o["task"])
    plug = coda.plug(a["query"])
    given = {i: plug.prefix(i, a["query"]) for i in (0, 3)}
    for i, prefix in given.items():
        assert prefix is not None
        assert prefix.keys is not None
        assert prefix.values is not None
        for kind in ("train", "eval"):
            close(prefix.keys, a[f"{kind}_K_l{i}"], NEAR9)
            close(prefix.values, a[f"{kind}_V_l{i}"], NEAR9)
        penalty = o["mu"] * torch.stack([orthogonality(used[i].flatten(1)) for used in coda.used()]).sum()
        assert float(penalty.detach()) == pytest.approx(float(a[f"train_loss_l{i}"]), rel=1e-9)
        assert float(a[f"eval_loss_l{i}"]) == 0
        loss = (prefix.keys * a[f"cot_K_l{i}"]).sum() + (prefix.values * a[f"cot_V_l{i}"]).sum() + penalty
        grads = torch.autograd.grad(loss, [coda.get_parameter(n) for n in LETTERS], retain_graph=True)
        for grad, letter in zip(grads, LETTERS.values(), strict=True):
            close(grad[i], a[f"grad_e_{letter}_{i}"], NEAR9)


@pytest.mark.parametrize("name", ["task1_mu0.0", "task1_mu0.1", "task2_mu0.0"])
def test_golden_entering_a_task(name: str) -> None:
    a, o = golden(f"coda_{name}")
    before, after = (components(a, o, o["task"], source) for source in ("before_reinit.", "param."))
    start = o["new_components"][0]
    for name, letter in LETTERS.items():
        for i in range(5):
            new = gram_schmidt(before.get_parameter(name)[i].detach(), start, a[f"draws_e_{letter}_{i}"])
            close(new, after.get_parameter(name)[i].detach(), NEAR9)


@pytest.mark.parametrize("task", [0, 1])
def test_golden_gram_schmidt(task: int) -> None:
    a, o = golden("coda_gram_schmidt")
    start = task * o["pool"] // o["n_tasks"]
    close(gram_schmidt(a["seed"], start, a[f"draws_task{task}"]), a[f"result_task{task}"], NEAR9)
    if task:
        close(gram_schmidt(a["seed3d"], start, a["draws3d_task1"]), a["result3d_task1"], NEAR9)


def test_golden_weights_and_penalty() -> None:
    a, _ = golden("coda_alpha")
    weights = component_weights(a["query"], a["K"][None], a["A"][None])
    close(weights[0], a["alpha"], NEAR9)
    b, _ = golden("coda_ortho_penalty")
    torch.testing.assert_close(orthogonality(b["M"]), b["value"], rtol=1e-12, atol=1e-15)


def test_golden_prefix_attention() -> None:
    a, o = golden("coda_prefix_attention")
    attn = attention(a, o["heads"])
    out = attend(attn, nn.Identity(), a["x"], prefix=Prefix(keys=a["pk"], values=a["pv"]))
    close(out, a["out"], NEAR)
    close(attend(attn, nn.Identity(), a["x"]), a["out_plain"], NEAR)


def test_weights_are_cosines_of_products() -> None:
    g = torch.Generator().manual_seed(0)
    query, keys, attention_of = (
        torch.randn(s, dtype=torch.float64, generator=g) for s in ((3, 6), (2, 4, 6), (2, 4, 6))
    )
    literal = functional.cosine_similarity(query[None, :, None] * attention_of[:, None], keys[:, None], dim=3)
    torch.testing.assert_close(component_weights(query, keys, attention_of), literal)


def test_tasks_take_their_share_and_earlier_ones_are_detached() -> None:
    coda = PromptComponents(width=12, depth=6, tasks=3, blocks=[1, 4], pool=7, length=4).double()
    assert coda.share == 2
    query = torch.randn(3, 12, dtype=torch.float64)
    for task in range(3):
        coda.enter(task)
        start, stop = 2 * task, 2 * task + 2
        plug = coda.plug(query)
        assert plug.prefix(0, query) is None
        prefix = plug.prefix(4, query)
        assert prefix is not None
        assert prefix.keys is not None
        assert prefix.keys.shape == (3, 2, 12)
        grads = torch.autograd.grad(prefix.keys.sum() + coda.penalty(), list(coda.parameters()))
        for grad in grads:
            assert not grad[:, :start].any()
            assert not grad[:, stop:].any()
            assert grad[:, start:stop].any()
        for p in coda.parameters():
            rows = p.detach()[0].flatten(1)
            torch.testing.assert_close(rows[start:stop].norm(dim=1), torch.ones(2).double())
            assert not rows[stop:].any()
            if start:
                assert float((rows[start] @ rows[:start].T).abs().max()) < 1e-12, "untrained rows are orthogonal"
    again = PromptComponents(width=12, depth=6, tasks=3, blocks=[1, 4], pool=7, length=4).double()
    for task in range(3):
        again.enter(task)
    assert all(torch.equal(p, q) for p, q in zip(coda.parameters(), again.parameters(), strict=True))


def test_counts_of_the_paper() -> None:
    with torch.device("meta"):
        coda = PromptComponents(width=768, depth=12, tasks=10)
    assert sum(p.numel() for p in coda.parameters()) == 3_840_000


def test_impossible_settings_are_one_sentence() -> None:
    def make(**options: Any) -> PromptComponents:
        return PromptComponents(**({"width": 12, "depth": 5, "tasks": 3, "pool": 6, "length": 4} | options))

    with pytest.raises(UserError, match="pool of 6 components has none for each of 7 tasks"):
        make(tasks=7)
    with pytest.raises(UserError, match="13 components cannot be orthogonal in 12 dimensions"):
        make(pool=13)
    with pytest.raises(UserError, match="5 is odd"):
        make(length=5)
    with pytest.raises(UserError, match="task 4 is one more"):
        make().enter(3)
    with pytest.raises(UserError, match="tasks is 0"):
        make(tasks=0)
    with pytest.raises(ValueError, match="before the first enter"):
        make().plug(torch.ones(1, 12))
