"""A run's folder: made, locked, described, and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rwf.errors import UserError
from rwf.files import FolderLock, make_folder, read_json, write_json
from rwf.options import RunOptions
from rwf.parts.saved import CONFIG, STATE
from rwf.run.build import LearnerConfig
from rwf.run.loop import Observer, run, unobserved
from rwf.run.result import RESULT
from rwf.run.tuned import note
from rwf.run.world import World

ENVIRONMENT = "env.json"
MUST_AGREE = ("backbone_hash", "benchmark_fingerprint", "packages", "threads", "device")


def start(
    method: str, method_options: dict[str, Any], options: RunOptions, *, observe: Observer = unobserved
) -> dict[str, Any]:
    """A new run in a folder of its own; the result."""
    folder = options.out or free_folder(method, options)
    with _made(folder), FolderLock(folder):
        if (folder / CONFIG).exists():
            state = "a finished run" if (folder / RESULT).exists() else "a run that rwf resume can go on with"
            raise UserError(f"{folder} holds {state}: choose another folder with --out.")
        world = World(learner_config(method, method_options, options), options)
        for notice in world.notices():
            print(notice)
        write_json(folder / "env.json", world.environment())
        told = {"tuned": note(options.tuned, method)} if options.tuned else {}
        write_json(folder / CONFIG, {"learner": world.learner.recipe, "run": options.as_json(), **told})
        return _run(world, folder, observe=observe)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder is made; if nothing but the lock has come into it, it goes again, and its name is free."""
    was_there = folder.exists()
    make_folder(folder)
    try:
        yield
    finally:
        if not was_there and [path.name for path in folder.iterdir()] == ["lock"]:
            with suppress(OSError):
                (folder / "lock").unlink()
                folder.rmdir()


def resume(folder: Path, *, on_bad_image: str | None = None, observe: Observer = unobserved) -> dict[str, Any]:
    """The same run from its last checkpoint on; a finished run gives its result.

    ``on_bad_image`` may differ from what the run began with: it changes no picture that has been learned.
    """
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder} holds no run: give the folder that rwf run named.")
    with FolderLock(folder):
        if (folder / RESULT).exists():
            result: dict[str, Any] = read_json(folder / RESULT)
            return result
        content = read_json(folder / CONFIG)
        if "run" not in content:
            raise UserError(f"{folder} holds a saved learner, not a run: open it with rwf.load in Python.")
        options = RunOptions.from_json(content["run"] | ({"on_bad_image": on_bad_image} if on_bad_image else {}))
        world = World(LearnerConfig.from_json(content["learner"]), options)
        check_environment(read_json(folder / ENVIRONMENT), world.environment())
        if on_bad_image:
            write_json(folder / CONFIG, content | {"run": options.as_json()})
        return _run(world, folder, goes_on=(folder / STATE).exists(), observe=observe)


def _run(world: World, folder: Path, *, goes_on: bool = False, observe: Observer) -> dict[str, Any]:
    result = run(world, folder, goes_on=goes_on, observe=observe)
    for sentence in world.afterwards():
        print(sentence)
    return result


def learner_config(method: str, method_options: dict[str, Any], options: RunOptions) -> LearnerConfig:
    """What of the run's options makes the learner."""
    return LearnerConfig(
        method=method,
        backbone=options.backbone,
        options=method_options,
        seed=options.seed,
        image_size=options.image_size,
        normalize=options.normalize,
        test_view=options.test_view,
        precision=options.precision,
    )


def free_folder(method: str, options: RunOptions) -> Path:
    """runs/METHOD-BENCHMARK-sSEED, numbered if that is there already."""
    name = "-".join([method, options.benchmark, f"s{options.seed}"])
    plain = "".join(c if c.isalnum() or c in "-_." else "-" for c in name.replace(":", "-")).strip("-.")
    for number in range(1, 10_000):
        folder = Path("runs") / (plain if number == 1 else f"{plain}-{number}")
        if not folder.exists():
            return folder
    raise UserError("there are 9999 runs of this name in runs: name a folder with --out.")


def check_environment(then: dict[str, Any], now: dict[str, Any]) -> None:
    """A resumed run continues bit for bit only on the same weights, data, versions and threads."""
    for key in MUST_AGREE:
        if then.get(key) != now[key]:
            raise UserError(
                f"this run was started with {key} {_difference(then.get(key), now[key])}: resume it under the same, "
                "or start a new run."
            )


def _difference(then: Any, now: Any) -> str:
    if isinstance(then, dict) and isinstance(now, dict):
        name = next(n for n in sorted(then.keys() | now.keys()) if then.get(n) != now.get(n))
        return f"{name} {then.get(name)}, and now it is {now.get(name)}"
    return f"{then}, and now it is {now}"
