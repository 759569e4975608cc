"""DualPrompt: an official network with loss and gradients through the method; two tasks written out; both layouts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.errors import UserError
from rwf.parts.told import Told
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.forward import ViT
from tests.golden import below, close, golden
from tests.methods.by_hand import ByHand, Pictures, among, block_by_hand, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit

SMALL: dict[str, Any] = {"general_blocks": 1, "expert_blocks": 2, "general_length": 2, "expert_length": 3, "pool": 3}


def test_golden_loss_gradients_and_answers_of_the_official_network() -> None:
    a, o = golden("dual_tiny_vit_official_reshape")
    weights, near = below("model.", a), 1e-9
    viewer = Pictures(a["image"])
    learner = bound(
        "dual_prompt",
        tiny_vit(weights, depth=o["depth"], width=o["embed_dim"], heads=o["num_heads"]),
        viewer,
        pool=o["pool_size"],
        general_blocks=len(o["g_prompt_layer_idx"]),
        expert_blocks=len(o["e_prompt_layer_idx"]),
        general_length=o["g_prompt_length"],
        expert_length=o["prompt_length"],
        official_reshape=True,
        mask="task",
        head="linear",
        pull=1.0,
    )
    learner.rows(range(o["num_classes"]))
    for task in (0, 1):  # the fixture is in the middle of its second task, of the classes 2 and 3
        tell(learner, Boundary(task, [2 * task, 2 * task + 1]))
    learner.prompts.general.data = weights["g_prompt"].flatten(-2)
    learner.prompts.expert.data = weights["e_prompt.prompt"].flatten(-2)
    learner.prompts.keys.weight.data = weights["e_prompt.prompt_key"]
    learner.classifier.load_state_dict(
        {"weight": weights["head.weight"], "bias": weights["head.bias"]} | {"begun": learner.classifier.begun}
    )
    batch = viewer.batch(range(4), a["label"].tolist())
    viewer.x = a["image"] - 0.1  # the train views are the images
    close(learner.backward(batch, a["label"]), a["train_loss"].detach(), near)
    found = {"e_prompt": learner.prompts.expert, "g_prompt": learner.prompts.general}
    for name, parameter in found.items():
        close(parameter.grad, a[f"grad_{name}"].flatten(-2), near)
    close(learner.prompts.keys.weight.grad, a["grad_keys"], near)
    viewer.x = a["image"]  # and now the test views
    close(learner.predict(batch), a["test_logits"], near)


def literal_features(vit: ViT, x: Tensor, general: Tensor, expert: Tensor, ids: list[int]) -> Tensor:
    """Prefixes of all in block 0, of the chosen ones in blocks 1 and 2, given as keys and values."""
    z = embedded(vit, x)
    for i, block in enumerate(vit.timm.blocks):
        prefix: dict[str, Any] = {}
        if i == 0:
            prefix = {"keys": general[0, 0].expand(len(x), -1, -1), "values": general[0, 1].expand(len(x), -1, -1)}
        elif i < 3:
            prefix = {
                name: torch.stack([expert[i - 1, j, task] for task in ids]) for j, name in enumerate(("keys", "values"))
            }
        z = block_by_hand(block, z, **prefix)
    return vit.timm.norm(z)[:, 0]


def literal_cosines(vit: ViT, x: Tensor, keys: Tensor) -> Tensor:
    query = vit.timm.norm(vit.timm.blocks(embedded(vit, x)))[:, 0]
    return functional.cosine_similarity(query[:, None], keys[None], dim=2)


def test_two_tasks_are_the_published_updates() -> None:
    """The task's prompts are trained, its key drawn to the queries; the next task's prompts begin as these."""
    vit, viewer = tiny_vit(), pictures(24)
    learner = bound(
        "dual_prompt",
        vit,
        viewer,
        lr=0.02,
        head_lr=None,
        clip=1.0,
        reset_optimizer="all",
        mask="task",
        head="linear",
        **SMALL,
    )
    learner.rows(list("abcde"))
    hand = ByHand(learner, lr=0.02, clip=1.0)
    for task, allowed in enumerate([[0, 1, 2], [3, 4]]):
        tell(learner, Boundary(task, ["abc", "de"][task]))
        hand.new_optimizer()
        if task:
            first = learner.prompts.expert.detach()[:, :, 0].clone()
            hand["prompts.expert"].data[:, :, 1] = hand["prompts.expert"].data[:, :, 0]
        for step in range(2):
            ids = range(12 * task + 6 * step, 12 * task + 6 * step + 6)
            batch = viewer.batch(ids, [list("abcabc"), list("deedde")][task])
            x, rows = batch.view(), learner.rows(batch.labels).tolist()
            features = literal_features(vit, x, hand["prompts.general"], hand["prompts.expert"], [task] * 6)
            pull = literal_cosines(vit, x, hand["prompts.keys.weight"])[:, task].mean()
            loss = among(hand.head(features), rows, allowed) - 1.0 * pull
            notes = learner.learn(batch)
            assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-12)
            hand.step(loss)
            hand.agrees_with(learner)
    experts = learner.prompts.expert.detach()
    assert torch.equal(experts[:, :, 0], first), "a new optimiser has no momentum that moves earlier tasks' prompts"
    assert not torch.equal(experts[:, :, 1], first)


def test_without_the_reset_momentum_moves_the_prompts_of_earlier_tasks() -> None:
    vit, viewer = tiny_vit(), pictures(8)
    learner = bound("dual_prompt", vit, viewer, reset_optimizer="none", **SMALL)
    assert learner.needs == {"boundaries"}, "the task's prompts are named by the boundaries all the same"
    tell(learner, Boundary(0, ["a"]))
    learner.learn(viewer.batch(range(4), list("abab")))
    before = learner.prompts.expert.detach()[:, :, 0].clone()
    tell(learner, Boundary(1, ["c"]))
    learner.learn(viewer.batch(range(4, 8), list("cdcd")))
    assert not torch.equal(learner.prompts.expert.detach()[:, :, 0], before)


def test_a_test_picture_chooses_for_itself() -> None:
    """By the best key, among the keys of all tasks, never by the majority of its batch."""
    vit, viewer = tiny_vit(), pictures(12)
    learner = bound("dual_prompt", vit, viewer, head="linear", **SMALL)
    learner.learn(viewer.batch(range(4), list("abab")))
    weights = {name: p.detach() for name, p in learner.trained().items()}
    chosen = literal_cosines(vit, viewer.x, weights["prompts.keys.weight"]).argmax(1).tolist()
    assert len(set(chosen)) > 1, "the case says nothing"
    features = literal_features(vit, viewer.x, weights["prompts.general"], weights["prompts.expert"], chosen)
    expected = features @ weights["classifier.weight"].T + weights["classifier.bias"]
    found = learner.predict(viewer.batch(range(12), [""] * 12))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_the_published_layout_is_an_option_that_mixes_pictures() -> None:
    """For one picture it is the right one; for two, the first gets keys for keys and values, the second values."""
    vit, viewer = tiny_vit(), pictures(2)
    right = bound("dual_prompt", vit, viewer, **SMALL)
    official = bound("dual_prompt", tiny_vit(), viewer, official_reshape=True, **SMALL)
    for n, same in ((1, True), (2, False)):
        x, ids = viewer.x[:n], torch.zeros(n, 1, dtype=torch.long)
        a, b = (one.vit.features(x, plug=one.prompts.plug(ids)) for one in (right, official))
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-13) is same
    general, expert = right.prompts.general, right.prompts.expert
    mixed = torch.stack([expert[:, 0, 0].expand(2, -1, -1, -1), expert[:, 1, 0].expand(2, -1, -1, -1)])  # b j e n d
    expected = torch.cat(
        [literal_features(vit, x[[b]], general, mixed[b].transpose(0, 1)[:, :, None], [0]) for b in range(2)]
    )
    torch.testing.assert_close(b, expected, rtol=1e-11, atol=1e-11)


def test_it_needs_boundaries_and_how_many_tasks_there_are() -> None:
    assert needs("dual_prompt") == {"boundaries", "task_count"}
    assert needs("dual_prompt", pool=10) == {"boundaries"}
    assert needs("dual_prompt", pool=10, reset_optimizer="none") == {"boundaries"}
    assert needs("dual_prompt", mask="task") == {"boundaries", "task_count", "task_classes"}
    assert needs("dual_prompt", pool=10, mask="none") == {"boundaries", "class_count"}
    learner = bound("dual_prompt", tiny_vit(depth=5), pictures(1), told=Told(task_count=7))
    assert learner.prompts.expert.shape[2] == 7


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("dual_prompt", {})
    assert method.paper_options["lr"] == 0.03 * 64 / 256
    assert (method.paper_options["mask"], method.paper_options["official_reshape"]) == ("task", True)
    assert method.official_reshape is False
    learner = bound("dual_prompt", tiny_vit(depth=6), pictures(1), pool=2)
    assert (learner.prompts.general_blocks, learner.prompts.expert_blocks) == ([0, 1], [2, 3, 4])
    assert learner.prompts.general.shape == (2, 2, 5, 16)
    shallow = bound("dual_prompt", tiny_vit(depth=4), pictures(1), pool=2)
    assert shallow.prompts.expert_blocks == [2, 3], "as many as the ViT has"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pool": 0}, "pool is 0"),
        ({"general_blocks": 4}, "blocks 0 to 3"),
        ({"general_blocks": 0}, "asked for none"),
        ({"general_blocks": 1, "expert_blocks": 4}, "blocks 0 to 3"),
        ({"general_length": 0}, "general_length is 0"),
        ({"expert_length": 0}, "expert_length is 0"),
        ({"pull": float("inf")}, "pull is inf"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("dual_prompt", sentence, **({"pool": 2} | options))


def test_more_tasks_than_places_are_one_sentence() -> None:
    learner = bound("dual_prompt", tiny_vit(), pictures(1), **SMALL | {"pool": 2})
    for task in range(2):
        tell(learner, Boundary(task, []))
    with pytest.raises(UserError, match="the pool has room for 2 tasks, task 3 is one more"):
        tell(learner, Boundary(2, []))
