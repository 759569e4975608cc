"""The number of forwards is known before a run, and the run meets it."""

from __future__ import annotations

import pytest

from rwf.cli import main
from rwf.registry import METHODS, resolve_method
from rwf.run.forecast import forecast
from rwf.run.start import start

REGISTERED = [name for name, entry in METHODS.items() if not entry.alias_of]
EXACT = {"online_lora": {"variance_threshold": 0.0}}  # the loss is never flat
OTHER = [
    ("ease", {"passes": "official"}, {}),
    ("aper_adapter", {"passes": "official"}, {}),
    ("inflora", {"passes": "official"}, {}),
    ("ncm", {"view": "test"}, {"order": "iid"}),
    ("er", {"memory_size": 30, "replay": 7}, {"train_fraction": 0.6, "batch_size": 7}),
    ("er", {"memory_limit": 20_000}, {}),
    ("rwf", {}, {"order": "drift", "anytime": 2, "tasks": 2}),
    ("coda_prompt", {"pool": 20}, {}),
]


@pytest.mark.parametrize(
    ("method", "own", "changes"), [*((name, EXACT.get(name, {}), {}) for name in REGISTERED), *OTHER], ids=str
)
def test_a_run_meets_its_forecast(quick, method, own, changes) -> None:
    options = quick(checkpoint_every=1e9, **changes)
    own = {**getattr(resolve_method(method), "toy_options", {}), **own}
    said = forecast(method, own, options)
    result = start(method, own, options)
    assert result["forwards"] == said.forwards
    assert result["single_pass"]["images_in_stream"] == said.pictures
    assert (said.proviso != "") == (method == "online_lora")
    phases = [said.forwards[key] for key in ("learning", "online", "boundaries", "evaluations", "anytime")]
    assert said.forwards["total"] == sum(phases)
    if method not in ("ease", "gdumb") and not (resolve_method(method).__name__.endswith("Prompt") or method == "l2p"):
        each = 2 if method == "aper_adapter" else 1
        asked = said.forwards["evaluations"] + said.forwards["anytime"] - each * said.test_pictures
        assert asked == 0 or own.get("passes") == "official"


def test_the_command_says_it_and_leaves_nothing(quick, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    benchmark = quick().benchmark
    command = f"run online_lora --benchmark {benchmark} --backbone random:32x4 --tasks 5 --batch-size 8 --threads 1"
    assert main([*command.split(), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "pictures learned" in said
    assert "100" in said
    assert "hard buffer" in said
    assert not list(tmp_path.iterdir())
