"""split-digits: the real digits, unchanged, split the same way everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from rwf.data import digits as room
from rwf.data.digits import CLASSES, SIDE, digits, read


def test_the_numbers_of_the_catalog() -> None:
    catalog = digits()
    assert catalog.classes == CLASSES
    assert (len(catalog.train), len(catalog.test)) == (1438, 359)
    assert catalog.train.picture(0).shape == (3, SIDE, SIDE)
    for split, share in ((catalog.train, 0.8), (catalog.test, 0.2)):
        counts = np.bincount(split.labels, minlength=10)
        whole = np.array([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])  # as the data set's description has it
        assert np.abs(counts - share * whole).max() <= 0.5


def test_every_digit_is_in_one_split_once() -> None:
    catalog = digits()
    indices = sorted(int(name.split("/")[1]) for name in [*catalog.train.names, *catalog.test.names])
    assert indices == list(range(1797))
    _, labels = read()
    for split in (catalog.train, catalog.test):
        for i in range(0, len(split), 97):
            number = int(split.names[i].split("/")[1])
            assert split.labels[i] == labels[number] == int(split.names[i].split("/")[0])


def test_the_pixels_are_those_of_the_file() -> None:
    """The first digit's 64 numbers, by hand: a zero. Enlarged and shrunk again it is still that zero."""
    pixels, labels = read()
    rows = [
        [0, 0, 5, 13, 9, 1, 0, 0],
        [0, 0, 13, 15, 10, 15, 5, 0],
        [0, 3, 15, 2, 0, 11, 8, 0],
        [0, 4, 12, 0, 0, 8, 8, 0],
        [0, 5, 8, 0, 0, 9, 8, 0],
        [0, 4, 11, 0, 1, 12, 7, 0],
        [0, 2, 14, 5, 10, 12, 0, 0],
        [0, 0, 6, 13, 10, 0, 0, 0],
    ]
    small = pixels[0, 0].reshape(8, 4, 8, 4).mean((1, 3))  # 8 8
    assert labels[0] == 0
    assert np.corrcoef(small.ravel(), np.ravel(rows))[0, 1] > 0.98
    assert (pixels[:, 0] == pixels[:, 1]).all()
    assert (pixels[:, 0] == pixels[:, 2]).all()


def test_the_fingerprint_is_a_constant() -> None:
    assert digits().fingerprint == digits().fingerprint == FINGERPRINT


FINGERPRINT = "d132c0b40209c638c45f99415fcdca9ab7cdc98bf1335e78516c775aff8aa0ad"


def test_agrees_with_scikit_learn() -> None:
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn is not installed; the data are our own copy"
    )
    theirs = datasets.load_digits()
    _, labels = read()
    assert (theirs.target == labels).all()


def test_damaged_data_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "SHA256", "0" * 64)
    with pytest.raises(room.UserError, match="install the package again"):
        read()
