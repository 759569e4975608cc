"""What a person asks of an experiment: the options of `rwf experiment`, which need no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What can be chosen, whichever experiment it is."""

    benchmark: str = "split-renditions"
    """What to learn: a name of `rwf list benchmarks`, folder:PATH or parquet:PATH."""
    backbone: str | None = None
    """The ViT; if not given the embedded one for embedded benchmarks, else ViT-B/16."""
    methods: tuple[str, ...] = ()
    """Which methods; the experiment's own if not given."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of order, views and initial weights; each is a run of every cell."""
    lr: tuple[float, ...] = ()
    """Learning rates, each a cell of its own; the method's own if not given."""
    settings: tuple[Path, ...] = ()
    """What takes the place of defaults: folders of rwf tune, or JSON files of options by method."""
    protocol: Literal["own", "paper"] = "own"
    """paper: each method's settings in the paper's tables; what is given here or by the experiment wins."""
    tasks: int = 10
    """Into how many tasks the classes are split."""
    class_order: Literal["natural", "shuffled"] = "natural"
    """Sorted by name, or shuffled by the seed: then seeds are class orders too."""
    train_fraction: float = 1.0
    """Part of each class's training pictures that is used."""
    test_fraction: float = 1.0
    """Part of each class's test pictures that is asked about, the same for every seed."""
    batch_size: int = 64
    """Pictures a step."""
    image_size: int | None = None
    """Side of the network's input; the backbone's own if not given."""
    normalize: Literal["weights", "none"] | None = None
    """Mean and deviation that belong to the weights, or pixels in [0, 1]; as the protocol says if not given."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the backbone."""
    device: str = "cpu"
    """cpu, cuda, mps, or auto for the fastest there is."""
    anytime: int = 3
    """Points of the anytime curve in each task; 0 for none."""
    data_dir: Path | None = None
    """Where benchmarks with a name of their own lie, or are downloaded to."""
    train_list: Path | None = None
    """A list of the training pictures, for a benchmark without an official split."""
    out: Path | None = None
    """Folder of rows.json; runs/EXPERIMENT-BENCHMARK if not given."""
    runs: Path | None = None
    """Folder of the run folders; OUT/runs if not given. Experiments that share it share their runs."""
    jobs: int | None = None
    """Runs at a time; one if not given, and with --ray as many as the cluster takes."""
    threads: int | None = None
    """Threads of torch for each run; if not given the processors are divided among the jobs."""
    ray: str | None = None
    """Hand the runs to Ray: local, or the address of a cluster that sees the same folders."""
    gpus: float = 0.0
    """With --ray: GPUs for each run, e.g. 0.25."""
    dry_run: bool = False
    """List the runs with what they will cost, and run nothing."""
