"""Cosine heads and prototypes as the official ones, EASE's completion and scores over three tasks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from rwf.parts.head import Head
from rwf.parts.prototypes import complete_prototypes, cosine_logits, reweighted_logits
from rwf.parts.statistics import FeatureStatistics
from tests.golden import golden


def test_golden_cosine_head() -> None:
    a, _ = golden("cosine_head")
    x, weight, sigma = (a[name].requires_grad_() for name in ("x", "weight", "sigma"))
    logits = cosine_logits(x, weight, sigma)
    torch.testing.assert_close(logits, a["logits"], rtol=1e-10, atol=1e-13)
    loss = functional.cross_entropy(logits, a["label"])
    torch.testing.assert_close(loss, a["loss"], rtol=1e-10, atol=1e-13)
    for grad, name in zip(torch.autograd.grad(loss, [x, weight, sigma]), ("x", "weight", "sigma"), strict=True):
        torch.testing.assert_close(grad, a[f"grad_{name}"], rtol=1e-10, atol=1e-13)


def test_golden_cosine_head_is_the_cosine_classifier() -> None:
    a, options = golden("cosine_head")
    head = Head(8, kind="cosine", scale=options["sigma"]).double()
    head.grow(5)
    head.weight.data.copy_(a["weight"])
    torch.testing.assert_close(head(a["x"]), a["logits"], rtol=1e-10, atol=1e-13)


def test_golden_aper_prototypes() -> None:
    a, options = golden("aper_prototype_logits")
    features = torch.cat([(a["X"] @ a["W0"]).tanh(), (a["X"] @ a["W1"]).tanh()], 1)
    statistics = FeatureStatistics(options["feature_dim"])
    for x, rows in zip(features.split(7), a["Y"].split(7), strict=True):
        statistics.add(x, rows)
    torch.testing.assert_close(statistics.means, a["prototypes"], rtol=1e-10, atol=1e-13)
    logits = cosine_logits(a["feat_test"], statistics.means, options["sigma"])
    torch.testing.assert_close(logits, a["logits"], rtol=1e-10, atol=1e-13)


def test_golden_ease_over_three_tasks() -> None:
    """Prototypes of a task's classes in all spaces so far; those of old classes in the new space are completed."""
    a, o = golden("ease_prototypes_3tasks")
    spaces = [a[f"W{t}"] for t in range(3)]
    kept: list[FeatureStatistics] = []
    task_of = torch.cat([torch.full((o["init_cls"] if t == 0 else o["inc"],), t) for t in range(3)])
    for t in range(3):
        kept.append(FeatureStatistics(o["d"]))
        for j in range(t + 1):
            kept[j].add((a[f"t{t}_X"] @ spaces[j]).tanh(), a[f"t{t}_Y"])
        now = task_of[task_of <= t]
        known = torch.stack([s.means for s in kept], dim=1)  # C T d
        full = complete_prototypes(known, now)
        torch.testing.assert_close(full.flatten(1), a[f"t{t}_proto_after"], rtol=1e-9, atol=1e-12)
        features = torch.stack([(a["X_test"] @ w).tanh() for w in spaces[: t + 1]], dim=1)
        torch.testing.assert_close(features.flatten(1), a[f"t{t}_feat_test"], rtol=1e-9, atol=1e-12)
        logits = reweighted_logits(features, full, now, o["alpha"])
        torch.testing.assert_close(logits, a[f"t{t}_logits"], rtol=1e-9, atol=1e-12)
        plain = cosine_logits(features.flatten(1), full.flatten(1))
        torch.testing.assert_close(plain, a[f"t{t}_logits_plain"], rtol=1e-9, atol=1e-12)


def literal_completion(p: Tensor, task_of: list[int]) -> Tensor:
    out = p.clone()
    for j in range(p.shape[1]):
        for c, i in enumerate(task_of):
            if i >= j:
                continue
            others = [k for k, task in enumerate(task_of) if task >= j]
            weights = torch.stack([functional.cosine_similarity(p[c, i], p[k, i], dim=0) for k in others]).softmax(0)
            out[c, j] = torch.stack([w * p[k, j] for w, k in zip(weights, others, strict=True)]).sum(0)
    return out


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_completion_and_scores_written_out(tasks: int) -> None:
    g = torch.Generator().manual_seed(tasks)
    task_of = [t for t in range(tasks) for _ in range(2)]
    prototypes = torch.randn(2 * tasks, tasks, 3, dtype=torch.float64, generator=g)
    rows = torch.tensor(task_of)
    full = complete_prototypes(prototypes, rows)
    torch.testing.assert_close(full, literal_completion(prototypes, task_of))
    x = torch.randn(4, tasks, 3, dtype=torch.float64, generator=g)
    scores = reweighted_logits(x, full, rows, alpha=0.3)
    for b in range(4):
        for c, i in enumerate(task_of):
            cosines = functional.cosine_similarity(x[b], full[c], dim=1)
            others = [float(cosines[j]) for j in range(tasks) if j != i]
            literal = float(cosines[i]) + 0.3 * sum(others) / max(1, len(others))
            assert float(scores[b, c]) == pytest.approx(literal, rel=1e-12)


def test_a_class_without_pictures_scores_zero_and_not_nan() -> None:
    assert cosine_logits(torch.ones(2, 3), torch.zeros(1, 3)).tolist() == [[0.0], [0.0]]


def test_scores_do_not_lose_digits_under_autocast() -> None:
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(5, 2, 8, generator=g), torch.randn(4, 2, 8, generator=g)
    rows = torch.tensor([0, 0, 1, 1])
    exact = cosine_logits(x[:, 0], w[:, 0]), reweighted_logits(x, w, rows)
    with torch.autocast("cpu", torch.bfloat16):
        found = cosine_logits(x[:, 0], w[:, 0]), reweighted_logits(x, w, rows)
    assert all(torch.equal(a, b) for a, b in zip(exact, found, strict=True))
