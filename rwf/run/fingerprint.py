"""A short name for everything a result depends on, so that finished runs are known again and nothing is mixed up."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rwf.options import RunOptions
from rwf.registry import resolve_method
from rwf.run.build import make_method

PLACES = "out data_dir threads checkpoint_every workers feature_cache feature_cache_gb".split()
"""Options that say where and how fast a run is made, not what comes out."""


def fingerprint(method: str, own: Mapping[str, Any], run: RunOptions, known: Mapping[str, Any]) -> str:
    """Of a method with its options and source, a run's options, and what else is ``known`` (data, weights, ...).

    Of the code only the files of the method's class and its bases are in it: whoever works on other shared parts
    starts anew in another folder.
    """
    content = {
        "method": method,
        "source": source_hash(method),
        "options": make_method(method, dict(own)).options(),
        "run": {name: value for name, value in run.as_json().items() if name not in PLACES},
        "known": dict(known),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:8]


def source_hash(method: str) -> str:
    """sha256 over the files that a method's class and its bases are written in."""
    total = hashlib.sha256()
    classes = [cls for cls in resolve_method(method).__mro__ if cls is not object]
    for file in dict.fromkeys(inspect.getfile(cls) for cls in classes):
        total.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return total.hexdigest()
