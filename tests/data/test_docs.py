"""The page on data says what the code does: sources, sizes, hashes, licences, orders, formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from rwf.data.benchmarks.sources import SOURCES
from rwf.data.decode import FORMATS
from rwf.data.orders import ORDERS
from rwf.registry import BENCHMARK_FORMS, BENCHMARKS

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_is_stated(name: str) -> None:
    source = SOURCES[name]
    lines = [line for line in PAGE.splitlines() if source.url in line]
    assert len(lines) == 1
    assert f"{source.size:,}" in lines[0]
    assert all(f"{algorithm} `{value}`" in lines[0] for algorithm, value in source.hashes.items())
    assert source.licence in PAGE
    assert f"{source.unpacked / 1e9:.1f} GB" in PAGE
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"| {source.classes} |" in row
    assert f"{source.pictures:,}" in row
    if source.train:
        assert f"{source.train:,} / {source.pictures - source.train:,}" in row
    else:
        assert "--train-list" in row


def test_every_name_order_and_format_is_stated() -> None:
    assert all(f"`{name}`" in PAGE for name in [*BENCHMARKS, *BENCHMARK_FORMS])
    assert all(f"| `{order}` |" in PAGE for order in ORDERS)
    plain = " ".join(PAGE.split())
    assert all(kind.replace("JPEG2000", "JPEG 2000") in plain for kind in FORMATS)
