"""Times one training step of public implementations beside ours: same machine, same ViT-B/16 size, same batch.

    python benchmarks/public.py --l2p DIR --dualprompt DIR --coda DIR --mammoth DIR [--packages DIR ...]

Each DIR is a checkout of a public repository; --packages are folders with the packages it wants and we do not have (an
old timm, kornia). Every implementation works in a process of its own, on drawn weights and pictures. The processes of a
comparison take turns, so that a load of the machine meets all of them; medians and the median of each round's ratio
are printed. With one thread the processor's own time is taken, else the wall clock. --count does not time: it counts
the products of the same steps, which no load changes, in units of one frozen forward of the batch. Their code is
imported from the checkouts, as it is; on a machine without CUDA its `.cuda()` copies and `synchronize()` does nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import MagicMock

Step = Callable[[], object]
CLASSES, NOW = 100, 10
FORWARD = 35_126_120_448
"""Operations of one frozen forward of ViT-B/16 for one picture; tests/vit/test_flops.py counts them by hand."""
OURS = {
    "l2p": ["l2p fast", "l2p cached"],
    "dualprompt": ["dual_prompt fast", "dual_prompt cached"],
    "coda": ["coda_prompt fast", "coda_prompt cached"],
    "mammoth": ["er fast"],
}
"""What of ours stands beside each checkout."""


# -- the parent ------------------------------------------------------------------------------------------------------


class Worker:
    """An implementation in a process of its own, ready for a step."""

    def __init__(self, what: str, options: Namespace, checkout: Path | None = None) -> None:
        arguments = ["--worker", what, "--batch", str(options.batch), "--threads", str(options.threads)]
        if options.count:
            arguments.append("--count")
        if checkout is not None:
            arguments += ["--checkout", str(checkout), "--packages", *map(str, options.packages)]
        self.what = what
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        if not options.count:
            self.ask()  # a first step warms up

    def ask(self) -> float:
        """One step; its seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.what} ended with an error, shown above.")
        return float(line)

    def end(self) -> None:
        self.process.communicate("")


def compare(name: str, checkout: Path, options: Namespace) -> list[str]:
    """Lines of a table: theirs, and ours beside it."""
    if options.count:
        return count_both(name, checkout, options)
    workers = [Worker(f"theirs:{name}", options, checkout)]
    workers += [Worker(f"ours:{case}", options) for case in OURS[name]]
    before = os.getloadavg()[0]
    rounds = [[worker.ask() for worker in workers] for _ in range(options.rounds)]
    load = f"{before:.1f} to {os.getloadavg()[0]:.1f}"
    for worker in workers:
        worker.end()
    lines = []
    for i, worker in enumerate(workers):
        ratio = median(times[0] / times[i] for times in rounds)
        middle = median(times[i] for times in rounds)
        lines.append(f"| {name} {commit(checkout)} | {worker.what} | {middle:.2f} | {ratio:.2f} | {load} |")
    return lines


def count_both(name: str, checkout: Path, options: Namespace) -> list[str]:
    """Lines of the table of counts."""
    from rwf.run.cost import Case, price
    from rwf.vit.weights import load_backbone

    worker = Worker(f"theirs:{name}", options, checkout)
    found = {worker.what: worker.ask() / options.batch / FORWARD}
    worker.end()
    vit = load_backbone("vit_base_patch16_224", pretrained=False)
    for case in OURS[name]:
        method, variant = case.split()
        found[f"ours:{case}"] = price(Case(method, variant), vit, options.batch).train_f  # type: ignore[arg-type]
    theirs = found[worker.what]
    return [f"| {name} {commit(checkout)} | {what} | {f:.2f} | {theirs / f:.2f} |" for what, f in found.items()]


def commit(checkout: Path) -> str:
    """The checkout's commit, where it has one."""
    found = subprocess.run(["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip()


# -- steps of theirs -------------------------------------------------------------------------------------------------


def pictures(batch: int) -> tuple[Any, Any]:
    import torch

    g = torch.Generator().manual_seed(0)
    return torch.rand(batch, 3, 224, 224, generator=g), torch.arange(batch) % NOW


def prompt_repository(config: str) -> Callable[[int], Step]:
    """l2p-pytorch and dualprompt-pytorch: their ``train_one_epoch`` over a loader of one batch."""

    def make(batch: int) -> Step:
        import importlib
        import inspect

        import torch

        parser = argparse.ArgumentParser()
        importlib.import_module(f"configs.{config}").get_args_parser(parser)
        args = parser.parse_args([])
        args.nb_classes, args.distributed, args.batch_size = CLASSES, False, batch
        importlib.import_module("models")
        create = importlib.import_module("timm.models").create_model
        common = {"pretrained": False, "num_classes": CLASSES, "drop_rate": args.drop, "drop_path_rate": args.drop_path}
        names = inspect.signature(importlib.import_module("vision_transformer").VisionTransformer.__init__).parameters
        renamed = {
            "prompt_length": args.length,
            "pool_size": args.size,
            "prompt_init": args.prompt_key_init,
            "embedding_key": args.embedding_key,
        }
        own = {n: v for n, v in vars(args).items() if n in names and n not in ("embed_layer", *common)} | renamed
        frozen = create(args.model, **common).requires_grad_(False)
        model = create(args.model, **common, **own)
        for name, parameter in model.named_parameters():
            if name.startswith(tuple(args.freeze)):
                parameter.requires_grad = False
        optimizer = importlib.import_module("timm.optim").create_optimizer(args, model)
        engine, loader = importlib.import_module("engine"), [pictures(batch)]
        criterion, mask = torch.nn.CrossEntropyLoss(), [list(range(NOW))]

        def step() -> None:
            engine.train_one_epoch(
                model,
                frozen,
                criterion,
                loader,
                optimizer,
                torch.device("cpu"),
                epoch=0,
                max_norm=args.clip_grad,
                task_id=0,
                class_mask=mask,
                args=args,
            )

        return step

    return make


def coda(batch: int) -> Step:
    """CODA-Prompt: ``update_model`` of its learner, with the components of its first task."""
    import timm.models as zoo

    make = zoo.vit_base_patch16_224
    zoo.vit_base_patch16_224 = lambda pretrained=False: make(pretrained=False)  # drawn weights, no download
    import learners.prompt as prompt

    config = {
        "out_dim": CLASSES,
        "overwrite": True,
        "batch_size": batch,
        "tasks": [],
        "top_k": 1,
        "memory": 0,
        "DW": False,
        "gpuid": [-1],
        "schedule_type": "cosine",
        "schedule": [20],
        "optimizer": "Adam",
        "lr": 0.001,
        "momentum": 0.9,
        "weight_decay": 0,
        "model_type": "zoo",
        "model_name": "vit_pt_imnet",
        "prompt_param": [10, [100, 8, 0.0]],
    }
    learner = prompt.CODAPrompt(config)
    learner.add_valid_output_dim(NOW)
    learner.data_weighting(None)
    learner.model.train()
    x, y = pictures(batch)
    return lambda: learner.update_model(x, y)


def mammoth(batch: int) -> Step:
    """mammoth: ``observe`` of its experience replay, all weights trained by Adam, as many replayed as are new."""
    import torch

    er, backbone = with_stand_ins("models.er", "backbone.vit")
    net = backbone.VisionTransformer(num_classes=CLASSES)
    args = Namespace(
        lr=1e-4,
        optimizer="adam",
        optim_wd=0.0,
        optim_mom=0.0,
        optim_nesterov=False,
        buffer_size=4 * batch,
        minibatch_size=batch,
        label_perc=1,
    )
    dataset = Namespace(N_CLASSES=CLASSES, N_TASKS=10, SETTING="class-il", N_CLASSES_PER_TASK=NOW)
    dataset.get_normalization_transform = lambda: None
    model = er.Er(net, torch.nn.CrossEntropyLoss(), args, None, dataset=dataset)
    x, y = pictures(batch)
    for _ in range(4):
        model.buffer.add_data(examples=x, labels=y)
    model.net.train()
    return lambda: model.observe(x, y, x)


def with_stand_ins(*names: str) -> list[Any]:
    """Imports modules whose packages import others that this step never calls, and that are not here."""
    import importlib

    while True:
        try:
            return [importlib.import_module(name) for name in names]
        except ModuleNotFoundError as error:
            if error.name is None or error.name in sys.modules or error.name in names:
                raise
            stand_in = MagicMock()
            stand_in.__path__, stand_in.__spec__ = [], ModuleSpec(error.name, None)
            sys.modules[error.name] = stand_in
            tops = {"models", "backbone", "datasets", "utils"}
            for loaded in [m for m in sys.modules if m.partition(".")[0] in tops]:
                del sys.modules[loaded]


THEIRS: dict[str, Callable[[int], Step]] = {
    "l2p": prompt_repository("cifar100_l2p"),
    "dualprompt": prompt_repository("cifar100_dualprompt"),
    "coda": coda,
    "mammoth": mammoth,
}


def theirs(name: str, options: Namespace) -> Step:
    """A step of theirs, with their packages instead of ours."""
    import torch

    import rwf.vit.flops  # noqa: F401 (with our timm, before theirs comes)

    for module in [m for m in sys.modules if m.partition(".")[0] == "timm"]:
        del sys.modules[module]
    sys.path[:0] = [str(folder.resolve()) for folder in [options.checkout, *options.packages]]
    torch.Tensor.cuda = lambda self, *_args, **_options: self.clone()  # type: ignore[assignment, method-assign]
    torch.cuda.synchronize = lambda *_args: None
    return THEIRS[name](options.batch)


# -- a step of ours --------------------------------------------------------------------------------------------------


def ours(case: str, batch: int) -> Step:
    from rwf.run.cost import Case, brought_to_work
    from rwf.vit.weights import load_backbone

    method, variant = case.split()
    learner = Case(method, variant).bound(load_backbone("vit_base_patch16_224", pretrained=False), batch)  # type: ignore[arg-type]
    todo = brought_to_work(learner, batch)
    return lambda: learner.learn(todo)


# -- the processes ---------------------------------------------------------------------------------------------------


def work(options: Namespace) -> None:
    """A line with seconds, or operations, for each line asked."""
    import torch

    torch.set_num_threads(options.threads)
    side, _, name = options.worker.partition(":")
    with contextlib.redirect_stdout(io.StringIO()):
        step = ours(name, options.batch) if side == "ours" else theirs(name, options)
    measure = counted if options.count else timed
    for _ in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()):
            found = measure(step, options.threads)
        print(found, flush=True)


def timed(step: Step, threads: int) -> float:
    clock = time.process_time if threads == 1 else time.perf_counter
    began = clock()
    step()
    return clock() - began


def counted(step: Step, _threads: int) -> float:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from rwf.vit.flops import count

    with sdpa_kernel(SDPBackend.MATH):  # explicit attention, also where a fused kernel is asked for
        return count(step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in THEIRS:
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--packages", type=Path, nargs="*", default=[])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--checkout", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    if options.count:
        print("| checkout | step of | F | theirs does times as much |\n|---|---|---:|---:|")
    else:
        print("| checkout | step of | seconds | theirs takes times as long | load |\n|---|---|---:|---:|---:|")
    for name in THEIRS:
        checkout = getattr(options, name)
        if checkout is not None:
            print("\n".join(compare(name, checkout, options)), flush=True)


if __name__ == "__main__":
    main()
