"""PCR against the official loss and written out: each picture against the proxies of all pictures of its batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.methods.pcr import PCR
from rwf.parts.prototypes import cosine_logits
from rwf.run.build import make_method
from rwf.vit.forward import ViT
from tests.golden import close, golden
from tests.methods.test_er import Given, Slots, begin_with, handed_out, head_of, needs_of_paper, noise, small, stream
from tests.pictures import batch_of

OPTIONS: dict[str, Any] = {"lr": 0.02, "head_lr": 0.1, "clip": 0.0, "optimizer": "sgd", "head_start": "random"}


class Published(PCR):
    """Adds 1e-6 to norms, as the official code does, and has the features given."""

    def classify_features(self, features: Tensor, rows: Tensor | None = None) -> Tensor:
        return cosine_logits(features, head_of(self).weight, self.head_scale, eps=1e-6)


def test_golden_step() -> None:
    """One step of ours on the recorded features of two views of each picture; then the official answers."""
    a, o = golden("pcr_loss_a")
    stored, new = o["M"], o["B"]
    shown = {(i, 2 + n): a["feat_mem"][n * stored + i] for n in range(2) for i in range(stored)}  # twice seen before
    shown |= {(stored + i, n): a["feat_stream"][n * new + i] for n in range(2) for i in range(new)}

    def viewer(images: Sequence[Tensor], ids: Sequence[int], visits: Sequence[int], kind: str) -> Tensor:
        return a["x"] if kind == "test" else torch.stack([shown[key] for key in zip(ids, visits, strict=True)])

    options = OPTIONS | {"lr": 1.0, "head_lr": None, "temperature": o["temperature"]}
    learner = Published(**options, memory_size=stored, replay=stored)
    learner.bind(cast(ViT, Given(o["d"])), viewer=viewer)
    learner.rows(range(o["classes"]))  # so that rows are the labels
    begin_with(learner, a["W"])
    learner.memory = Slots(stored, viewer, [stored] * new, draw=[list(range(stored))])
    learner.memory.add(replace(batch_of(range(stored), a["y_mem"].tolist()), viewer=viewer), views=2)
    questions = replace(batch_of(range(len(a["x"])), [0] * len(a["x"])), viewer=viewer)
    close(learner.predict(questions), a["logits_x"], 1e-9)
    notes = learner.learn(replace(batch_of(range(stored, stored + new), a["y_stream"].tolist()), viewer=viewer))
    assert notes["loss"] == pytest.approx(float(a["loss"]), rel=1e-9)
    close(head_of(learner).weight.data, a["W"] - a["grad_W"], 1e-9)


@pytest.mark.parametrize("views", [1, 2, 3])
def test_an_update_contrasts_each_view_with_one_proxy_for_each_view_of_the_batch(views: int) -> None:
    """Written as the sum over pictures that it is; the first batch, without a memory, is contrasted with itself."""
    temperature = 0.2
    learner = small(PCR(**OPTIONS, memory_size=9, replay=4, views=views, temperature=temperature))
    replays, speed = handed_out(learner.memory), dict[str, Tensor]()
    for step, (_, batch) in enumerate(stream()):
        y = learner.rows(batch.labels).tolist()
        vit, proxies = copy.deepcopy(learner.vit), head_of(learner).weight.detach().clone().requires_grad_()
        notes = learner.learn(batch)
        replay = replays[-1]
        assert len(replay) == min(4, 5 * step)
        pictures = [(i, n) for i in batch.ids for n in range(views)]
        pictures += [(i, v + n) for i, v in zip(replay.ids, replay.visits, strict=True) for n in range(views)]
        labels = [row for row in [*y, *learner.rows(replay.labels).tolist()] for _ in range(views)]
        features = vit.features(noise([], [i for i, _ in pictures], [n for _, n in pictures], "train"))
        features = features / features.norm(dim=1, keepdim=True)
        contrast = (features @ (proxies / proxies.norm(dim=1, keepdim=True)).T / temperature).exp()
        loss = torch.zeros((), dtype=torch.float64)
        for i, label in enumerate(labels):
            loss = loss - (contrast[i, label] / torch.stack([contrast[i, other] for other in labels]).sum()).log()
        loss = loss / len(labels)
        assert notes["loss"] == pytest.approx(loss.item(), abs=1e-11)
        weights = {f"vit.{n}": p for n, p in vit.named_parameters()} | {"classifier.weight": proxies}
        found = torch.autograd.grad(loss, list(weights.values()))
        for (name, weight), g in zip(weights.items(), found, strict=True):
            before = speed.get(name, torch.zeros_like(g[:0]))
            speed[name] = g + 0.9 * torch.cat([before, torch.zeros_like(g[len(before) :])])
            wanted = weight.detach() - learner.rate_of(name) * speed[name]
            torch.testing.assert_close(learner.trained()[name].data, wanted, rtol=0, atol=1e-10, msg=name)


def test_no_view_is_shown_twice() -> None:
    learner = small(PCR(**OPTIONS, memory_size=9, replay=4, views=3))
    replays = handed_out(learner.memory)
    for _, batch in stream():
        learner.learn(batch)
    shown = [(i, v + n) for replay in replays for i, v in zip(replay.ids, replay.visits, strict=True) for n in range(3)]
    assert len(set(shown)) == len(shown) == 5 * 4 * 3
    assert min(visit for _, visit in shown) == 3, "the stream showed the first three"


def test_answers_are_cosines_over_the_temperature() -> None:
    learner = small(PCR(temperature=0.25, memory_size=9, replay=4))
    for _, batch in stream():
        learner.learn(batch)
    x = batch.view(kind="test")
    with torch.no_grad():
        features, proxies = learner.vit.features(x), head_of(learner).weight
        cosines = torch.nn.functional.cosine_similarity(features[:, None], proxies[None], dim=2)
    torch.testing.assert_close(learner.predict(batch), cosines / 0.25, rtol=0, atol=1e-12)
    assert head_of(learner).bias is None


def test_needs() -> None:
    assert PCR().needs == {"memory"}
    assert PCR(reset_optimizer="all").needs == {"memory", "boundaries"}
    assert needs_of_paper("pcr") == {"memory"}


@pytest.mark.parametrize("option", ["mask", "window", "head", "head_scale", "head_bias"])
def test_what_the_contrast_settles_is_no_option(option: str) -> None:
    with pytest.raises(UserError, match=f"no option '{option}'"):
        make_method("pcr", {option: 1})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"memory_size": 0}, "memory of 0 pictures"),
        ({"replay": 0}, "replay is 0"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"views": 0}, "views is 0"),
    ],
)
def test_impossible_settings_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        small(PCR(**options))
