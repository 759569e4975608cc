"""Pictures that lie under two names: they break "once", and between training and test the measurement too."""

from __future__ import annotations

from collections import defaultdict

from rwf.data.catalog import Catalog
from rwf.data.pictures import Pictures

AT_OPEN = 256 << 20  # bytes of pictures up to which looking for duplicates is cheap enough to do it unasked


def find_duplicates(catalog: Catalog) -> list[list[tuple[str, int]]]:
    """Groups of (split, id) with the same stored bytes. Only pictures of equal size are read and hashed."""
    splits: dict[str, Pictures] = {"train": catalog.train, "test": catalog.test}
    by_size: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for split, pictures in splits.items():
        for i, size in enumerate(pictures.store.sizes.tolist()):
            by_size[size].append((split, i))
    groups: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
    for same_size in by_size.values():
        if len(same_size) > 1:
            for split, i in same_size:
                groups[splits[split].store.digest(i)].append((split, i))
    return [group for group in groups.values() if len(group) > 1]


def duplicate_notice(catalog: Catalog) -> str | None:
    """One sentence about duplicates, or None if there are none."""
    groups = find_duplicates(catalog)
    if not groups:
        return None
    inside = sum(max(0, sum(split == "train" for split, _ in group) - 1) for group in groups)
    across = sum(len({split for split, _ in group}) == 2 for group in groups)
    names = {"train": catalog.train.names, "test": catalog.test.names}
    example = " = ".join(f"{split} {names[split][i]}" for split, i in groups[0][:2])
    return (
        f"Pictures that lie under several names: {len(groups)} (for example {example}). Of these, training pictures "
        f"that repeat another one, so that the stream shows it twice: {inside}; in training and in test: {across}."
    )
