"""`rwf tune`: settings chosen on training pictures of the first tasks, as many trials for every method, all kept."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optuna.exceptions import StorageInternalError

from rwf.errors import UserError
from rwf.files import FolderLock, make_folder, read_json, write_json
from rwf.options import RunOptions
from rwf.parts.learner import Learner
from rwf.registry import resolve_method
from rwf.run.demo import fingerprint
from rwf.run.loop import Stopped
from rwf.run.start import MUST_AGREE, learner_config
from rwf.run.tune_options import TuneOptions, searched
from rwf.run.tune_runs import Ended, Planned, carry_out_all
from rwf.run.tune_space import Space, make_space
from rwf.run.tune_study import Study
from rwf.run.tuned import TUNE
from rwf.run.world import World
from rwf.seeds import hash32

FIRST_TASKS = 3


@dataclass(frozen=True)
class Search:
    """One search: what is fixed, what is tried, and where it is kept."""

    method: str
    fixed: dict[str, Any]
    run: RunOptions
    space: Space
    options: TuneOptions
    rate: str | None
    environment: dict[str, Any]
    name: str
    folder: Path

    @property
    def names(self) -> list[str]:
        """The options that are tried, the rate first."""
        return sorted(self.space.names, key=lambda name: (name != self.rate, name))

    @property
    def seeds(self) -> range:
        return range(self.run.seed, self.run.seed + self.options.seeds)

    def runs(self, trial: int, setting: dict[str, Any]) -> list[Planned]:
        """The runs of one setting, a seed each; their folders are named by all that their results depend on."""
        own = self.fixed | setting
        words = "-".join(f"{name}-{value}" for name, value in setting.items())
        plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in words)[:80]
        out = []
        for seed in self.seeds:
            run = replace(self.run, seed=seed, out=None)
            mark = fingerprint(self.method, own, run, self.environment)
            run = replace(run, out=self.folder / "trials" / f"{plain}-s{seed}-{mark}")
            out.append(Planned(trial, self.method, own, run))
        return out


def tune(method: str, fixed: dict[str, Any], run: RunOptions, options: TuneOptions) -> dict[str, Any]:
    """Tries all settings that have not been tried yet; gives what ``tune.json`` then holds."""
    search = prepare(method, fixed, run, options)
    make_folder(search.folder)
    path = search.folder / TUNE
    with FolderLock(search.folder):
        if path.exists() and read_json(path)["study"]["name"] != search.name:
            raise UserError(
                f"{search.folder} holds another search, or one under other conditions: choose another --out."
            )
        with Study(search.name, search.space, search.folder, options.storage, run.seed) as study:
            write_json(path, content(search, study))
            try:
                go_on(search, study, path)
            except Stopped as stopped:
                raise Stopped(f"stopped; the same command goes on with what is in {search.folder}.") from stopped
            except StorageInternalError as error:
                said = str(error).splitlines()[0].rstrip(".")
                raise UserError(
                    f"the study in {study.place} cannot be written ({said}): mend that and give the same command; what "
                    "was run is not lost."
                ) from error
            found = content(search, study)
    if found["chosen"] is None:
        raise UserError(f"none of the settings could be run; the first one: {found['rows'][0]['error']}")
    return found


def go_on(search: Search, study: Study, path: Path) -> None:
    """Round after round until everything has been tried or the budget is spent; each result is kept at once."""
    while True:
        rows = study.rows()
        asked = study.begin(room(search, rows))
        if not asked:
            return
        plans = [planned for number, one in enumerate(asked) for planned in search.runs(number, one.setting)]
        ended: dict[int, list[Ended]] = {number: [] for number in range(len(asked))}
        for one in carry_out_all(plans, search.options.jobs):
            say(search, one)
            number = one.planned.trial
            ended[number].append(one)
            if len(ended[number]) == len(search.seeds):
                study.end(asked[number], row_of(asked[number].setting, ended[number]))
                write_json(path, content(search, study))


def room(search: Search, rows: list[dict[str, Any]]) -> int:
    """How many settings the next round may try. With a budget the first one alone shows what a setting costs."""
    most = len(search.space.grid()) if search.space.sampler == "grid" else search.options.jobs
    budget = search.options.budget
    if budget is None:
        return most
    costs = [row["image_forwards"] for row in rows]
    if not any(costs):
        return 1
    return min(most, int((budget * 1e6 - sum(costs)) // max(costs)))


def row_of(setting: dict[str, Any], ended: list[Ended]) -> dict[str, Any]:
    """What is kept of a setting: the accuracy under each seed and what it cost, or why there is none."""
    ended = sorted(ended, key=lambda one: one.planned.run.seed)
    row: dict[str, Any] = {"options": setting, "image_forwards": sum(one.forwards for one in ended)}
    errors = [one.error for one in ended if one.error]
    if errors:
        return row | {"error": errors[0]}
    accuracies = [one.accuracy for one in ended if one.accuracy is not None]
    folders = [str(Path("trials", one.planned.run.out.name)) for one in ended if one.planned.run.out]
    return row | {"accuracy": accuracies, "mean": sum(accuracies) / len(accuracies), "folders": folders}


def say(search: Search, one: Ended) -> None:
    """A line for the person who watches."""
    setting = ", ".join(f"{name} {one.planned.options[name]}" for name in search.space.names)
    came = one.error or f"{one.accuracy:.2f} %"
    print(f"{search.method}, {setting}, seed {one.planned.run.seed}: {came}", file=sys.stderr, flush=True)


def content(search: Search, study: Study) -> dict[str, Any]:
    """All there is to know of the search, as ``tune.json`` holds it: what was asked, the whole curve, what it cost."""
    run = search.run
    rows = sorted(study.rows(), key=lambda row: [_order(row["options"][name]) for name in search.names])
    whole = [row for row in rows if "error" not in row]
    chosen = best(whole)
    rows = [row | {"chosen": row["options"] == chosen} for row in rows]
    learned = f"tasks 1 to {run.validation} of {run.tasks}"
    return {
        "method": search.method,
        "benchmark": run.benchmark,
        "backbone": run.backbone,
        "rate": search.rate,
        "tuned_on": learned if search.options.tune_on == "first-three" else f"{learned}: all, which looks ahead",
        "looks_ahead": search.options.tune_on == "all",
        "seeds": list(search.seeds),
        "chosen": chosen,
        "edge": edge(search.rate, whole, chosen),
        "budget": {
            "trials": len(rows),
            "trials_left": max(0, search.space.trials - len(rows)),
            "runs": len(rows) * len(search.seeds),
            "image_forwards": sum(row["image_forwards"] for row in rows),
            "pruned": 0,
        },
        "rows": rows,
        "study": {"name": search.name, "storage": study.place, "sampler": search.space.sampler},
        "options": search.fixed,
        "run": run.as_json(),
        "environment": search.environment,
    }


def best(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The setting with the highest mean accuracy; of equals the one in their middle."""
    highest = max((row["mean"] for row in rows), default=None)
    equals = [row["options"] for row in rows if row["mean"] == highest]
    return equals[(len(equals) - 1) // 2] if equals else None


def edge(rate: str | None, rows: list[dict[str, Any]], chosen: dict[str, Any] | None) -> str | None:
    """Whether the chosen rate is the lowest or the highest that was tried: then a better one may lie beyond."""
    if chosen is None or rate is None or rate not in chosen:
        return None
    tried = {row["options"][rate] for row in rows}
    if len(tried) < 2 or min(tried) < chosen[rate] < max(tried):
        return None
    return "lowest" if chosen[rate] == min(tried) else "highest"


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (not number, float(value) if number else 0.0, str(value))


def prepare(method: str, fixed: dict[str, Any], run: RunOptions, options: TuneOptions) -> Search:
    """Everything that can be wrong is found out here, before a picture is learned."""
    others = searched(options.search, resolve_method(method))
    if options.jobs > 1 and run.threads is None:
        run = replace(run, threads=max(1, (os.cpu_count() or 1) // options.jobs))
    first = run.tasks if options.tune_on == "all" else min(FIRST_TASKS, run.tasks)
    plain = replace(run, validation=first, anytime=0, out=None)
    trial = fixed | {name: values[0] for name, values in others.items()}
    world = World(learner_config(method, trial, plain), plain)
    rate = rate_option(world.learner)
    space = make_space(options, rate, others, method)
    fixed = {name: value for name, value in fixed.items() if name not in space.names}
    environment = {key: value for key, value in world.environment().items() if key in MUST_AGREE}
    kinds = [name if space.is_number(name) else f"{name}{space.values[name]}" for name in space.names]
    same = fingerprint(method, fixed, plain, environment)
    mark = f"{hash32(same, options.seeds, space.sampler, *kinds):08x}"
    label = method.rpartition(":")[2]
    benchmark = "".join(c if c.isalnum() or c in "-_." else "-" for c in run.benchmark)[-40:].strip("-.")
    folder = run.out or Path("runs") / f"tune-{label}-{benchmark}-{mark}"
    return Search(method, fixed, plain, space, options, rate, environment, f"{label}-{mark}", folder)


def rate_option(learner: Learner) -> str | None:
    """The option that holds the learning rate: the head's, where nothing else is trained."""
    own = learner.options()
    if "lr" not in own:
        return None
    head_only = all(name.startswith("classifier.") for name in learner.trained())
    return "head_lr" if head_only and own.get("head_lr") is not None else "lr"
