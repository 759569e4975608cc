"""Test pictures in, guesses out: over the classes met so far, in large batches, without graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from contextlib import nullcontext

import numpy as np

from rwf.data.batch import Batch
from rwf.data.catalog import Catalog
from rwf.metrics import NOT_EVALUATED
from rwf.parts.learner import Learner

TEST_BATCH = 256


def guess(learner: Learner, catalog: Catalog, batches: Iterable[Batch]) -> np.ndarray:
    """The catalog's number of the class guessed for each test picture; NOT_EVALUATED for those not asked."""
    if learner.classes:
        learner.prepare()
    number: dict[Hashable, int] = {name: i for i, name in enumerate(catalog.classes)}
    column = np.array([number[label] for label in learner.classes], np.int32)
    out = np.full(len(catalog.test.labels), NOT_EVALUATED, np.int32)
    frozen = learner.vit.frozen
    for batch in batches:
        with nullcontext() if frozen is None else frozen.about(batch.ids):
            out[list(batch.ids)] = column[learner.predict(batch).argmax(1).numpy()]
    return out
