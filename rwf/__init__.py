"""rwf: a frozen, pre-trained Vision Transformer that keeps learning from a stream in which every image is seen once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["GradientLearner", "Learner", "UserError", "build", "from_iterable", "load", "open_benchmark", "route"]

_WHERE = {
    "build": "rwf.run.build",
    "load": "rwf.run.build",
    "route": "rwf.vit.routed",
    "open_benchmark": "rwf.data.catalog",
    "from_iterable": "rwf.data.endless",
    "Learner": "rwf.parts.learner",
    "GradientLearner": "rwf.parts.gradient",
    "UserError": "rwf.errors",
}

if TYPE_CHECKING:
    from rwf.data.catalog import open_benchmark
    from rwf.data.endless import from_iterable
    from rwf.errors import UserError
    from rwf.parts.gradient import GradientLearner
    from rwf.parts.learner import Learner
    from rwf.run.build import build, load
    from rwf.vit.routed import route


def __getattr__(name: str) -> Any:
    """Imports on use, so that ``rwf --help`` does not wait for torch."""
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'rwf' has no attribute {name!r}")
