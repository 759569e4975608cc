"""The conformance suite catches methods that break their promises."""

from __future__ import annotations

import pytest
import torch

from rwf.run import check
from rwf.run.check import CheckError, Subject
from rwf.run.conformance import main

HEAD = """
from dataclasses import dataclass
import torch
from rwf import GradientLearner

@dataclass(kw_only=True, eq=False, repr=False)
class Mine(GradientLearner):
    lr: float = 5e-3
"""

LIARS = {
    "peeks at the number of classes": (
        check.is_told_only_what_it_declared,
        "    def setup(self):\n        self.count = int(self.told.class_count)\n",
    ),
    "peeks at a boundary's classes": (
        check.is_told_only_what_it_declared,
        "    extra_needs = frozenset({'boundaries'})\n"
        "    def on_boundary(self, boundary):\n        self.known = list(boundary.classes)\n",
    ),
    "looks twice without declaring it": (
        check.is_told_only_what_it_declared,
        "    def loss(self, batch, rows):\n"
        "        for _ in self.told.second_look(0): pass\n        return super().loss(batch, rows)\n",
    ),
    "learns while predicting": (
        check.prediction_changes_nothing,
        "    def answer(self, x):\n        self.classifier.weight.data.mul_(1.01)\n        return super().answer(x)\n",
    ),
    "looks at its neighbours": (
        check.prediction_ignores_neighbours,
        "    def answer(self, x):\n        return super().answer(x - x.mean(0, keepdim=True))\n",
    ),
    "keeps state outside the checkpoint": (
        check.resumes_exactly,
        "    def setup(self):\n        self.calls = 0\n"
        "    def loss(self, batch, rows):\n"
        "        self.calls += 1\n        return super().loss(batch, rows) * (1.0 + self.calls)\n"
        "    optimizer: str = 'sgd'\n",
    ),
    "draws its own luck": (
        check.same_seed_same_bits,
        "    def loss(self, batch, rows):\n"
        "        import random\n        return super().loss(batch, rows) * (1.0 + random.SystemRandom().random())\n"
        "    optimizer: str = 'sgd'\n",
    ),
    "changes what it calls frozen": (
        check.frozen_stays_frozen,
        "    def loss(self, batch, rows):\n"
        "        self.vit.timm.cls_token.data.add_(0.01)\n        return super().loss(batch, rows)\n",
    ),
    "counts what it does not train": (
        check.trains_what_it_says,
        "    def setup(self):\n        self.idle = torch.nn.Linear(2, 2)\n",
    ),
    "hoards pictures": (
        check.memory_stays_in_budget,
        "    def setup(self):\n        self.album = Album()\n"
        "    def loss(self, batch, rows):\n"
        "        self.album.nbytes += 1\n        return super().loss(batch, rows)\n\n"
        "class Album:\n    nbytes = 0\n    def state(self): return {}, 0\n"
        "    def restore(self, tensors, extra): pass\n",
    ),
    "does not learn": (
        lambda subject: check.learns(subject, 16, 0),
        "    def answer(self, x):\n        return -super().answer(x)\n",
    ),
}


@pytest.mark.parametrize("lie", LIARS)
def test_a_method_that_breaks_a_promise_is_caught(lie, tmp_path):
    promise, body = LIARS[lie]
    file = tmp_path / "mine.py"
    file.write_text(HEAD + body)
    with pytest.raises(CheckError):
        promise(Subject(f"{file}:Mine"))


def test_the_command_counts_what_fails(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(HEAD + "    def answer(self, x):\n        return -super().answer(x)\n")
    assert main(f"{file}:Mine") == 1
    said = capsys.readouterr().out
    assert "fails" in said
    assert "holds" in said


def test_an_honest_method_in_one_file_passes(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(HEAD)
    assert main(f"{file}:Mine") == 0, capsys.readouterr().out


def test_subjects_do_not_share_weights():
    first, _ = Subject("finetune").make()
    second, _ = Subject("finetune").make()
    with torch.no_grad():
        first.vit.timm.cls_token.add_(1.0)
    assert not torch.equal(first.vit.timm.cls_token, second.vit.timm.cls_token)
