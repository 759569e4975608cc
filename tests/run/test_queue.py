"""The queue by itself, with workers that only pretend."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

import rwf.run.queue as queue
import rwf.run.workers as workers
from rwf.errors import UserError
from rwf.run.queue import Job, interruptible, pictures_learned, work_off
from rwf.run.workers import ROOT, Cluster, Processes, shares, verdict


class Pretend:
    """Each run takes as many looks as its folder's name says; a name with f fails."""

    def __init__(self) -> None:
        self.most, self.alive, self.stopped = 0, dict[str, int](), list[str]()

    def start(self, folder: Path) -> str:
        self.alive[folder.name] = int(folder.name.rpartition("-")[2])
        self.most = max(self.most, len(self.alive))
        return folder.name

    def ended(self, handle: str) -> str | None:
        self.alive[handle] -= 1
        if self.alive[handle] > 0:
            return None
        del self.alive[handle]
        return "it failed." if handle.startswith("f") else ""

    def stop(self, handles: Sequence[str]) -> None:
        self.stopped += handles

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch) -> None:
    monkeypatch.setattr(queue, "LOOK", 0.0)


def jobs(tmp_path: Path, *names: str) -> list[Job]:
    return [Job(name, tmp_path / name, 10) for name in names]


@pytest.mark.parametrize(("at_once", "order"), [(1, "a-3 f-1 b-2 c-1"), (2, "f-1 a-3 b-2 c-1"), (9, "f-1 c-1 b-2 a-3")])
def test_so_many_at_once_and_each_is_heard_of(tmp_path, at_once, order) -> None:
    workers, heard, paper = Pretend(), [], io.StringIO()
    todo = jobs(tmp_path, "a-3", "f-1", "b-2", "c-1")
    work_off(todo, workers, at_once, lambda job, said: heard.append((job.title, said)), Console(file=paper, width=99))
    assert [title for title, _ in heard] == order.split()
    assert dict(heard) == {"a-3": "", "f-1": "it failed.", "b-2": "", "c-1": ""}
    assert workers.most == min(at_once, 4)
    assert not workers.stopped
    assert "[4/4]" in paper.getvalue()
    assert "f-1: it failed." in paper.getvalue()


def test_who_is_interrupted_stops_what_is_running_and_starts_nothing_more(tmp_path) -> None:
    workers = Pretend()

    def interrupt(_job: Job, _said: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        work_off(jobs(tmp_path, "a-1", "b-9", "c-9"), workers, 2, interrupt, Console(file=io.StringIO()))
    assert workers.stopped == ["b-9"]
    assert "c-9" not in workers.alive
    before = signal.getsignal(signal.SIGTERM)
    with interruptible():
        pass
    assert signal.getsignal(signal.SIGTERM) == before


def test_how_far_a_run_is_stands_in_its_last_whole_row(tmp_path) -> None:
    assert pictures_learned(tmp_path) == 0
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"task": 0}\n{"step": 1, "pictures": 8}\n{"evaluation": 1}\n{"step": 2, "pict')
    assert pictures_learned(tmp_path) == 8
    rows.write_text('{"x": "' + "y" * 20_000 + '"}\n{"pictures": 16}\n')
    assert pictures_learned(tmp_path) == 16


def test_what_is_said_of_a_run_is_the_end_of_its_log(tmp_path) -> None:
    (tmp_path / "log.txt").write_text("some\nTraceback\nValueError: no.\n\n")
    assert verdict(0, tmp_path) == ""
    assert verdict(1, tmp_path) == "ValueError: no."
    assert verdict(-9, tmp_path) == "the run was ended by signal 9."
    (tmp_path / "log.txt").write_text("")
    assert "code 3" in verdict(3, tmp_path)


def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(UserError, match=r"nothing answers at 127.0.0.1:1 "):
        Cluster("127.0.0.1:1", threads=1, gpus=0.0)


def test_a_run_ends_with_whoever_started_it() -> None:
    """Already while it imports: nothing is left behind by a command that was killed."""
    code = "import rwf.run.child as c, time; c.end_with_parent(); print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert child.stdout is not None
    assert child.stdin is not None
    assert child.stdout.readline() == "up\n"
    assert child.poll() is None
    child.stdin.close()
    assert child.wait(50) == -signal.SIGTERM
    child.stdout.close()


linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors are dealt out on Linux only")


@linux
@pytest.mark.parametrize(
    ("threads", "at_once", "wanted"),
    [(1, 4, [{0}, {2}, {3}, {5}]), (2, 2, [{0, 2}, {3, 5}]), (4, 1, []), (1, 2, []), (2, 4, [])],
)
def test_processors_are_dealt_out_if_that_comes_out_even(monkeypatch, threads, at_once, wanted) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {5, 0, 3, 2})
    assert shares(threads, at_once) == wanted


@linux
def test_runs_that_fill_the_machine_keep_to_their_processors(monkeypatch, tmp_path) -> None:
    mine = os.sched_getaffinity(0)
    if len(mine) < 2:
        pytest.skip("there is only one processor")
    command = [sys.executable, "-c", "input()"]
    monkeypatch.setattr(workers, "launch", lambda *_: subprocess.Popen(command, stdin=subprocess.PIPE))
    processes = Processes(1, len(mine))
    running = [processes.start(tmp_path) for _ in mine]
    held = [os.sched_getaffinity(one.process.pid) for one in running]
    assert all(len(one) == 1 for one in held)
    assert set().union(*held) == mine
    running[0].process.communicate(b"\n")
    assert processes.ended(running[0]) == ""
    assert processes.free == [held[0]]
    processes.stop(running[1:])
