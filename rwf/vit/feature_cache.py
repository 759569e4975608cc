"""What a frozen ViT said about a batch of views, kept on disk: whoever asks the same of the same views reads it."""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rwf.errors import UserError
from rwf.files import TEMPORARY, make_folder
from rwf.vit.forward import Read, ViT
from rwf.vit.sockets import Plug

VERSION = "rwf features 1"
SUFFIX = ".features"
STALE = 24 * 3600.0  # seconds after which a half-written file has no writer any more
IN_MEMORY = 256 << 20
"""Bytes up to which a run remembers the answers to a question about all test pictures."""
LEAVE = 0.9  # of the limit that stays when there was too much


class Shards:
    """Tensors by key, a file each: written once and never changed, at most ``limit`` bytes, the oldest leave first.

    Any number of processes may share the folder without locks. A file appears under its name when it is whole; who
    writes what is there already writes the same again. What cannot be read, or is not what its name says, is removed
    and missing.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        if limit < 1:
            raise UserError(f"a feature cache of {limit} bytes holds nothing: give it more, or --feature-cache off.")
        self.folder, self.limit = make_folder(folder), limit
        self.dropped = 0
        """Files that were damaged, or were not what their names said."""
        self.trouble = ""
        """Why nothing more is written, if so."""
        self._bytes = self._bound()

    def path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}{SUFFIX}"

    def get(self, key: str) -> Tensor | None:
        """What was put, or None."""
        path, value = self.path(key), None
        metadata: dict[str, str] = {}
        try:
            with safe_open(path, framework="pt") as file:  # mapped into memory
                metadata, value = file.metadata() or {}, file.get_tensor("features")
        except FileNotFoundError:
            return None
        except (SafetensorError, OSError):
            value = None
        if value is None or metadata.get("key") != key or metadata.get("sum") != digest(value):
            self._drop(path)
            return None
        with suppress(OSError):
            os.utime(path)  # in use, so not the oldest
        return value.clone()  # in memory of its own, laid out as if it had been computed

    def put(self, key: str, value: Tensor) -> None:
        """Keeps a tensor. A disk that takes no more is said once, and costs nothing but what was to be saved."""
        if self.trouble:
            return
        own = value.detach().to("cpu", copy=True).contiguous()
        content = save({"features": own}, metadata={"key": key, "sum": digest(own)})
        path = self.path(key)
        temporary = path.with_name(f"{TEMPORARY}{os.getpid()}-{threading.get_ident()}-{path.name}")
        try:
            path.parent.mkdir(exist_ok=True)
            temporary.write_bytes(content)
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            self.trouble = f"the feature cache {self.folder} takes no more ({error.strerror}); the run goes on without."
            return
        self._bytes += len(content)
        if self._bytes > self.limit:
            self._bytes = self._bound()

    def _drop(self, path: Path) -> None:
        self.dropped += 1
        with suppress(OSError):
            path.unlink()

    def _bound(self) -> int:
        """Bytes of all files, after the oldest have left if there were too many, and what writers left behind."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("??/*"):
            with suppress(OSError):  # another process may just have removed it
                status = path.stat()
                if path.name.startswith(TEMPORARY) and path.name.endswith(SUFFIX):
                    if time.time() - status.st_mtime > STALE:
                        path.unlink()
                elif path.suffix == SUFFIX:
                    found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        if total > self.limit:
            for _, size, path in sorted(found):
                if total <= LEAVE * self.limit:
                    break
                with suppress(OSError):
                    path.unlink()
                total -= size
        return total


class Groups(Protocol):
    """Test pictures in groups that never change, whoever asks about whichever of them when."""

    def __len__(self) -> int:
        """How many test pictures there are."""

    def of(self, picture: int) -> int:
        """The group of a test picture."""

    def views(self, group: int) -> tuple[Sequence[int], Tensor]:
        """The pictures of a group and their test views."""


class Frozen:
    """Stands before a ViT's ``features``: what it says with nothing trained in its sockets is counted and kept.

    The key is made of the views' own pixels, the weights, the plug if there is one, and everything on which the bits
    of the answer depend. Among that is the whole batch: how a matrix product rounds a row hangs on how many rows there
    are and on which thread the row falls. So what is read is what would have been computed, bit for bit.

    Test pictures are asked about again and again in other company. What is said ``about`` them is therefore always
    computed in their group, with a cache or without, and once in a run.
    """

    def __init__(self, vit: ViT, shards: Shards | None = None, groups: Groups | None = None) -> None:
        self.vit, self.shards, self.groups = vit, shards, groups
        self.weights = list(vit.parameters())
        self.network = f"{vit.hash} {vit.heads} heads, pooled by {vit.timm.global_pool}: {vit.timm}"
        self.versions = self._versions()
        self.asked = 0
        """Pictures about which a network without anything trained was asked."""
        self.computed = 0
        """Pictures that went through it for that."""
        self._about: Sequence[int] = ()
        self._said: dict[str, dict[int, tuple[str, Tensor]]] = {}  # by group and question: views, answers

    @contextmanager
    def about(self, pictures: Sequence[int]) -> Iterator[None]:
        """Within it, who asks about as many views asks about these test pictures."""
        self._about = pictures
        try:
            yield
        finally:
            self._about = ()

    def features(self, x: Tensor, plug: Plug | None, read: Read) -> Tensor:
        """As ``ViT.compute``.  # B 3 P P -> B F"""
        name = "" if plug is None else plug.frozen_name()
        if name is None or not self.is_frozen() or (x.requires_grad and torch.is_grad_enabled()):
            return self.vit.compute(x, plug, read)
        self.asked += len(x)
        if self.groups is not None and len(self._about) == len(x) and self._fits(self.groups):
            found = self._of_groups(x, plug, read, name)
            if found is not None:
                return found
        return self._of_batch(x, plug, read, name)

    def _fits(self, groups: Groups) -> bool:
        """Whether the answers to one question about all test pictures may be remembered: a matter of sizes alone."""
        return len(groups) * self.vit.feature_width * self.weights[0].element_size() <= IN_MEMORY

    def is_frozen(self) -> bool:
        """Whether the weights are those that ``vit.hash`` names, and not trained."""
        trained = any(p.requires_grad for p in self.weights)
        return bool(self.vit.hash) and not trained and self._versions() == self.versions

    def key(self, plug: str, read: Read, kind: str, *more: object) -> str:
        """A hash of all that the bits of an answer hang on, the views apart."""
        half = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
        parts = (VERSION, self.network, self.weights[0].dtype, plug, self.vit.reading(read), half, self.vit.attention)
        return hashlib.sha256("\0".join(map(str, (*parts, *arithmetic(kind), *more))).encode()).hexdigest()

    def key_of(self, x: Tensor, plug: str, read: Read) -> str:
        """The key of a batch of views."""
        return self.key(plug, read, x.device.type, x.dtype, tuple(x.shape), digest(x))

    def _of_batch(self, x: Tensor, plug: Plug | None, read: Read, name: str) -> Tensor:
        key = self.key_of(x, name, read) if self.shards is not None else ""
        kept = self.shards.get(key) if self.shards is not None else None
        if kept is not None:
            return kept.to(x.device)
        self.computed += len(x)
        value = self.vit.compute(x, plug, read)
        if self.shards is not None:
            self.shards.put(key, value)
        return value

    def _of_groups(self, x: Tensor, plug: Plug | None, read: Read, name: str) -> Tensor | None:
        """Answers out of the pictures' groups; None if these are other views than the pictures' test views."""
        assert self.groups is not None
        what, rows = self.key(name, read, x.device.type, x.dtype), []
        for picture, view in zip(self._about, x, strict=True):
            said = self._group(f"{what} {self.groups.of(picture)}", self.groups.of(picture), x, (plug, read, name))
            seen, answer = said.get(picture, ("", view))
            if seen != digest(view):
                return None
            rows.append(answer)
        return torch.stack(rows)

    def _group(
        self, key: str, group: int, like: Tensor, ask: tuple[Plug | None, Read, str]
    ) -> dict[int, tuple[str, Tensor]]:
        """What was said about each picture of a group."""
        assert self.groups is not None
        if key not in self._said:
            pictures, views = self.groups.views(group)
            views = views.to(like)
            answers = self._of_batch(views, *ask)
            self._said[key] = {i: (digest(view), row) for i, view, row in zip(pictures, views, answers, strict=True)}
        return self._said[key]

    def _versions(self) -> list[int]:
        return [p._version for p in self.weights]


def arithmetic(kind: str) -> tuple[str, ...]:
    """What else decides how a kind of device rounds."""
    common = (torch.__version__, torch.get_float32_matmul_precision())
    if kind == "cuda":
        return (kind, *common, torch.cuda.get_device_name())
    if kind != "cpu":
        return (kind, *common, platform.platform())
    capability, onednn = torch.backends.cpu.get_cpu_capability(), torch.backends.mkldnn.enabled
    return (kind, *common, platform.machine(), capability, f"{torch.get_num_threads()} threads, oneDNN {onednn}")


def digest(x: Tensor) -> str:
    """sha256 of the numbers."""
    plain = x.detach().cpu().contiguous()
    return hashlib.sha256(plain.flatten().view(torch.uint8).numpy().data).hexdigest()
