"""The search for a rate: what it sees, that it is kept and goes on, what it costs, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rwf.run.start
import rwf.run.world
from rwf import cli
from rwf.data.catalog import Catalog
from rwf.data.pictures import ArrayStore
from rwf.errors import UserError
from rwf.options import RunOptions
from rwf.run import tune_runs
from rwf.run.record import Record
from rwf.run.start import start
from rwf.run.toy import toy_catalog
from rwf.run.tune import best, edge, tune
from rwf.run.tune_options import TuneOptions, rates, searched
from rwf.run.tune_space import Space, make_space

TINY = "random:16x1"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A benchmark in memory, whose test pictures and later classes break whoever touches them."""
    catalog = toy_catalog(10, 4)
    learnable = set(np.flatnonzero(catalog.train.labels < 6).tolist())

    class Watched(ArrayStore):
        def picture(self, i, name):
            assert name.startswith("train"), f"{name} was asked for"
            assert i in learnable, f"{name} is of a later task"
            return super().picture(i, name)

    for split in (catalog.train, catalog.test):
        split.store = Watched(split.store.array)  # type: ignore[attr-defined]
    monkeypatch.setattr(rwf.run.world, "open_benchmark", lambda *_, **__: catalog)
    return catalog


@pytest.fixture
def run(tmp_path: Path) -> RunOptions:
    """Options of a run of 48 pictures of three of five tasks in six steps."""
    return RunOptions(
        benchmark="toy", backbone=TINY, out=tmp_path / "found", tasks=5, batch_size=8, threads=1, image_size=32
    )


def kept(folder: Path) -> dict:
    return json.loads((folder / "tune.json").read_text())


def test_it_tries_rates_on_the_first_tasks_and_keeps_the_whole_curve(world, run, capsys) -> None:
    found = tune("linear_probe", {"head_start": "random"}, run, TuneOptions(lr=(1e-4, 1e-2), seeds=2))
    assert found == kept(run.out)
    assert found["rate"] == "head_lr"  # nothing but a head is trained
    assert found["tuned_on"] == "tasks 1 to 3 of 5"
    assert not found["looks_ahead"]
    assert [row["options"] for row in found["rows"]] == [{"head_lr": 1e-4}, {"head_lr": 1e-2}]
    means = [row["mean"] for row in found["rows"]]
    assert [row["chosen"] for row in found["rows"]] == [means[0] >= means[1], means[1] > means[0]]
    assert all(len(row["accuracy"]) == 2 for row in found["rows"])
    assert found["budget"] == {"trials": 2, "trials_left": 0, "runs": 4, "image_forwards": 4 * 48, "pruned": 0}
    assert found["options"] == {"head_start": "random"}
    for row in found["rows"]:
        for seed, folder in enumerate(row["folders"]):
            result = json.loads((run.out / folder / "result.json").read_text())
            assert result["run"]["validation"] == 3
            assert (result["seed"], result["final_accuracy"]) == (seed, row["accuracy"][seed])
    assert capsys.readouterr().err.count(" %\n") == 4


def test_a_later_task_is_seen_only_where_it_is_said(world, run) -> None:
    with pytest.raises(AssertionError, match="later task"):
        tune("linear_probe", {}, run, TuneOptions(lr=(1e-3,), tune_on="all"))
    world.train.store = ArrayStore(world.train.store.array)
    found = tune("linear_probe", {}, replace(run, out=run.out / "all"), TuneOptions(lr=(1e-3,), tune_on="all"))
    assert found["looks_ahead"]
    assert found["tuned_on"] == "tasks 1 to 5 of 5: all, which looks ahead"


def test_methods_hear_of_the_whole_stream_what_they_may_know(world, run) -> None:
    """A pool that is shared out among ten tasks must be tuned as such."""
    seen: list[Any] = []
    init = rwf.run.world.make_learner

    def spy(config, **more):
        seen.append((config.class_count, config.task_count))
        return init(config, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rwf.run.world, "make_learner", spy)
        start("linear_probe", {}, replace(run, validation=3))
    assert seen == [(10, 5)]


class Broken(Exception):
    """Stands for whatever ends a process."""


def broken_off_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Ends the process, as it were, at this step of all that are made from now on."""
    after, count = Record.after, [0]

    def breaks(self, *args):
        after(self, *args)
        count[0] += 1
        if count[0] == number:
            raise Broken

    monkeypatch.setattr(Record, "after", breaks)


@pytest.mark.parametrize("sampler", ["grid", "tpe"])
def test_broken_off_it_goes_on_and_repeats_nothing(world, run, sampler, monkeypatch) -> None:
    options = TuneOptions(trials=3, sampler=sampler, low=1e-4, high=1e-1)
    whole, broken = replace(run, out=run.out / "whole"), replace(run, out=run.out / "broken", checkpoint_every=0.0)
    tune("linear_probe", {}, whole, options)
    with monkeypatch.context() as patch:
        broken_off_at(patch, 9)  # in the second run of six steps
        with pytest.raises(Broken):
            tune("linear_probe", {}, broken, options)
    assert kept(broken.out)["budget"]["trials"] == 1
    begun: list[Any] = []
    begin = tune_runs.start

    def counted(*given):
        begun.append(given)
        return begin(*given)

    monkeypatch.setattr(tune_runs, "start", counted)
    tune("linear_probe", {}, broken, options)
    assert len(begun) == 1  # the first run is kept, the second resumed
    assert [(row["options"], row["accuracy"]) for row in kept(broken.out)["rows"]] == [
        (row["options"], row["accuracy"]) for row in kept(whole.out)["rows"]
    ]


def test_a_grid_can_be_extended_and_a_finished_one_costs_nothing(world, run, monkeypatch) -> None:
    tune("linear_probe", {}, run, TuneOptions(lr=(1e-3, 1e-2)))
    monkeypatch.setattr(tune_runs, "resume", None)
    found = tune("linear_probe", {}, run, TuneOptions(lr=(1e-3, 1e-2, 1e-1)))
    assert [row["options"]["head_lr"] for row in found["rows"]] == [1e-3, 1e-2, 1e-1]
    monkeypatch.setattr(tune_runs, "start", None)
    assert tune("linear_probe", {}, run, TuneOptions(lr=(1e-3, 1e-2, 1e-1)))["rows"] == found["rows"]


def test_another_search_is_not_mixed_in(world, run) -> None:
    tune("linear_probe", {}, run, TuneOptions(lr=(1e-3,)))
    with pytest.raises(UserError, match="holds another search"):
        tune("linear_probe", {"mask": "batch"}, run, TuneOptions(lr=(1e-3,)))


def test_a_setting_that_fails_fails_alone(world, run) -> None:
    options = TuneOptions(search=("prompts=2,0",), lr=(1e-3,))
    found = tune("vpt", {"blocks": 1}, run, options)
    bad, good = found["rows"]
    assert "prompts" in bad["error"]
    assert good["chosen"]
    assert good["options"] == {"lr": 1e-3, "prompts": 2}


def test_several_at_once_find_the_same(folder, run, tmp_path) -> None:
    """Real processes, which have to open a real folder."""
    run = replace(run, benchmark=f"folder:{folder}")
    options = TuneOptions(lr=(1e-3, 1e-2))
    one = tune("linear_probe", {}, replace(run, out=tmp_path / "one"), options)
    two = tune("linear_probe", {}, replace(run, out=tmp_path / "two"), replace(options, jobs=2))
    assert [row["accuracy"] for row in one["rows"]] == [row["accuracy"] for row in two["rows"]]


def test_the_command_prints_a_table_and_the_curve(folder, run, capsys) -> None:
    line = f"tune vpt --benchmark folder:{folder} --backbone {TINY} --out {run.out} --tasks 5 --batch-size 8"
    line += " --threads 1 --image-size 32 --blocks 1 --prompts 2 --lr 1e-3 1e-2 --protocol paper"
    assert cli.main(line.split()) == 0
    said = capsys.readouterr().out
    assert "validation accuracy (%) over lr: 0.001 " in said
    assert "2 settings, 2 runs, 96 image-forwards" in said
    assert said.count("chosen\n") == 1
    fixed = kept(run.out)["options"]
    assert "lr" not in fixed
    assert (fixed["mask"], fixed["prompts"], fixed["head_lr"]) == ("task", 2, None)


def test_a_run_uses_what_was_found_and_carries_the_whole_search(world, run, tmp_path, monkeypatch) -> None:
    found = tune("linear_probe", {}, run, TuneOptions(lr=(1e-3, 1e-2)))
    started: list[Any] = []

    def only_noted(*given: Any) -> dict[str, Any]:
        started.append(given)
        return {}

    monkeypatch.setattr(rwf.run.start, "start", only_noted)
    monkeypatch.setattr("rwf.commands.run.print_result", lambda _: None)
    line = ["run", "linear_probe", "--benchmark", "toy", "--tuned", str(run.out)]
    assert cli.main(line) == 0
    assert cli.main([*line, "--head-lr", "0.5"]) == 0
    assert [given[1]["head_lr"] for given in started] == [found["chosen"]["head_lr"], 0.5]
    assert cli.main(["run", "rwf", *line[2:]]) == 2
    monkeypatch.undo()
    monkeypatch.setattr(rwf.run.world, "open_benchmark", lambda *_, **__: toy_catalog(10, 4))
    result = start("linear_probe", found["chosen"], replace(run, out=tmp_path / "used", tuned=run.out))
    assert result["tuned"]["rows"] == found["rows"]
    assert result["tuned"]["tuned_on"] == "tasks 1 to 3 of 5"
    assert result["run"]["validation"] == 0


def test_a_study_that_cannot_be_kept(world, run, tmp_path) -> None:
    for url in (f"sqlite:///{tmp_path}/nowhere/study.db", "no-such-thing://host/name"):
        with pytest.raises(UserError, match="the study cannot be kept") as refused:
            tune("linear_probe", {}, run, TuneOptions(lr=(1e-3,), storage=url))
        assert str(refused.value).endswith("give another --storage.")


# -- what is tried -----------------------------------------------------------------------------------------------------


def test_six_rates_with_one_ratio() -> None:
    assert rates(6, 1e-5, 1e-2) == (1e-5, 3.98e-5, 1.58e-4, 6.31e-4, 2.51e-3, 1e-2)
    assert rates(1, 1e-4, 1e-2) == (1e-3,)
    space = make_space(TuneOptions(), "lr", {}, "rwf")
    assert sorted(setting["lr"] for setting in space.grid()) == list(rates(6, 1e-5, 1e-2))


def test_the_middle_comes_first() -> None:
    grid = Space({"lr": (1.0, 2.0, 3.0), "n": (1, 2, 3)}, 9, "grid").grid()
    assert grid[0] == {"lr": 2.0, "n": 2}
    assert len(grid) == 9
    assert {tuple(setting.values()) for setting in grid[5:]} == {(a, b) for a in (1.0, 3.0) for b in (1, 3)}


def test_values_have_the_type_of_their_option() -> None:
    from rwf.methods.l2p import L2P

    found = searched(["pool=5,10", "head-lr=none,1e-3", "mask=batch,task", "batchwise=true,false"], L2P)
    assert found == {"pool": (5, 10), "head_lr": (None, 1e-3), "mask": ("batch", "task"), "batchwise": (True, False)}
    for spec, says in {
        "pool": "names no values",
        "pole=3": "no option 'pole'",
        "pool=many": "'many' is no value of pool",
        "mask=some": "'some' is no value of mask",
    }.items():
        with pytest.raises(UserError, match=says):
            searched([spec], L2P)


@pytest.mark.parametrize(
    ("options", "rate", "others", "says"),
    [
        ({}, None, {}, "without a learning rate, so there is nothing to tune"),
        ({"lr": (1e-3,)}, None, {}, "without a learning rate"),
        ({"lr": (1e-3,)}, "lr", {"lr": (1e-2,)}, "the same option"),
        ({"lr": (1e-3, 1e-2), "trials": 3}, "lr", {}, "2 settings, not the 3"),
    ],
)
def test_impossible_searches(options, rate, others, says) -> None:
    with pytest.raises(UserError, match=says):
        make_space(TuneOptions(**options), rate, others, "x")


@pytest.mark.parametrize(
    "bad", [{"trials": 0}, {"jobs": 0}, {"low": 0.0}, {"high": 1e-9}, {"lr": (-1.0,)}, {"budget": 0.0}]
)
def test_impossible_numbers(bad) -> None:
    with pytest.raises(UserError):
        TuneOptions(**bad)


def test_a_method_in_closed_form_has_nothing_to_tune(world, run) -> None:
    with pytest.raises(UserError, match="ncm learns in closed form"):
        tune("ncm", {}, run, TuneOptions())
    found = tune("slda", {}, run, TuneOptions(search=("shrinkage=1e-4,1e-1",)))
    assert [row["options"] for row in found["rows"]] == [{"shrinkage": 1e-4}, {"shrinkage": 1e-1}]
    assert found["rate"] is found["edge"] is None


def test_a_budget_pays_for_whole_settings(world, run) -> None:
    """The first shows what one costs; dear methods try fewer."""
    options = TuneOptions(lr=(1e-4, 1e-3, 1e-2), budget=100e-6)
    found = tune("linear_probe", {}, run, options)
    assert found["budget"]["image_forwards"] == 96
    assert found["budget"]["trials_left"] == 1
    assert {row["options"]["head_lr"] for row in found["rows"]} == {1e-3, 1e-4}  # the middle first
    dear = tune("l2p", {"pool": 2, "top_k": 1, "length": 1}, replace(run, out=run.out / "l2p"), options)
    assert (dear["budget"]["trials"], dear["budget"]["image_forwards"]) == (1, 96)


def test_equals_are_settled_in_their_middle_and_an_edge_is_told() -> None:
    def rows(*means):
        return [{"options": {"lr": 10.0**i}, "mean": mean} for i, mean in enumerate(means)]

    assert best(rows(1, 3, 3, 3)) == {"lr": 100.0}
    assert best([]) is None
    assert edge("lr", rows(3, 2, 1), {"lr": 1.0}) == "lowest"
    assert edge("lr", rows(1, 2, 3), {"lr": 100.0}) == "highest"
    assert edge("lr", rows(1, 3, 2), {"lr": 10.0}) is None
    assert edge(None, rows(1), {"lr": 1.0}) is None
