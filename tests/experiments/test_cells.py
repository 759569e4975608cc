"""What each experiment would run: every cell can be made, and cells differ in what their labels say."""

from __future__ import annotations

import json

import pytest

from rwf.cli import main
from rwf.errors import UserError
from rwf.experiments import EXPERIMENTS
from rwf.experiments.asked import Asked
from rwf.experiments.carry_out import cells_of
from rwf.experiments.cell import Ask, Cell
from rwf.experiments.cost import estimates
from rwf.registry import METHODS
from rwf.run.build import make_method


def ask(**changes) -> Ask:
    return Ask(Asked(**({"backbone": "random:32x4", "benchmark": "split-renditions"} | changes)))


def of(name: str, **changes) -> list[Cell]:
    return cells_of(name, ask(**changes))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_cell_of_every_experiment_can_be_made_and_has_labels_of_its_own(name: str) -> None:
    cells = of(name)
    assert cells
    for cell in cells:
        make_method(cell.method, dict(cell.options))
        assert cell.labels["method"] == cell.method
    named = [(json.dumps(cell.labels), cell.run.seed) for cell in cells]
    assert len(set(named)) == len(named)
    assert {cell.run.seed for cell in cells} == {0, 1, 2}
    assert len(cells) % 3 == 0


def test_table1_has_every_method_and_a_learning_rate_is_a_cell_of_its_own() -> None:
    assert {cell.method for cell in of("table1")} == set(METHODS)
    rates = [
        (cell.method, cell.labels.get("lr"), dict(cell.options)) for cell in of("table1", lr=(0.1, 0.2), seeds=(7,))
    ]
    assert ("rwf", 0.1, {"lr": 0.1}) in rates
    assert ("linear_probe", 0.2, {"head_lr": 0.2}) in rates  # nothing but its head is trained
    assert ("ncm", None, {}) in rates
    assert len([rate for rate in rates if rate[0] == "ncm"]) == 1


def test_the_protocol_of_the_paper_then_the_settings_then_the_experiment(tmp_path) -> None:
    (cell,) = of("table1", methods=("rwf",), seeds=(0,), protocol="paper")
    assert (cell.options["mask"], cell.options["lr"]) == ("task", 0.0025)
    assert (cell.run.normalize, cell.run.test_view) == ("none", "cut")
    (cell,) = of("table1", methods=("rwf",), seeds=(0,), protocol="paper", normalize="weights")
    assert (cell.run.normalize, cell.run.test_view) == ("weights", "cut")
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"rwf": {"lr": 0.5, "mask": "batch"}}))
    cells = of("masks", methods=("rwf",), seeds=(0,), protocol="paper", settings=(path,))
    assert [cell.options["lr"] for cell in cells] == [0.5] * 4
    assert [cell.options["mask"] for cell in cells] == ["none", "task", "batch", "window"]
    path.write_text(json.dumps({"rwf": {"learning_rate": 0.5}}))
    with pytest.raises(UserError, match="sets learning_rate for rwf, which it has not"):
        ask(settings=(path,))
    search = tmp_path / "tune"
    search.mkdir()
    (search / "tune.json").write_text(json.dumps({"method": "rwf", "chosen": {"lr": 0.125}, "rows": []}))
    (cell,) = of("table1", methods=("rwf",), seeds=(0,), settings=(search,))
    assert cell.options == {"lr": 0.125}
    path.write_text("[1]")
    with pytest.raises(UserError, match="not a table of options"):
        ask(settings=(path,))


def test_depth_stands_beside_two_zero_rows_and_stops_at_the_backbone() -> None:
    cells = of("depth", seeds=(0,))
    shown = [(cell.method, cell.labels["k"], cell.labels["placement"]) for cell in cells]
    assert shown == [
        ("finetune", 0, "paper's zero row"),
        ("rwf", 0, "zero row"),
        ("rwf", 0, "unmasked zero row"),
        ("rwf", 1, "first"),
        ("rwf", 1, "last"),
        ("rwf", 3, "first"),
        ("rwf", 3, "last"),
        ("rwf", 4, "first"),
    ]
    assert {
        cell.options["mask"] for cell in cells if "zero" in cell.labels["placement"] and "mask" in cell.options
    } == {"none"}


def test_all_rungs_of_the_ladder_have_the_settings_of_rwf(tmp_path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"rwf": {"head_lr": 0.25, "blocks": 2, "kv": "random"}, "vpt": {"head_lr": 9.0}}))
    cells = of("ladder", seeds=(0,), settings=(path,))
    assert {cell.options["head_lr"] for cell in cells} == {0.25}
    assert {cell.options.get("blocks") for cell in cells if cell.method != "linear_probe"} == {2}
    assert len({(cell.method, json.dumps(dict(cell.options))) for cell in cells}) == len(cells)


def test_fewer_pictures_and_more_tasks_are_options_of_the_run() -> None:
    assert [c.run.train_fraction for c in of("few-shot", methods=("ncm",), seeds=(0,))] == [1.0, 0.7, 0.5, 0.2]
    assert [c.run.tasks for c in of("tasks", methods=("ncm",), seeds=(0,))] == [5, 10, 20, 40]


def test_threads_are_divided_among_jobs(monkeypatch) -> None:
    monkeypatch.setattr("rwf.experiments.cell.processors", lambda: 8)
    assert of("table1", methods=("ncm",))[0].run.threads == 8
    assert of("table1", methods=("ncm",), jobs=3)[0].run.threads == 2
    assert of("table1", methods=("ncm",), ray="local")[0].run.threads == 1
    assert of("table1", methods=("ncm",), jobs=3, threads=5)[0].run.threads == 5


def test_an_estimate_grows_with_the_pictures_and_says_what_cannot_be(asked) -> None:
    asking = Ask(asked(methods=("rwf", "ncm")))
    whole = estimates(asking, cells_of("table1", asking))
    assert [round(cost.forwards) for cost in whole] == [80 + 30, 80 + 30]  # learned, and 10 and 20 test pictures
    half = Ask(asked(methods=("rwf",), train_fraction=0.5))
    assert round(estimates(half, cells_of("table1", half))[0].forwards) == 40 + 30
    shallow = Ask(asked(methods=("rwf",), backbone="random:32x2"))
    (none,) = estimates(shallow, cells_of("table1", shallow))
    assert none.error == "blocks=3 cannot be routed, the ViT has 2: take 0 to 2."


def test_the_command_lists_experiments_and_what_one_would_run(folder, capsys) -> None:
    assert main(["list", "experiments", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} == set(EXPERIMENTS)
    line = ["experiment", "masks", "--benchmark", f"folder:{folder}", "--backbone", "random:32x4", "--seeds", "0"]
    assert main([*line, "--tasks", "2", "--methods", "rwf", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "rwf, mask window, seed 0" in out
    assert "4 runs" in out
    assert main([*line, "--methods", "ncm"]) == 2
    assert main(["experiment", "mask"]) == 2
