"""The two verbs on a person's own pictures: any labels, any form, any batch size; saving and loading."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

import rwf
from rwf.data.batch import Batch
from rwf.errors import UserError
from rwf.run.toy import BACKBONE, toy_catalog
from tests.toys import toy


@pytest.fixture(scope="module")
def pictures():
    return toy_catalog(8, 4)


def colours(catalog, numbers):
    """(pictures, labels) of some classes of the toy catalog."""
    ids = [i for i, label in enumerate(catalog.train.labels) if label in numbers]
    return [catalog.train.picture(i) for i in ids], [catalog.classes[catalog.train.labels[i]] for i in ids]


def test_learn_and_predict_on_own_pictures(pictures):
    learner = rwf.build("rwf", backbone=BACKBONE, lr=1e-2)
    images, labels = colours(pictures, {0, 3, 6})
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).tolist()
    for i in order * 3:
        learner.learn([images[i]], [labels[i]])
    assert set(learner.classes) == {"colour 0", "colour 3", "colour 6"}
    right = sum(a == b for a, b in zip(learner.classify(images), labels, strict=True))
    assert right >= 20


@pytest.mark.parametrize("form", ["list of arrays", "array NHWC", "tensor NCHW", "PIL", "float tensor", "one picture"])
def test_every_form_of_pictures_gives_the_same_scores(pictures, form):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    images, labels = colours(pictures, {1, 2})
    learner.learn(images, labels)
    expected = learner.predict(images)
    stack = torch.stack(list(images))
    given = {
        "list of arrays": [np.asarray(i.permute(1, 2, 0)) for i in images],
        "array NHWC": stack.permute(0, 2, 3, 1).numpy(),
        "tensor NCHW": stack,
        "PIL": [Image.fromarray(np.asarray(i.permute(1, 2, 0))) for i in images],
        "float tensor": stack.float() / 255,
        "one picture": images[0],
    }[form]
    scores = learner.predict(given)
    torch.testing.assert_close(scores, expected[: len(scores)])


def test_labels_may_be_any_strings_or_integers(pictures):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    images, _ = colours(pictures, {1})
    labels = ["", "été", "a b/c", 7, np.int64(7), "7", "0", "\n"]
    learner.learn(images, labels)
    assert learner.classes == ["", "été", "a b/c", 7, "7", "0", "\n"]
    assert learner.predict(images[:1]).shape == (1, 7)


def test_nothing_in_nothing_out(pictures):
    learner = rwf.build("rwf", backbone=BACKBONE)
    images, labels = colours(pictures, {0})
    assert learner.predict(images).shape == (len(images), 0)
    with pytest.raises(UserError, match="nothing has been learned"):
        learner.classify(images)
    assert learner.learn([], []) == {}
    learner.learn(images, labels)
    assert learner.predict([]).shape == (0, 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m, x: m.learn(x, ["a"]), "one label a picture"),
        (lambda m, x: m.learn(x[:1], [("a", "b")]), "labels are strings or integers"),
        (lambda m, x: m.learn(x[:1], [1.5]), "labels are strings or integers"),
        (lambda m, x: m.save("/proc/nowhere"), "cannot write"),
    ],
)
def test_mistakes_get_a_sentence(pictures, call, sentence):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    images, _ = colours(pictures, {0})
    with pytest.raises(UserError, match=sentence):
        call(learner, images)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr": float("nan")}, "lr is nan"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"window": 0}, "window is 0"),
        ({"mask": "none"}, "class_count"),
        ({"rate": 1.0}, "no option 'rate'"),
        ({"precision": "fp8"}, "precision is 'fp8'"),
    ],
)
def test_impossible_settings_get_a_sentence(options, sentence):
    with pytest.raises(UserError, match=sentence):
        rwf.build("linear_probe", backbone=BACKBONE, **options)


@pytest.mark.parametrize("method", ["rwf", "linear_probe", "finetune"])
def test_saved_and_loaded_it_goes_on_with_the_same_bits(pictures, method, tmp_path):
    learner = rwf.build(method, backbone=BACKBONE, seed=3)
    first, second = colours(pictures, {0, 1}), colours(pictures, {2})
    learner.learn(*first)
    learner.save(tmp_path / "a b")
    again = rwf.load(tmp_path / "a b")
    assert again.classes == learner.classes
    for twin in (learner, again):
        twin.learn(*second)
    assert torch.equal(learner.predict(first[0]), again.predict(first[0]))


def test_a_saved_learner_holds_no_frozen_weights(pictures, tmp_path):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    learner.learn(*colours(pictures, {0}))
    learner.save(tmp_path)
    assert (tmp_path / "state.safetensors").stat().st_size < 5_000
    assert json.loads((tmp_path / "config.json").read_text())["learner"]["backbone_hash"] == learner.vit.hash


def test_another_backbone_is_refused(pictures, tmp_path):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    learner.learn(*colours(pictures, {0}))
    learner.save(tmp_path)
    with pytest.raises(UserError, match="not the one this was made with"):
        rwf.load(tmp_path, backbone="random:32x3")


@pytest.mark.parametrize("damage", ["cut", "foreign", "gone"])
def test_a_damaged_state_is_refused(pictures, tmp_path, damage):
    learner = rwf.build("linear_probe", backbone=BACKBONE)
    learner.learn(*colours(pictures, {0}))
    learner.save(tmp_path)
    state = tmp_path / "state.safetensors"
    if damage == "cut":
        state.write_bytes(state.read_bytes()[:100])
    elif damage == "foreign":
        from safetensors.torch import save_file

        save_file({"a": torch.zeros(1)}, state)
    else:
        state.unlink()
    with pytest.raises(UserError):
        rwf.load(tmp_path)


def test_what_was_said_while_learning_is_what_prediction_says_before():
    learner, stream = toy("rwf")
    batches = [item for item in stream.items() if isinstance(item, Batch)]
    learner.learn(batches[0])
    before = learner.scores(batches[1].view())
    known = len(learner.classes)
    learner.learn(batches[1])
    assert learner.answered is not None
    torch.testing.assert_close(learner.answered[:, :known], before, rtol=0, atol=1e-12)
