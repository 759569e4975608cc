"""Who works off a queue of run folders: processes of this machine, or Ray."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import rwf
from rwf.errors import UserError

LOG = "log.txt"
ROOT = Path(rwf.__file__).resolve().parents[1]
PATIENCE = 60.0
"""Seconds that a run is given to save itself."""


class Workers(Protocol):
    """Starts runs and says how they ended."""

    def start(self, folder: Path) -> Any:
        """Begins or goes on with the run of that folder; a handle on it."""

    def ended(self, handle: Any) -> str | None:
        """None while it goes on; then "" if all is well, or a sentence."""

    def stop(self, handles: Sequence[Any]) -> None:
        """Lets these save themselves and end."""

    def close(self) -> None:
        """Nothing more comes."""


@dataclass(frozen=True)
class Running:
    """The process of a run, and the processors that it keeps to; none if it is free to go anywhere."""

    process: subprocess.Popen[bytes]
    folder: Path
    processors: frozenset[int]


def shares(threads: int, at_once: int) -> list[frozenset[int]]:
    """The processors this process may use, dealt out to so many runs; none if that does not come out even.

    Some kernels leave two busy runs on one processor while another has nothing to do. Runs that need fewer processors
    than there are stay free: a second command would be given the same ones.
    """
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        return []
    processors = sorted(os.sched_getaffinity(0))
    if at_once < 2 or at_once * threads != len(processors):
        return []
    return [frozenset(processors[start : start + threads]) for start in range(0, len(processors), threads)]


class Processes:
    """A process a run, on this machine; if together they take all processors, each has its own (see ``shares``)."""

    def __init__(self, threads: int, at_once: int = 1) -> None:
        self.threads, self.free = threads, shares(threads, at_once)

    def start(self, folder: Path) -> Running:
        process, processors = launch(folder, self.threads), self.free.pop() if self.free else frozenset[int]()
        if processors:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.sched_setaffinity(process.pid, processors)
        return Running(process, folder, processors)

    def ended(self, handle: Running) -> str | None:
        if handle.process.poll() is None:
            return None
        if handle.processors:
            self.free.append(handle.processors)
        return verdict(handle.process.returncode, handle.folder)

    def stop(self, handles: Sequence[Running]) -> None:
        end([handle.process for handle in handles])

    def close(self) -> None:
        pass


class Cluster:
    """Ray: on this machine (``local``) or on a cluster whose machines see the same folders."""

    def __init__(self, address: str, *, threads: int, gpus: float) -> None:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        check_reachable(address)
        try:
            import ray
        except ImportError as error:
            raise UserError("ray is not installed: pip install 'rwf[ray]', or leave out --ray.") from error
        self.ray, self.threads = ray, threads
        try:
            where = LOCAL if address == "local" else {"address": address}
            ray.init(**where, **QUIET)
        except (ConnectionError, RuntimeError, ValueError) as error:
            why = str(error).partition("\n")[0]
            raise UserError(f"no Ray cluster answers at {address!r} ({why}): give its address, or local.") from error
        self.task = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=0)(run_folder)

    def start(self, folder: Path) -> Any:
        return self.task.remote(str(folder.resolve()), self.threads)

    def ended(self, handle: Any) -> str | None:
        if not self.ray.wait([handle], timeout=0)[0]:
            return None
        try:
            return str(self.ray.get(handle))
        except self.ray.exceptions.RayError as error:
            return f"Ray gave up on it: {str(error).strip().splitlines()[-1]}"

    def stop(self, handles: Sequence[Any]) -> None:
        for handle in handles:
            self.ray.cancel(handle)
        self.ray.wait(list(handles), num_returns=len(handles), timeout=PATIENCE)

    def close(self) -> None:
        self.ray.shutdown()


def check_reachable(address: str) -> None:
    """Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            sentence = f"nothing answers at {address} ({error}): give the address of a Ray cluster, or local."
            raise UserError(sentence) from error


QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
LOCAL: dict[str, Any] = {
    "address": "local",
    "include_dashboard": False,
    "_node_ip_address": "127.0.0.1",
    "object_store_memory": 100_000_000,
    "_system_config": {"worker_niceness": 0},  # as without Ray
}
"""Ray on this machine: nothing listens outside of it, and nothing large is ever passed."""


def run_folder(folder: str, threads: int) -> str:
    """What a worker of Ray does: the same process as without Ray. Gives "" or a sentence."""
    process = launch(Path(folder), threads)
    try:
        while process.poll() is None:
            time.sleep(0.1)  # in small pieces, so that a cancellation is noticed
    finally:
        end([process])
    return verdict(process.returncode, Path(folder))


def launch(folder: Path, threads: int) -> subprocess.Popen[bytes]:
    """The process of a run, with its log in the run's folder; it ends when its input is closed."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OMP_NUM_THREADS": str(threads),
    }
    with open(folder / LOG, "ab") as log:  # another process may be writing there: nothing of it is cut off
        return subprocess.Popen(
            [sys.executable, "-m", "rwf.run.child", str(folder)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches whoever minds the queue, and through it the run
        )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Asks processes to save and end, and waits for it."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, deadline - time.monotonic()))
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin:
            process.stdin.close()


def verdict(code: int, folder: Path) -> str:
    """ "" for a run that ended well, or why it did not: the last line of its log."""
    if code == 0:
        return ""
    with open(folder / LOG, "rb") as log:
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    if code < 0:
        return f"the run was ended by signal {-code}."
    return lines[-1] if lines else f"the run ended with code {code} and said nothing."
