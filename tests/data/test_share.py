"""Fewer test pictures: the right number of each class, the same ones whoever asks, a smaller part in a larger one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rwf.data.share import with_test_share
from tests.data.make import world

FRACTIONS = st.floats(0.01, 0.99)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), FRACTIONS, FRACTIONS)
def test_a_share_of_each_class(counts: list[int], a: float, b: float) -> None:
    catalog = world([1] * len(counts), counts)
    small, large = (with_test_share(catalog, fraction) for fraction in sorted((a, b)))
    assert set(small.test.names) <= set(large.test.names) <= set(catalog.test.names)
    assert [small.classes, small.train, small.fingerprint] == [catalog.classes, catalog.train, catalog.fingerprint]
    for label, count in enumerate(counts):
        wanted = int(min(a, b) * count + 0.5)
        most = max(1, count - 1)  # the rule of ranked_split: each side has a picture
        assert int((small.test.labels == label).sum()) == min(max(wanted, 1), most)


def test_pictures_keep_their_labels_and_pixels() -> None:
    catalog = world([1, 1], [5, 5])
    part = with_test_share(catalog, 0.4)
    assert np.bincount(part.test.labels).tolist() == [2, 2]
    for i, name in enumerate(part.test.names):
        whole = catalog.test.names.index(name)
        assert part.test.labels[i] == catalog.test.labels[whole]
        assert (part.test.picture(i) == catalog.test.picture(whole)).all()
    assert part.notices[-1] == "4 of 10 test pictures are asked about (fraction 0.4)."
