"""What the times stand on: medians of ratios, the peak of memory, and a bf16 act that leaves nothing behind."""

from __future__ import annotations

import sys

import pytest
import torch

from rwf.run.cost import Case
from rwf.run.timing import Subject, _clock, _peak
from rwf.vit.weights import load_backbone


@pytest.fixture
def subject() -> Subject:
    return Subject(Case("rwf"), load_backbone("random:32x4", pretrained=False), 2)


def test_a_row_holds_medians_of_ratios_to_the_forward_beside(subject: Subject) -> None:
    subject.taken = {"train": [(4.0, 2.0), (9.0, 3.0), (8.0, 1.0)], "predict": [(1.0, 1.0), (1.0, 2.0), (3.0, 1.0)]}
    row = subject.row({"forward_gflops": 10.0, "gemm_gflops": 20.0})
    assert row["train_time_f"] == 3.0
    assert row["predict_time_f"] == 1.0
    assert row["train_ms"] == 8000.0
    assert row["rate_to_forward"] == pytest.approx(subject.price.train_f / 3.0)
    assert row["rate_to_gemm"] == pytest.approx(subject.price.train_f / 3.0 / 2)
    assert row["train_time_bf16_f"] is None


def test_bf16_is_for_its_act_only(subject: Subject) -> None:
    assert set(subject.acts()) == {"train", "predict", "train_bf16", "predict_bf16"}
    steps = subject.learner.step_count
    subject.acts()["train_bf16"]()
    assert subject.learner.step_count == steps + 1
    assert subject.learner.precision == "fp32"


@pytest.mark.parametrize(("threads", "name"), [(1, "process_time"), (2, "perf_counter")])
def test_one_thread_is_timed_by_the_processor(threads: int, name: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert _clock().__name__ == name
    finally:
        torch.set_num_threads(before)


def test_cases_share_the_frozen_weights_and_only_these() -> None:
    vit = load_backbone("random:32x4", pretrained=False)
    kept, tuned = (Subject(Case(method), vit, 2).learner.vit for method in ("ncm", "finetune"))
    place = vit.timm.blocks[0].attn.qkv.weight.data_ptr()
    assert kept.timm.blocks[0].attn.qkv.weight.data_ptr() == place
    assert tuned.timm.blocks[0].attn.qkv.weight.data_ptr() != place


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say")
def test_the_peak_sees_what_was_freed_again() -> None:
    def act() -> None:
        torch.ones(16_000_000).sum()  # 64 MB

    found = _peak(act)
    assert found is not None
    assert 60 <= found < 200
