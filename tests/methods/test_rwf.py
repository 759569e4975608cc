"""RwF and the rungs of the attribution ladder: whole updates from the paper's formulas with timm's blocks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.data.batch import Boundary
from rwf.run.build import make_method
from rwf.run.step import tell
from rwf.vit.forward import ViT
from tests.methods.by_hand import ByHand, among, bound, embedded, needs, pictures, refuses
from tests.pictures import tiny_vit

K, M, D = 2, 3, 16
SMALL: dict[str, Any] = {"blocks": K, "prompts": M, "head": "linear", "clip": 0.0}


def literal_features(vit: ViT, x: Tensor, weights: dict[str, Tensor], routed: range, options: dict[str, Any]) -> Tensor:
    """Z -> A = softmax(beta Q~ K^T), P = A V, the block on [P; Z], the rows of Z.  # B 3 P P -> B d"""
    library = options.get("reading", "hopfield_pooling") == "hopfield_pooling"
    z = embedded(vit, x)
    for i, block in enumerate(vit.timm.blocks):
        if i not in routed:
            z = block(z)
            continue
        tokens = functional.layer_norm(z, (D,), eps=1e-5) if library else z
        if options.get("uniform"):
            prompts = tokens.mean(1, keepdim=True).expand(-1, M, -1)
        else:
            q = weights[f"{i}.queries"]
            if f"{i}.w_q" in weights:
                if library:
                    q = functional.layer_norm(q, (D,), weights[f"{i}.norm_q.weight"], weights[f"{i}.norm_q.bias"], 1e-5)
                q = q @ weights[f"{i}.w_q"]
                q = q + weights[f"{i}.b_q"] if library else q
            association = (q @ tokens.transpose(1, 2) / D**0.5).softmax(-1)  # B m L
            prompts = association @ tokens
        z = block(torch.cat([prompts, z], dim=1))[:, M:]
    out: Tensor = vit.timm.norm(z)[:, 0]
    return out


RUNGS: dict[str, dict[str, Any]] = {
    "mean-token copies": {"uniform": True, "train": "none"},
    "frozen random queries": {"train": "none"},
    "direct queries": {"train": "direct"},
    "RwF": {},
    "RwF, last blocks": {"placement": "last"},
    "RwF by its equations": {"reading": "equations"},
    "direct queries by the equations": {"reading": "equations", "train": "direct"},
}


@pytest.mark.parametrize("options", RUNGS.values(), ids=RUNGS)
def test_updates_are_written_out(options: dict[str, Any]) -> None:
    vit, viewer = tiny_vit(), pictures(16)
    learner = bound("rwf", vit, viewer, lr=0.02, head_lr=0.01, mask="batch", **SMALL | options)
    learner.rows("abc")
    hand = ByHand(learner, lr=0.02, head_lr=0.01)
    routed = range(2, 4) if options.get("placement") == "last" else range(K)
    frozen = {name.removeprefix("routers."): b for name, b in learner.plug.named_buffers()}
    start = "plug.routers."

    def weights() -> dict[str, Tensor]:
        return frozen | {n.removeprefix(start): leaf for n, leaf in hand.leaves.items() if n.startswith(start)}

    for step, labels in enumerate(["abab", "bcbc", "caca"]):
        batch = viewer.batch(range(4 * step, 4 * step + 4), labels)
        rows = learner.rows(batch.labels).tolist()
        logits = hand.head(literal_features(vit, batch.view(), weights(), routed, options))
        loss = among(logits, rows, sorted(set(rows)))
        notes = learner.learn(batch)
        assert notes["loss"] == pytest.approx(float(loss.detach()), rel=1e-11)
        torch.testing.assert_close(learner.answered, logits.detach(), rtol=1e-10, atol=1e-10)
        hand.step(loss)
        hand.agrees_with(learner)
    with torch.no_grad():
        expected = hand.head(literal_features(vit, viewer.x, weights(), routed, options))
    found = learner.predict(viewer.batch(range(16), [""] * 16))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def routing_numbers(method: str, **options: Any) -> int:
    """Trained numbers without the head."""
    learner = bound(method, tiny_vit(), pictures(1), **options)
    return sum(p.numel() for name, p in learner.trained().items() if not name.startswith("classifier."))


def test_what_each_rung_of_the_ladder_trains() -> None:
    """Probe, mean-token copies, frozen random queries, static prompts, direct queries, RwF."""
    assert routing_numbers("linear_probe") == 0
    assert routing_numbers("rwf", blocks=0) == 0
    assert routing_numbers("rwf", uniform=True, train="none", blocks=K, prompts=M) == 0
    assert routing_numbers("rwf", train="none", blocks=K, prompts=M) == 0
    assert routing_numbers("vpt", blocks=K, prompts=M) == K * M * D
    assert routing_numbers("rwf", train="direct", blocks=K, prompts=M) == K * M * D
    assert routing_numbers("rwf", blocks=K, prompts=M) == K * (M * D + D * D + D + 2 * D)
    assert routing_numbers("rwf", reading="equations", blocks=K, prompts=M) == K * (M * D + D * D)


def test_without_a_routed_block_it_is_the_probe_bit_by_bit() -> None:
    viewer, ends = pictures(12), []
    for learner in (bound("linear_probe", tiny_vit(), viewer), bound("rwf", tiny_vit(), viewer, blocks=0)):
        for start, labels in ((0, "abab"), (4, "bcbc"), (8, "cdcd")):
            learner.learn(viewer.batch(range(start, start + 4), labels))
        ends.append(learner.classifier.weight.detach())
    assert torch.equal(*ends)


def test_frozen_and_direct_queries_begin_as_the_function_that_rwf_begins_as() -> None:
    viewer = pictures(6)
    found = []
    for options in ({}, {"train": "direct"}, {"train": "none"}):
        learner = bound("rwf", tiny_vit(), viewer, **SMALL | options)
        with torch.no_grad():
            found.append(learner.features(viewer.x))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-5, atol=1e-6)  # drawn in float32
    assert not torch.allclose(found[0], tiny_vit().features(viewer.x), atol=1e-3)


@pytest.mark.parametrize("options", [{"train": "none"}, {"train": "none", "uniform": True}])
def test_the_controls_never_change_their_features(options: dict[str, Any]) -> None:
    viewer = pictures(8)
    learner = bound("rwf", tiny_vit(), viewer, lr=1.0, **SMALL | options)
    with torch.no_grad():
        before = learner.features(viewer.x)
        for start in (0, 4):
            with torch.enable_grad():
                learner.learn(viewer.batch(range(start, start + 4), "abab"))
        assert torch.equal(learner.features(viewer.x), before)


def test_mean_tokens_hang_on_no_seed_and_random_queries_do() -> None:
    viewer = pictures(4)

    def features(seed: int, **options: Any) -> Tensor:
        learner = make_method("rwf", {**SMALL, "train": "none", **options})
        with torch.no_grad():
            return learner.bind(tiny_vit(), viewer=viewer, seed=seed).double().features(viewer.x)  # type: ignore[attr-defined, no-any-return]

    assert torch.equal(features(0, uniform=True), features(1, uniform=True))
    assert not torch.equal(features(0), features(1))


def test_a_boundary_tells_it_nothing_unless_the_mask_asks() -> None:
    """Without: same bits, whatever boundaries come. With the task mask only the task's classes compete."""
    viewer, ends = pictures(12), []
    for told in (False, True):
        learner = bound("rwf", tiny_vit(), viewer, **SMALL)
        for task, labels in enumerate(["abab", "cdcd", "efef"]):
            if told:
                tell(learner, Boundary(task, sorted(set(labels))))
            learner.learn(viewer.batch(range(4 * task, 4 * task + 4), labels))
        ends.append(torch.cat([p.detach().flatten() for p in learner.trained().values()]))
    assert torch.equal(*ends)
    for options in ({}, {"mask": "batch"}, {"train": "direct"}, {"uniform": True, "train": "none"}):
        assert needs("rwf", **options) == frozenset()
    assert needs("rwf", mask="task") == {"boundaries", "task_classes"}
    assert needs("rwf", mask="none") == {"class_count"}


def test_the_row_of_the_paper_and_the_defaults() -> None:
    method: Any = make_method("rwf", {})
    paper = method.paper_options
    assert (paper["mask"], paper["head"], paper["lr"], paper["head_lr"]) == ("task", "linear", 2.5e-3, None)
    assert (method.blocks, method.prompts, method.placement, method.reading) == (3, 30, "first", "hopfield_pooling")
    assert (method.kv, method.norm, method.train, method.steps, method.keep) == ("identity", None, "q", 1, False)
    learner = bound("rwf", tiny_vit(), pictures(1))
    assert all(router.beta == D**-0.5 for router in learner.plug.routers.values())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"blocks": 5}, "blocks=5 cannot be routed, the ViT has 4"),
        ({"prompts": 0}, "prompts=0 leaves nothing to route"),
        ({"uniform": True}, "uniform prompts have nothing to train"),
        ({"beta": 0.0}, "beta=0.0"),
        ({"steps": 4}, "steps is 4; choose 1, 2, 3"),
        ({"train": "all"}, "train is 'all'; choose q, out, direct, none"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    refuses("rwf", sentence, **options)
