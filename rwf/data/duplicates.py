"""Pictures that lie under two names: they break "once", and between training and test the measurement too."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress

from rwf.data.decode import BadImageError
from rwf.data.pictures import Pictures

AT_OPEN = 256 << 20  # bytes to read up to which looking for duplicates is cheap enough to do it unasked

Alike = list[tuple[str, int]]
"""(split, id) of pictures that may be one."""


def of_one_size(train: Pictures, test: Pictures) -> list[Alike]:
    """Groups of pictures with equally many stored bytes; no other can be the same."""
    by_size: dict[int, Alike] = defaultdict(list)
    for split, pictures in (("train", train), ("test", test)):
        for i, size in enumerate(pictures.store.sizes.tolist()):
            by_size[size].append((split, i))
    return [group for group in by_size.values() if len(group) > 1]


def find_duplicates(train: Pictures, test: Pictures) -> list[Alike]:
    """Groups with the same stored bytes. Only pictures of equal size are read and hashed."""
    splits = {"train": train, "test": test}
    found: list[Alike] = []
    for same_size in of_one_size(train, test):
        groups: dict[bytes, Alike] = defaultdict(list)
        for split, i in same_size:
            with suppress(BadImageError):  # whoever wants the picture will hear of it
                groups[splits[split].store.digest(i)].append((split, i))
        found += [group for group in groups.values() if len(group) > 1]
    return found


def duplicate_notice(train: Pictures, test: Pictures) -> str | None:
    """One sentence about duplicates, or None if there are none."""
    groups = find_duplicates(train, test)
    if not groups:
        return None
    inside = sum(max(0, sum(split == "train" for split, _ in group) - 1) for group in groups)
    across = sum(len({split for split, _ in group}) == 2 for group in groups)
    names = {"train": train.names, "test": test.names}
    example = " = ".join(f"{split} {names[split][i]}" for split, i in groups[0][:2])
    return (
        f"Pictures that lie under several names: {len(groups)} (for example {example}). Of these, training pictures "
        f"that repeat another one, so that the stream shows it twice: {inside}; in training and in test: {across}."
    )


def notice_at_open(train: Pictures, test: Pictures, spec: str) -> str | None:
    """The same where looking is cheap, else a sentence that nobody has looked."""
    splits = {"train": train, "test": test}
    to_read = sum(int(splits[s].store.sizes[i]) for group in of_one_size(train, test) for s, i in group)
    if to_read <= AT_OPEN:
        return duplicate_notice(train, test)
    return (
        f"Nobody has looked for pictures that lie under several names ({to_read / 1e9:.1f} GB would have to be read): "
        f"`rwf doctor --benchmark {spec}` does."
    )
