"""Answers of a frozen network that are kept: the same bits, dropped when damaged, none of a network that learns."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.files import TEMPORARY
from rwf.vit.adapter import Adapters
from rwf.vit.feature_cache import SUFFIX, Frozen, Shards
from rwf.vit.forward import ViT
from rwf.vit.weights import load_backbone

GB = 10**9
KEY = "ab" + "0" * 62


@pytest.fixture
def vit() -> ViT:
    return load_backbone("random:32x2")


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    return Shards(tmp_path / "kept", GB)


@pytest.fixture
def views() -> Tensor:
    return torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def kept_by(vit: ViT, shards: Shards | None) -> Frozen:
    vit.frozen = Frozen(vit, shards)
    return vit.frozen


def files(shards: Shards) -> list[Path]:
    return sorted(shards.folder.glob("*/*"))


def test_what_is_read_has_the_bits_of_what_is_computed(vit: ViT, shards: Shards, views: Tensor) -> None:
    plain = vit.features(views)
    frozen = kept_by(vit, shards)
    for _ in range(3):
        assert torch.equal(vit.features(views), plain)
    assert (frozen.asked, frozen.computed) == (18, 6)
    again = load_backbone("random:32x2")
    other = kept_by(again, Shards(shards.folder, GB))
    assert torch.equal(again.features(views), plain)
    assert other.computed == 0


def test_one_reading_under_two_names_is_kept_once(vit: ViT, shards: Shards, views: Tensor) -> None:
    frozen = kept_by(vit, shards)
    assert torch.equal(vit.features(views, read="native"), vit.features(views, read="cls"))
    assert frozen.computed == 6
    assert not torch.equal(vit.features(views, read="mean"), vit.features(views))


def test_everything_the_bits_hang_on_is_in_the_key(vit: ViT, views: Tensor) -> None:
    frozen = Frozen(vit)
    keys = [frozen.key_of(views, "", "cls"), frozen.key_of(views, "", "mean"), frozen.key_of(views, "plug", "cls")]
    changed = views.clone()
    changed[3, 1, 7, 7] += 1e-6
    keys += [frozen.key_of(x, "", "cls") for x in (changed, views.flip(0), views[:5], views.double())]
    with torch.autocast("cpu", torch.bfloat16):
        keys.append(frozen.key_of(views, "", "cls"))
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    keys.append(frozen.key_of(views, "", "cls"))
    torch.set_num_threads(threads)
    keys.append(Frozen(load_backbone("random:32x2", seed=1)).key_of(views, "", "cls"))
    keys.append(Frozen(load_backbone("random:32x2").double()).key_of(views, "", "cls"))
    assert len(set(keys)) == len(keys)
    assert frozen.key_of(views.clone(), "", "cls") == keys[0]


def test_a_network_that_learns_is_never_read(vit: ViT, shards: Shards, views: Tensor) -> None:
    frozen = kept_by(vit, shards)
    vit.features(views)
    with torch.no_grad():
        next(vit.parameters()).mul_(1.5)  # no longer what its hash says
    assert torch.equal(vit.features(views), vit.compute(views))
    vit = load_backbone("random:32x2").requires_grad_(True)
    trained = kept_by(vit, shards)
    assert vit.features(views).requires_grad
    assert (frozen.asked, frozen.computed, trained.asked) == (6, 6, 0)


def test_pixels_that_want_a_gradient_get_one(vit: ViT, shards: Shards, views: Tensor) -> None:
    kept_by(vit, shards)
    vit.features(views)
    x = views.clone().requires_grad_(True)
    vit.features(x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


def test_finished_adapters_are_kept_and_those_in_training_are_not(vit: ViT, shards: Shards, views: Tensor) -> None:
    frozen = kept_by(vit, shards)
    adapters = Adapters(width=32, depth=2, bottleneck=4)
    for value in (0.1, 0.2):
        with torch.no_grad():
            adapters.get_parameter("up").fill_(value)
        adapters.keep()
    with torch.no_grad():
        said = [vit.features(views, plug=adapters.kept(i)) for i in (0, 1)]
        again = [vit.features(views, plug=adapters.kept(i)) for i in (0, 1)]
        vit.features(views, plug=adapters)
    assert all(torch.equal(a, b) for a, b in zip(said, again, strict=True))
    assert not torch.equal(*said)
    assert (frozen.asked, frozen.computed) == (24, 12)


def test_adapters_as_they_are_have_the_name_of_their_numbers(vit: ViT) -> None:
    adapters = Adapters(width=32, depth=2, bottleneck=4)
    first = adapters.as_they_are().frozen_name()
    with torch.no_grad():
        adapters.get_parameter("up").fill_(0.5)
    second = adapters.as_they_are().frozen_name()
    adapters.keep()
    assert first is not None
    assert first != second == adapters.kept(0).frozen_name()
    assert adapters.frozen_name() is None


class Pairs:
    """Test pictures 0 to 5 in groups of two."""

    def __init__(self, views: Tensor) -> None:
        self.all = views

    def __len__(self) -> int:
        return len(self.all)

    def of(self, picture: int) -> int:
        return picture // 2

    def views(self, group: int) -> tuple[range, Tensor]:
        return range(2 * group, 2 * group + 2), self.all[2 * group : 2 * group + 2]


def test_what_is_said_about_a_test_picture_does_not_hang_on_its_company(vit: ViT, views: Tensor) -> None:
    alone = torch.cat([vit.features(part) for part in views.split(2)])
    vit.frozen = frozen = Frozen(vit, None, Pairs(views))
    for pictures in ([0], [1, 5], [4, 2, 0], [5, 4, 3, 2, 1, 0]):
        with frozen.about(pictures):
            assert torch.equal(vit.features(views[pictures]), alone[pictures])
    assert frozen.computed == 6
    assert frozen.asked == 12
    with frozen.about([0, 1]):  # these are not their test views
        assert torch.equal(vit.features(views[2:4]), vit.compute(views[2:4]))


def test_where_all_test_pictures_have_no_room_their_batches_count(vit: ViT, views: Tensor, monkeypatch) -> None:
    monkeypatch.setattr("rwf.vit.feature_cache.IN_MEMORY", 6 * 32 * 4 - 1)
    vit.frozen = frozen = Frozen(vit, None, Pairs(views))
    for _ in range(2):
        with frozen.about([0, 1]):
            vit.features(views[:2])
    assert frozen.computed == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "another's"])
def test_what_is_damaged_or_foreign_is_dropped_and_computed_again(
    vit: ViT, shards: Shards, views: Tensor, damage: str
) -> None:
    frozen = kept_by(vit, shards)
    plain = vit.features(views)
    vit.features(views + 1)
    mine = shards.path(frozen.key_of(views, "", "native"))
    content = mine.read_bytes()
    (other,) = [path for path in files(shards) if path != mine]
    bad = {
        "cut": content[:-8],
        "flipped": content[:-1] + bytes([content[-1] ^ 1]),
        "empty": b"",
        "foreign": b"a letter to a friend",
        "another's": other.read_bytes(),
    }
    mine.write_bytes(bad[damage])
    assert torch.equal(vit.features(views), plain)
    assert (shards.dropped, frozen.computed) == (1, 18)
    assert torch.equal(vit.features(views), plain)
    assert (shards.dropped, frozen.computed) == (1, 18)


def test_the_oldest_leave_and_files_of_others_stay(tmp_path: Path) -> None:
    first = Shards(tmp_path, GB)
    keys = [f"{i:02d}" + "0" * 62 for i in range(10)]
    for i, key in enumerate(keys):
        first.put(key, torch.full((1000,), float(i)))
        os.utime(first.path(key), (i, i))
    size = first.path(keys[0]).stat().st_size
    theirs = tmp_path / "00" / "notes.txt"
    theirs.write_bytes(b"x" * 10 * size)
    half = tmp_path / "00" / f"{TEMPORARY}1-x{SUFFIX}"
    half.write_bytes(b"x")
    os.utime(half, (0, 0))
    bounded = Shards(tmp_path, 5 * size)
    assert [bounded.get(key) is not None for key in keys] == [False] * 6 + [True] * 4
    bounded.put(keys[0], torch.zeros(1000))
    bounded.put(keys[1], torch.zeros(1000))
    assert sum(path.stat().st_size for path in files(bounded) if path.suffix == SUFFIX) <= 5 * size
    assert bounded.get(keys[1]) is not None
    assert theirs.exists()
    assert not half.exists()


def test_what_was_read_lately_stays(tmp_path: Path) -> None:
    shards = Shards(tmp_path, GB)
    for i, key in enumerate(("aa" * 32, "bb" * 32)):
        shards.put(key, torch.zeros(1000))
        os.utime(shards.path(key), (i, i))
    shards.get("aa" * 32)
    Shards(tmp_path, int(1.5 * shards.path("aa" * 32).stat().st_size))
    assert shards.get("aa" * 32) is not None
    assert shards.get("bb" * 32) is None


def test_many_may_write_and_read_at_once(tmp_path: Path) -> None:
    """Nobody reads a part of a file, whoever writes it, and however many write it."""
    wrong: list[object] = []

    def work() -> None:
        shards = Shards(tmp_path, 20_000)
        for turn in range(60):
            key = f"{turn % 3:02d}" + "0" * 62
            shards.put(key, torch.full((500,), float(turn % 3)))
            value = shards.get(key)
            if shards.dropped or (value is not None and not bool((value == turn % 3).all())):
                wrong.append((turn, shards.dropped))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_disk_that_takes_no_more_ends_nothing(vit: ViT, shards: Shards, views: Tensor, monkeypatch) -> None:
    frozen = kept_by(vit, shards)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    plain = vit.features(views)
    assert torch.equal(vit.features(views), plain)
    assert frozen.computed == 12
    assert "takes no more (No space left on device)" in shards.trouble
    assert not files(shards)


def test_a_cache_without_room_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds nothing"):
        Shards(tmp_path, 0)
