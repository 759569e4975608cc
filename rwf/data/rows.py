"""Bytes by row out of parquet files: in memory where the set is small, else unpacked once and mapped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from torch import Tensor

from rwf.data.decode import decode
from rwf.errors import UserError
from rwf.files import make_folder, replacing

IN_MEMORY = 1 << 30  # bytes; larger sets are unpacked into the cache folder


class RowStore:
    """Encoded pictures in Arrow arrays (in memory or mapped from a file); row access copies one picture."""

    def __init__(self, chunks: list[pa.Array], rows: np.ndarray | None = None) -> None:
        self.chunks = chunks
        self.ends = np.cumsum([len(chunk) for chunk in chunks], dtype=np.int64)
        self.rows = np.arange(self.ends[-1] if len(chunks) else 0) if rows is None else rows
        lengths = [pc.fill_null(pc.binary_length(chunk), 0).to_numpy(zero_copy_only=False) for chunk in chunks]
        self.sizes = np.concatenate([np.zeros(0, np.int64), *lengths]).astype(np.int64)[self.rows]

    def take(self, rows: np.ndarray) -> RowStore:
        """The same bytes, other rows or another order."""
        return RowStore(self.chunks, self.rows[rows])

    def read(self, i: int) -> bytes:
        row = int(self.rows[i])
        chunk = int(np.searchsorted(self.ends, row, side="right"))
        start = int(self.ends[chunk - 1]) if chunk else 0
        return self.chunks[chunk][row - start].as_py() or b""

    def picture(self, i: int, name: str) -> Tensor:
        return decode(self.read(i), name)

    def digest(self, i: int) -> bytes:
        return hashlib.sha256(self.read(i)).digest()


def open_rows(files: list[Path], column: str, *, in_memory: int = IN_MEMORY) -> RowStore:
    """The image bytes of these files, row after row.

    A parquet page must be unpacked as a whole to read one row of it, so a shuffled stream cannot read from the
    files themselves. A large set is written once, row by row readable, into the user's cache folder.
    """
    if sum(file.stat().st_size for file in files) <= in_memory:  # encoded pictures hardly compress further
        chunks = [chunk for file in files for chunk in _batches(file, column)]
    else:
        chunks = _mapped(files, column)
    if chunks and all(chunk.null_count == len(chunk) for chunk in chunks):
        raise UserError(f"{files[0].name} holds paths instead of the bytes of its pictures: export it with the bytes.")
    return RowStore(chunks)


@contextmanager
def reading(file: Path) -> Iterator[pq.ParquetFile]:
    """An open parquet file; whatever Arrow makes of a damaged one becomes a sentence."""
    try:
        with pq.ParquetFile(file, memory_map=True) as parquet:
            yield parquet
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise UserError(
            f"cannot read {str(file)!r} as parquet ({' '.join(str(error).split())[:150]}): fetch it again."
        ) from error


def _batches(file: Path, column: str) -> Iterator[pa.Array]:
    with reading(file) as parquet:
        nested = pa.types.is_struct(parquet.schema_arrow.field(column).type)
        for batch in parquet.iter_batches(1000, columns=[f"{column}.bytes" if nested else column]):
            array = batch.column(0)
            yield array.field("bytes") if nested else array


def cache_folder() -> Path:
    """Where files go that can be made again at any time: RWF_CACHE, else a folder in the user's cache."""
    named = os.environ.get("RWF_CACHE")
    if named:
        return Path(os.path.expanduser(named))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rwf"


def _mapped(files: list[Path], column: str) -> list[pa.Array]:
    key = hashlib.sha256(column.encode())
    for file in files:
        status = file.stat()
        key.update(f"{file.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    path = cache_folder() / "rows" / f"{key.hexdigest()[:32]}.arrow"
    if not path.exists():
        _unpack(files, column, path)
    try:
        reader = pa.ipc.open_file(pa.memory_map(str(path)))
        return [reader.get_batch(i).column(0) for i in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"the cache file {str(path)!r} is damaged: remove it and start again.") from error


def _unpack(files: list[Path], column: str, path: Path) -> None:
    schema = pa.schema([("bytes", pa.large_binary())])
    make_folder(path.parent)
    try:
        with replacing(path) as part, open(part, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for file in files:
                for array in _batches(file, column):
                    writer.write_batch(pa.record_batch([array.cast(pa.large_binary())], schema=schema))
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"cannot unpack the pictures to {str(path.parent)!r} ({error}): "
            "free some space, or set RWF_CACHE to a folder with space."
        ) from error
