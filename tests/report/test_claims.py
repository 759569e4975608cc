"""The figures of docs/paper-notes.md, from the paper's own tables."""

from __future__ import annotations

import pytest

from rwf.report.claims import below_finetune, benchmarks, cheaper, drops, figure, forgets_less, impossible, sheets
from rwf.report.published import published

CIFAR, RENDITIONS, SKETCH = "split-cifar100", "split-imagenet-r", "split-imagenet-sketch"


def test_who_forgets_less_than_rwf() -> None:
    assert benchmarks() == [CIFAR, RENDITIONS, SKETCH]
    assert forgets_less(CIFAR) == ["ease", "aper_adapter", "dual_prompt"]
    assert forgets_less(RENDITIONS) == []
    assert forgets_less(SKETCH) == ["inflora", "ease", "aper_adapter", "coda_prompt"]


def test_who_ends_below_the_lower_bound() -> None:
    assert below_finetune(CIFAR) == ["agem", "ewc_pp"]
    assert below_finetune(RENDITIONS) == ["agem", "ewc_pp", "gdumb"]
    assert below_finetune(SKETCH) == ["agem", "ewc_pp", "gdumb", "der_pp"]


def test_what_few_pictures_cost() -> None:
    found = drops()
    assert list(found) == ["aper_adapter", "ease", "coda_prompt", "rwf", "l2p", "dual_prompt", "inflora"]
    assert found["rwf"] == pytest.approx((11.80, 15.93), abs=0.006)
    assert found["coda_prompt"] == pytest.approx((11.37, 17.19), abs=0.006)
    assert found["aper_adapter"] == pytest.approx((5.40, 9.80), abs=0.006)
    assert found["inflora"] == pytest.approx((55.55, 89.31), abs=0.006)


def test_who_trains_less() -> None:
    assert cheaper() == ["l2p", "dual_prompt", "ease", "aper_adapter", "inflora"]


def test_one_row_contradicts_the_definitions() -> None:
    ((method, benchmark, best),) = impossible()
    assert (method, benchmark) == ("der_pp", CIFAR)
    assert best == pytest.approx((490.8 - 100) / 9 + 56.94)
    assert figure(method, benchmark) + figure(method, benchmark, "forgetting") > 100  # nor over all ten tasks


def test_masked_and_unmasked_rows_forget_apart() -> None:
    masked = ["l2p", "coda_prompt", "dual_prompt", "inflora", "aper_adapter", "ease"]
    names = {p.method for p in published() if "forgetting" in p.figures} - {"rwf"}
    of = {m: [figure(m, b, "forgetting") for b in (CIFAR, RENDITIONS)] for m in names}
    ends = [
        (min(values), max(values))
        for chosen in (masked, names - set(masked))
        for values in [[v for m in chosen for v in of[m]]]
    ]
    assert ends == [(4.86, 11.87), (20.40, 84.10)]


def test_the_abstract_against_table_1() -> None:
    assert figure("dual_prompt", CIFAR) - figure("rwf", CIFAR) == pytest.approx(1.10)
    assert figure("rwf", RENDITIONS) - figure("coda_prompt", RENDITIONS) == pytest.approx(7.93)
    assert figure("rwf", SKETCH) - figure("coda_prompt", SKETCH) == pytest.approx(13.78)


def test_the_tables_agree_where_they_overlap() -> None:
    table1 = {(p.method, p.benchmark): p.figures["final_accuracy"] for p in published() if p.table == "Table 1"}
    shared = [p for p in published() if p.table == "Table 2" and p.train_fraction == 1.0]
    shared += [
        p for p in published() if p.table == "Table 3" and (p.blocks, p.placement) in ((0, "none"), (3, "first"))
    ]
    assert len(shared) == 7 + 6
    assert all(p.figures["final_accuracy"] == table1[p.method, p.benchmark] for p in shared)


def test_depth() -> None:
    def best(benchmark: str) -> int | None:
        own = [p for p in published() if p.table == "Table 3" and p.benchmark == benchmark]
        return max(own, key=lambda p: p.figures["final_accuracy"].mean).blocks

    assert [best(name) for name in benchmarks()] == [5, 7, 12]
    of = {(p.benchmark, p.blocks, p.placement): p.figures["final_accuracy"].mean for p in published() if p.blocks}
    gains = {(b, k): of[b, k, "first"] - of[b, 3, "first"] for b in benchmarks() for k in (5, 7)}
    assert max(gains.values()) == gains[SKETCH, 7] == pytest.approx(1.51)
    assert min(gains.values()) == gains[CIFAR, 7] == pytest.approx(-0.83)
    whole = [of[b, 12, "all"] - of[b, 3, "first"] for b in benchmarks()]
    assert whole == pytest.approx([-12.84, -8.80, 2.31])
    assert figure("joint", SKETCH) - of[SKETCH, 12, "all"] == pytest.approx(0.14)


def test_all_of_it_can_be_printed() -> None:
    assert [len(sheet.lines) for sheet in sheets()] == [3, 7, 5, 1]
