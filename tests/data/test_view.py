"""A view is a pure function of (seed, id, visit, kind)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import v2

from rwf.data.view import View, borrowed_randomness
from rwf.errors import UserError
from rwf.seeds import hash32

SIZE = 12
JITTER = v2.Compose([v2.Resize((SIZE, SIZE)), v2.ColorJitter(0.5, 0.5, 0.5, 0.1), v2.RandomHorizontalFlip()])
SHAPES = [(20, 20), (8, 8), (13, 40), (50, 9), (1, 1), (1, 30), (12, 12), (31, 17)]


def pictures() -> list[Tensor]:
    g = torch.Generator().manual_seed(1)
    return [torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=g) for shape in SHAPES]


def kinds_of_view() -> list[View]:
    return [View(seed=3, size=SIZE), View(seed=3, size=SIZE, train=JITTER), View(seed=3, size=SIZE, train="pad")]


@settings(max_examples=25, deadline=None)
@given(
    order=st.lists(st.integers(0, len(SHAPES) - 1), min_size=1, max_size=10),
    kind=st.sampled_from(["train", "test"]),
    disturb=st.integers(0, 2**31),
)
def test_neither_neighbours_nor_order_nor_global_randomness_matter(
    order: Sequence[int], kind: str, disturb: int
) -> None:
    images = pictures()
    for view in kinds_of_view():
        alone = [view.uint8([images[i]], [i], [i % 3], kind) for i in order]
        torch.manual_seed(disturb)
        random.seed(disturb)
        together = view.uint8([images[i] for i in order], order, [i % 3 for i in order], kind)
        assert torch.equal(together, torch.cat(alone))


def test_threads_and_strides_do_not_matter() -> None:
    images = pictures()
    ids = list(range(len(images)))
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for view in (View(seed=3, size=64), View(seed=3, size=64, mean=[0.4, 0.5, 0.6], std=[0.2, 0.2, 0.3])):
                hwc = [image.permute(1, 2, 0).contiguous().permute(2, 0, 1) for image in images]
                for kind in ("train", "test"):
                    results.append((count, view(images, ids, ids, kind)))
                    assert torch.equal(view(hwc, ids, ids, kind), results[-1][1])
    finally:
        torch.set_num_threads(threads)
    half = len(results) // 2
    for (_, one), (_, two) in zip(results[:half], results[half:], strict=True):
        assert torch.equal(one, two)


def test_randomness_outside_is_untouched() -> None:
    images = pictures()
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index, union-attr]
    for view in kinds_of_view():
        view(images, range(len(images)), [0] * len(images), "train")
    with contextlib.suppress(KeyError), borrowed_randomness() as reseed:
        reseed(5)
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # type: ignore[index]
    assert random.getstate() == before[2]


def test_train_views_differ_by_seed_id_and_visit_and_test_views_do_not() -> None:
    image = pictures()[0]
    for make in (lambda seed: View(seed=seed, size=SIZE), lambda seed: View(seed=seed, size=SIZE, train=JITTER)):
        base = make(0).uint8([image], [5], [0], "train")
        assert torch.equal(base, make(0).uint8([image], [5], [0], "train"))
        for seed, i, visit in ((1, 5, 0), (0, 6, 0), (0, 5, 1)):
            assert not torch.equal(base, make(seed).uint8([image], [i], [visit], "train"))
            assert torch.equal(
                make(0).uint8([image], [5], [0], "test"), make(seed).uint8([image], [i], [visit], "test")
            )


def test_even_a_random_test_transform_has_one_view_per_picture() -> None:
    image = pictures()[0]
    view = View(seed=0, size=SIZE, test=JITTER)
    assert torch.equal(view.uint8([image], [5], [0], "test"), view.uint8([image], [5], [7], "test"))


def test_the_fast_crop_equals_torchvisions_own_transforms_bit_for_bit() -> None:
    g = torch.Generator().manual_seed(2)
    literal = v2.Compose([v2.RandomResizedCrop(SIZE, scale=(0.05, 1.0)), v2.RandomHorizontalFlip()])
    fast, slow = View(seed=9, size=SIZE), View(seed=9, size=SIZE, train=literal)
    for i in range(200):
        height, width = torch.randint(1, 60, (2,), generator=g).tolist()
        image = torch.randint(0, 256, (3, height, width), dtype=torch.uint8, generator=g)
        expected = slow.uint8([image], [i], [i % 4], "train")
        assert torch.equal(fast.uint8([image], [i], [i % 4], "train"), expected)
        with torch.random.fork_rng(devices=[]):  # and by hand, as the definition says
            torch.manual_seed(hash32(9, i, i % 4, "train"))
            assert torch.equal(literal(image)[None], expected)


def test_the_test_view_is_the_protocols() -> None:
    image = pictures()[2]  # 13 x 40
    literal = v2.Compose(
        [v2.Resize(round(SIZE * 256 / 224), interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(SIZE)]
    )
    assert torch.equal(View(seed=0, size=SIZE).uint8([image], [0], [0], "test")[0], literal(image))
    small = pictures()[1]  # 8 x 8: only resized
    resized = v2.functional.resize(small, [SIZE, SIZE], interpolation=v2.InterpolationMode.BICUBIC)
    assert torch.equal(View(seed=0, size=SIZE).uint8([small], [0], [0], "test")[0], resized)
    same = pictures()[6]  # 12 x 12: as it is
    assert torch.equal(View(seed=0, size=SIZE).uint8([same], [0], [0], "test")[0], same)


def test_a_very_long_picture_costs_no_gigabytes() -> None:
    line = torch.randint(0, 256, (3, 1, 60_000), dtype=torch.uint8)
    view = View(seed=0, size=224)
    assert view.uint8([line], [0], [0], "test").shape == (1, 3, 224, 224)
    assert view.uint8([line.transpose(1, 2)], [0], [0], "train").shape == (1, 3, 224, 224)


def test_normalisation() -> None:
    images, ids = pictures()[:3], [0, 1, 2]
    plain = View(seed=0, size=SIZE)(images, ids, ids, "train")
    assert plain.dtype == torch.float32
    assert 0 <= plain.min() <= plain.max() <= 1
    stored = View(seed=0, size=SIZE).uint8(images, ids, ids, "train")
    torch.testing.assert_close(plain, stored.float() / 255, rtol=0, atol=1e-7)
    assert torch.equal(plain.mul(255).round().to(torch.uint8), stored)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    normal = View(seed=0, size=SIZE, mean=mean, std=std)(images, ids, ids, "train")
    expected = (plain - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    torch.testing.assert_close(normal, expected, rtol=0, atol=1e-6)


def test_golden_view() -> None:
    """Views must not change between versions: everything measured earlier was measured on them."""
    image = torch.arange(3 * 16 * 16, dtype=torch.int64).remainder(251).to(torch.uint8).view(3, 16, 16)
    view = View(seed=42, size=4)
    train = [[145, 144, 142, 140], [170, 169, 167, 165], [200, 199, 197, 195], [225, 224, 222, 220]]
    test = [[20, 23, 27, 30], [69, 72, 76, 79], [121, 124, 128, 131], [173, 176, 180, 187]]
    for kind, golden in (("train", train), ("test", test)):
        got = view.uint8([image], [7], [1], kind)[0, 0].int()
        assert (got - torch.tensor(golden)).abs().max() <= 1  # an old CPU rounds otherwise


def test_no_pictures_and_bad_settings() -> None:
    assert View(seed=0, size=SIZE)([], [], [], "train").shape == (0, 3, SIZE, SIZE)
    for bad, says in (
        ({"size": 0}, "image size"),
        ({"size": 4, "mean": [0.5] * 3}, "both mean and std"),
        ({"size": 4, "scale": (0.0, 1.0)}, "scale"),
        ({"size": 4, "scale": (0.5, 0.2)}, "scale"),
        ({"size": 4, "train": "crip"}, "crop, pad, center and cut"),
    ):
        with pytest.raises(UserError, match=says):
            View(seed=0, **bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind"):
        View(seed=0, size=4)([], [], [], "tset")


@pytest.mark.parametrize(
    "transform",
    [
        v2.Resize((3, 3)),
        v2.Compose([v2.Resize((SIZE, SIZE)), v2.ToDtype(torch.float32, scale=True)]),
        lambda image: None,
    ],
)
def test_a_transform_that_returns_something_else_is_a_sentence(transform: v2.Transform) -> None:
    with pytest.raises(UserError, match="instead of uint8"):
        View(seed=0, size=SIZE, train=transform).uint8(pictures()[:1], [0], [0], "train")


def test_cut_is_the_published_test_view_for_small_pictures_too():
    image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    published = v2.Compose([v2.Resize(64, v2.InterpolationMode.BICUBIC), v2.CenterCrop(56)])
    cut = View(seed=0, size=56, test="cut").uint8([image], [0], [0], "test")[0]
    assert torch.equal(cut, published(image))
    whole = View(seed=0, size=56).uint8([image], [0], [0], "test")[0]
    assert not torch.equal(cut, whole)
