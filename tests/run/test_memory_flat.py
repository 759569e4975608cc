"""What a run holds in memory does not grow with the stream; bytes are counted, nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STEPS = (200, 2000)
MOST = 12e6
"""Bytes a run may hold more at the later step; 1,800 pictures of the toy stream would take 22 MB as network input."""

SCRIPT = """
import sys
from pathlib import Path
from rwf.options import RunOptions
from rwf.run.build import LearnerConfig
from rwf.run.loop import run
from rwf.run.record import Record
from rwf.run.toy import toy_catalog
from rwf.run.world import World

method, folder, *steps = sys.argv[1:]
options = RunOptions(
    benchmark="toy", backbone="random:32x2", tasks=2, batch_size=1, threads=1, anytime=0, checkpoint_every=5,
    feature_cache=str(Path(folder) / "features"),
)
own = {"memory_size": 20, "replay": 4} if method == "er" else {"prompts": 4, "blocks": 1} if method == "rwf" else {}
config = LearnerConfig(method, options.backbone, own)
world = World(config, options, catalog=toy_catalog(200, 4))
after = Record.after

def look(self, *rest):
    after(self, *rest)
    if str(self.progress.step) in steps:
        held = Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]
        print(int(held) * 1024, flush=True)

Record.after = look
(Path(folder) / "config.json").write_text("{}")
run(world, Path(folder))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say what a process holds")
@pytest.mark.parametrize("method", ["rwf", "er", pytest.param("ncm", marks=pytest.mark.slow)])
def test_memory_is_flat_in_the_length_of_the_stream(tmp_path: Path, method: str) -> None:
    command = [sys.executable, "-c", SCRIPT, method, str(tmp_path), *map(str, STEPS)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    early, late = map(int, done.stdout.split()[-2:])
    assert early > 100e6
    assert late - early <= MOST
