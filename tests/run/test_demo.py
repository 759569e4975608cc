"""The demo is runs like any other; what is finished is not run again, and what is counted is what was computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rwf.errors import UserError
from rwf.files import read_json
from rwf.report.demo import write_demo
from rwf.run import demo
from rwf.run.demo_options import SETTINGS, DemoOptions
from rwf.vit.flops import frozen_forward_flops
from rwf.vit.weights import load_backbone


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoOptions, list[Path]]:
    options = DemoOptions(
        benchmark="split-digits",
        backbone="random:32x4",
        train_fraction=0.1,
        threads=1,
        out=tmp_path_factory.mktemp("demo"),
    )
    return options, demo.learn_all(options)


def test_each_method_leaves_a_run_with_the_settings_of_the_demo(made: tuple[DemoOptions, list[Path]]) -> None:
    _, folders = made
    assert [folder.name.rpartition("-")[0] for folder in folders] == list(SETTINGS)
    for folder, own in zip(folders, SETTINGS.values(), strict=True):
        options = read_json(folder / "config.json")["learner"]["options"]
        assert own.items() <= options.items()
        assert read_json(folder / "result.json")["single_pass"]["most_visits"] == 1


def test_what_is_finished_is_not_run_again(
    made: tuple[DemoOptions, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, folders = made
    monkeypatch.setattr(demo, "start", lambda *_, **__: pytest.fail("a finished run was started again"))
    assert demo.learn_all(options) == folders


def test_an_answer_that_was_there_is_not_counted_twice(made: tuple[DemoOptions, list[Path]]) -> None:
    """The probe is asked about a test picture at every evaluation and computes it once: a forward a picture in all."""
    _, folders = made
    folder = folders[list(SETTINGS).index("linear_probe")]
    result, cost = read_json(folder / "result.json"), read_json(folder / demo.COST)
    computed = result["timing"]["forwards_computed"]
    assert computed < result["forwards"]["total"]
    whole = frozen_forward_flops(load_backbone("random:32x4"), 1) / 1e12
    assert 0.8 * computed * whole < cost["tflop"] < 1.1 * computed * whole


def test_the_page_is_written_and_the_table_said(made: tuple[DemoOptions, list[Path]]) -> None:
    options, folders = made
    said = write_demo(options.out, folders)
    assert all(name in said for name in SETTINGS)
    assert "rwf" in (options.out / "demo.html").read_text()


def test_what_it_is_to_run_is_checked_before_anything_is_learned(made: tuple[DemoOptions, list[Path]]) -> None:
    options, _ = made
    with pytest.raises(UserError, match="names none"):
        demo.learn_all(replace(options, methods=()))
    with pytest.raises(UserError, match="rwff"):
        demo.learn_all(replace(options, methods=("rwf", "rwff")))
