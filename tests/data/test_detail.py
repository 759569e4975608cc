"""Pictures with fewer details."""

from __future__ import annotations

import pytest
import torch

from rwf.data.detail import shrunk, with_detail
from rwf.errors import UserError
from rwf.run.toy import toy_catalog


def test_size_and_mean_stay_and_detail_goes() -> None:
    fine = (torch.arange(32) % 2 * 255).to(torch.uint8).expand(3, 48, 32)  # stripes of one pixel
    coarse = shrunk(fine, 8)
    assert coarse.shape == fine.shape
    assert coarse.float().std() < 0.05 * fine.float().std()
    assert abs(coarse.float().mean() - fine.float().mean()) < 2
    broad = (torch.arange(32) // 16 * 255).to(torch.uint8).expand(3, 48, 32)
    assert (shrunk(broad, 8).float() - broad.float()).abs().mean() < 20
    assert torch.equal(shrunk(fine, 32), fine)


def test_only_the_pictures_of_a_catalog_change() -> None:
    catalog = toy_catalog(2, 1)
    coarse = with_detail(catalog, 4)
    assert coarse.fingerprint == catalog.fingerprint
    assert coarse.train.labels.tolist() == catalog.train.labels.tolist()
    assert torch.equal(coarse.test.picture(3), shrunk(catalog.test.picture(3), 4))
    with pytest.raises(UserError, match="--detail is 0"):
        with_detail(catalog, 0)
    assert not torch.equal(coarse.test.picture(3), catalog.test.picture(3))
