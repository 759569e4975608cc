"""A ViT that learns from your own pictures as they come, one by one or in batches, with labels nobody announced.

Run it: python examples/own_pictures.py [BACKBONE]
BACKBONE is a timm name such as vit_base_patch16_224.augreg_in21k (downloaded by timm on first use), a .safetensors
file, or, as here by default, a small ViT with random weights, which is enough for coloured squares.
"""

import sys
import tempfile

import numpy as np

import rwf

COLOURS = {"tomato": (220, 60, 50), "lime": (120, 200, 40), "plum": (120, 40, 130)}


def picture(label: str, rng: np.random.Generator) -> np.ndarray:
    """A noisy square; yours come from a camera. Any size, H x W x 3, uint8; PIL pictures and tensors do as well."""
    noise = rng.integers(-40, 41, (48, 48, 3))
    return np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8)


def main(backbone: str = "random:192x4") -> float:
    rng = np.random.default_rng(0)
    learner = rwf.build("rwf", backbone=backbone, lr=1e-4)

    # One label after the other, each picture once, a few at a time: nothing says when something new begins.
    for label in COLOURS:
        for _ in range(20):
            pictures = [picture(label, rng) for _ in range(3)]
            learner.learn(pictures, [label] * 3)
    print("learned:", learner.classes)

    # What it learned fits into a small file; frozen weights are not part of it.
    with tempfile.TemporaryDirectory() as folder:
        learner.save(folder)
        learner = rwf.load(folder)

    truth = list(COLOURS) * 10
    guesses = learner.classify([picture(label, rng) for label in truth])
    right = float(np.mean([guess == label for guess, label in zip(guesses, truth, strict=True)]))
    print(f"{100 * right:.0f} % of {len(truth)} new pictures right")
    return right


if __name__ == "__main__":
    main(*sys.argv[1:2])
