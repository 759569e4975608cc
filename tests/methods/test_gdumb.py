"""GDumb against the official sampler and written out: what is kept, and the network that is trained when asked."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rwf.errors import UserError
from rwf.methods.gdumb import GDumb
from rwf.parts.head import Head
from rwf.run.build import make_method
from rwf.seeds import generator
from tests.golden import golden
from tests.methods.test_er import head_of, needs_of_paper, noise, same_bits, small, stream, weights_of
from tests.pictures import batch_of

OPTIONS: dict[str, Any] = {"memory_size": 7, "epochs": 3, "memory_batch": 3, "lr": 1e-3, "head_lr": 1e-2}


def test_golden_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Picture by picture; with more classes than room ours goes its own way, see the parts."""
    a, o = golden("gdumb_balancer_classinc")
    learner = small(GDumb(memory_size=o["mem_size"]))
    draws = iter(a["draws"].tolist())
    monkeypatch.setattr(learner.memory, "pick", lambda purpose, counter, high: next(draws))
    for i, label in enumerate(a["labels"].tolist()):
        learner.learn(batch_of([i], [label]))
        assert (i in {item.id for item in learner.memory.items}) == bool(a["accepted"][i])
    assert sorted(item.id for item in learner.memory.items) == a["final_ids"].tolist()
    assert next(draws, None) is None


def test_a_class_may_hold_one_picture_even_with_more_classes_than_room() -> None:
    learner = small(GDumb(memory_size=2, epochs=1))
    for i, label in enumerate([0, 1, 2, 3, 0]):
        learner.learn(batch_of([i], [label]))
        assert label in [item.label for item in learner.memory.items]
    assert len(learner.memory) == 2


def trained_on(learner: GDumb, vit: nn.Module, clip: float) -> dict[str, Tensor]:
    """Literally: the pretrained network and a new head, Adam, passes through the memory in one order each."""
    head = Head(learner.vit.feature_width, kind="linear").double()
    head.grow(len(learner.classes))  # its initial values are a function of seed and row
    weights: dict[str, Tensor] = {f"vit.{n}": p for n, p in vit.named_parameters()}
    weights |= {f"classifier.{n}": p for n, p in head.named_parameters()}
    rates = {n: 1e-2 if n.startswith("classifier.") else 1e-3 for n in weights}
    moments = {n: [torch.zeros_like(w), torch.zeros_like(w)] for n, w in weights.items()}
    items, step = learner.memory.items, 0
    for epoch in range(learner.epochs):
        order = torch.randperm(len(items), generator=generator(learner.seed, "gdumb", epoch)).tolist()
        for start in range(0, len(order), learner.memory_batch):
            part = [items[i] for i in order[start : start + learner.memory_batch]]
            x = noise([], [item.id for item in part], [epoch] * len(part), "train")
            rows = torch.tensor([learner.classes.index(item.label) for item in part])
            loss = functional.cross_entropy(head(vit.features(x)), rows)  # type: ignore[operator]
            gradients = torch.autograd.grad(loss, list(weights.values()))
            norm = torch.cat([g.flatten() for g in gradients]).norm()
            step += 1
            with torch.no_grad():
                for (name, weight), g in zip(weights.items(), gradients, strict=True):
                    g = g * min(1.0, clip / (float(norm) + 1e-6))
                    first, second = moments[name]
                    first.mul_(0.9).add_(0.1 * g)
                    second.mul_(0.999).add_(0.001 * g**2)
                    scale = (second / (1 - 0.999**step)).sqrt() + 1e-8
                    weight -= rates[name] * first / (1 - 0.9**step) / scale
    return {name: weight.detach() for name, weight in weights.items()}


@pytest.mark.parametrize("clip", [10.0, 0.3])
def test_the_network_is_trained_on_the_memory_from_the_pretrained_weights_on(clip: float) -> None:
    """Twice in the stream: no trace of the first training is left in the second."""
    learner = small(GDumb(**OPTIONS, clip=clip, head="linear"))
    pretrained = copy.deepcopy(learner.vit)
    for step, (_, batch) in enumerate(stream()):
        learner.learn(batch)
        if step in (2, 5):
            learner.prepare()
            wanted, found = trained_on(learner, copy.deepcopy(pretrained), clip), weights_of(learner)
            assert wanted.keys() == found.keys()
            for name, weight in wanted.items():
                torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-10, msg=name)
    assert learner.gradient_steps == 2 * 3 * 3, "passes of 7 pictures in batches of 3, 3 and 1"
    assert learner.replays == 2 * 3 * 7


def test_the_stream_itself_teaches_nothing() -> None:
    learner = small(GDumb(**OPTIONS))
    start = copy.deepcopy(learner.vit.state_dict())
    for _, batch in stream():
        assert learner.learn(batch) == {}
    assert same_bits(start, learner.vit.state_dict())
    assert learner.gradient_steps == 0
    assert not head_of(learner).begun.any()


def test_predictions_are_a_function_of_memory_and_seed_alone() -> None:
    """Whether and how often it was asked before, and with or without ``prepare``."""
    answers, probe = [], next(stream(start=900))[1]
    for asked in ("each time", "at the end", "prepared"):
        learner = small(GDumb(**OPTIONS))
        for _, batch in stream():
            learner.learn(batch)
            if asked == "each time":
                learner.predict(probe)
        if asked == "prepared":
            learner.prepare()
            learner.prepare()
            assert learner.gradient_steps == 9, "asked twice, trained once"
        answers.append(learner.predict(probe))
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])
    assert answers[0].shape == (5, 6)


def test_needs() -> None:
    assert GDumb().needs == {"memory"}
    assert needs_of_paper("gdumb") == {"memory"}
    assert not GDumb.answers_while_learning


@pytest.mark.parametrize("option", ["mask", "window", "reset_optimizer"])
def test_what_means_nothing_here_is_no_option(option: str) -> None:
    with pytest.raises(UserError, match=f"no option '{option}'"):
        make_method("gdumb", {option: "seen"})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"memory_limit": 0}, "memory of 0 bytes"),
        ({"epochs": 0}, "epochs is 0"),
        ({"memory_batch": 0}, "memory_batch is 0"),
        ({"clip": -1.0}, "clip is -1.0"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(GDumb(**options))
