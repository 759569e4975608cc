"""The ViT gives timm's features, reads only the rows it must, and leaves frozen weights out of the graph."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import timm
import torch
from torch import Tensor

from rwf.errors import UserError
from rwf.vit.forward import Read, ViT, weights_hash
from rwf.vit.sockets import Plug, Prefix
from tests.vit.models import KINDS, native, noise, pictures, timm_model

close: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11}


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_timms(kind: str) -> None:
    model = timm_model(kind)
    vit = ViT(copy.deepcopy(model))
    x = pictures(3, vit.image_size)
    with torch.no_grad():
        expected = native(model, x)
        assert (expected[0] - expected[1]).abs().max() > 1e-3  # else anything would do
        for vit.attention in ("auto", "sdpa", "explicit"):
            torch.testing.assert_close(vit.features(x), expected, **close)
    assert vit.feature_width == expected.shape[1]


def test_features_are_timms_behind_a_convolutional_stem() -> None:
    model = timm_model("vit_tiny_r_s16_p8_224", img_size=64)
    vit = ViT(copy.deepcopy(model))
    x = pictures(2, 64)
    with torch.no_grad():
        torch.testing.assert_close(vit.features(x), native(model, x), **close)


def test_features_are_timms_in_single_precision_at_full_width() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = timm.create_model("vit_base_patch16_224", img_size=64, depth=2).eval()
    x = pictures(2, 64).float()
    with torch.no_grad():
        torch.testing.assert_close(ViT(copy.deepcopy(model)).features(x), native(model, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "kind", ["vit_small_patch14_reg4_dinov2", "vit_medium_patch16_gap_256", "beit3_base_patch16_224"]
)
def test_reads_are_rows_of_timms_sequence(kind: str) -> None:
    model = timm_model(kind)
    vit = ViT(copy.deepcopy(model))
    x = pictures(2, vit.image_size)
    with torch.no_grad():
        rows, first = model.forward_features(x), vit.prefix_tokens
        assert rows.shape[1] == first + vit.patches

        def mean(some: Tensor) -> Tensor:
            out: Tensor = model.fc_norm(some.mean(1))
            return out

        expected: list[tuple[Read, Tensor]] = [
            ("mean", mean(rows[:, first:])),
            (slice(2, 5), mean(rows[:, 2:5])),
            (slice(-3, None), mean(rows[:, -3:])),
            (slice(None, None, 4), mean(rows[:, ::4])),
        ]
        if model.has_class_token:
            expected.append(("cls", mean(rows[:, :1])))
        for read, features in expected:
            torch.testing.assert_close(vit.features(x, read=read), features, **close)
        torch.testing.assert_close(vit.encode(x, read=slice(None)), rows, **close)


def test_no_class_token_no_cls() -> None:
    vit = ViT(timm_model("vit_medium_patch16_gap_256"))
    with pytest.raises(UserError, match="no class token"):
        vit.features(pictures(1, vit.image_size), read="cls")


def test_what_cannot_be_read_is_refused() -> None:
    vit = ViT(timm_model())
    x = pictures(1, vit.image_size)
    with pytest.raises(ValueError, match="names no row"):
        vit.features(x, read=slice(99, None))
    with pytest.raises(ValueError, match="read is"):
        vit.features(x, read="max")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="attention is one of"):
        ViT(timm_model(), attention="flash")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="48 x 64, the ViT VisionTransformer takes 64 x 64"):
        vit.features(x[:, :, :48])


@pytest.mark.parametrize("kind", ["vit_base_patch16_224", "vit_base_patch16_224 with gates"])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 9), slice(-2, None), slice(1, None, 5)])
def test_a_block_for_few_rows_is_these_rows_of_the_block(kind: str, rows: slice) -> None:
    vit = ViT(timm_model(kind))
    z = noise(2, 17, vit.width).requires_grad_()
    plug = _Prefix(noise(2, 4, vit.width))
    some, all_ = vit.block(1, z, plug, rows), vit.block(1, z, plug)[:, rows]
    torch.testing.assert_close(some, all_, **close)
    weight = noise(*some.shape)
    grads = [torch.autograd.grad((out * weight).sum(), z)[0] for out in (some, all_)]
    torch.testing.assert_close(*grads, **close)


def test_what_no_head_reads_is_not_computed() -> None:
    vit, seen = ViT(timm_model()), _Shapes()
    x = pictures(2, vit.image_size)
    vit.features(x, seen)
    assert seen.attn == [(2, 17, 48)] * 3
    assert seen.mlp == [(2, 17, 48)] * 2 + [(2, 1, 48)]
    vit.features(x, seen, read="mean")
    assert seen.mlp[-1] == (2, 16, 48)


class _Shapes(Plug):
    def __init__(self) -> None:
        self.attn: list[tuple[int, ...]] = []
        self.mlp: list[tuple[int, ...]] = []

    def tap(self, block: int, name: str, x: Tensor) -> None:
        getattr(self, name).append(tuple(x.shape))


class _Prefix(Plug):
    """Trained tokens before the keys of one block (or all)."""

    def __init__(self, tokens: Tensor, block: int | None = None) -> None:
        self._tokens, self._block = tokens, block

    def prefix(self, block: int, z: Tensor) -> Prefix | None:
        return Prefix(tokens=self._tokens) if self._block in (None, block) else None


def test_no_graph_below_the_first_trained_thing_and_no_gradient_for_frozen_weights() -> None:
    vit = ViT(timm_model())
    trained = noise(1, 4, vit.width).requires_grad_()

    class Spy(_Prefix):
        graph: dict[int, bool]

        def prefix(self, block: int, z: Tensor) -> Prefix | None:
            self.graph[block] = z.grad_fn is not None
            return super().prefix(block, z)

    spy = Spy(trained, block=1)
    spy.graph = {}
    features = vit.features(pictures(2, vit.image_size), spy)
    assert spy.graph == {0: False, 1: False, 2: True}
    features.square().sum().backward()
    assert trained.grad is not None
    assert trained.grad.abs().min() > 0
    assert all(p.grad is None for p in vit.parameters())


def test_nothing_trained_no_graph() -> None:
    vit = ViT(timm_model())
    assert vit.features(pictures(1, vit.image_size)).grad_fn is None


@pytest.mark.parametrize("kind", KINDS)
def test_full_fine_tuning_has_timms_gradients(kind: str) -> None:
    model = timm_model(kind)
    vit = ViT(copy.deepcopy(model)).requires_grad_(True)
    x = pictures(2, vit.image_size)
    features, expected = vit.features(x), native(model, x)
    weight = noise(*expected.shape)
    (features * weight).sum().backward()
    (expected * weight).sum().backward()
    wanted = {name: p.grad for name, p in model.named_parameters()}
    assert sum(g is not None for g in wanted.values()) > 20
    for name, p in vit.timm.named_parameters():
        torch.testing.assert_close(p.grad, wanted[name], rtol=1e-8, atol=1e-10, msg=name)


def test_it_stays_in_evaluation_mode() -> None:
    model = timm_model(
        proj_drop_rate=0.5, drop_path_rate=0.5, attn_drop_rate=0.5, pos_drop_rate=0.5, patch_drop_rate=0.5
    )
    vit = ViT(model)
    torch.nn.Sequential(vit).train()
    vit.train()
    x = pictures(2, vit.image_size)
    assert not vit.training
    torch.testing.assert_close(vit.features(x), native(model, x), **close)


@pytest.mark.parametrize("kind", ["vit_base_patch16_224", "vit_base_patch16_siglip_224", "vit_medium_patch16_gap_256"])
@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
def test_a_picture_does_not_notice_its_neighbours(kind: str, attention: Any) -> None:
    vit = ViT(timm_model(kind), attention=attention)
    x = pictures(5, vit.image_size)
    together, plug = vit.features(x), _Prefix(noise(1, 4, vit.width))
    torch.testing.assert_close(torch.cat([vit.features(one[None]) for one in x]), together, rtol=1e-12, atol=1e-13)
    order = [3, 0, 4, 1, 2]
    torch.testing.assert_close(vit.features(x[order], plug), vit.features(x, plug)[order], rtol=1e-12, atol=1e-13)


def test_auto_attention_is_explicit_for_bfloat16_on_the_cpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def counted(*args: Any, **options: Any) -> Tensor:
        calls.append("sdpa")
        return sdpa(*args, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    vit = ViT(timm_model().float())
    x = pictures(1, vit.image_size).float()
    exact = vit.features(x)
    assert len(calls) == vit.depth
    with torch.autocast("cpu", torch.bfloat16):
        rough = vit.features(x)
        assert len(calls) == vit.depth
        vit.attention = "sdpa"
        vit.features(x)
        assert len(calls) == 2 * vit.depth
    assert torch.nn.functional.cosine_similarity(rough.float(), exact).min() > 0.999
    vit.attention = "auto"
    vit.to(torch.bfloat16).features(x.bfloat16())
    assert len(calls) == 2 * vit.depth


def test_what_it_says_about_itself() -> None:
    vit = ViT(
        timm_model("vit_small_patch14_reg4_dinov2", num_classes=7), name="some name", mean=(0, 0, 0), std=(1, 1, 1)
    )
    assert (vit.name, vit.width, vit.depth, vit.heads, vit.image_size) == ("some name", 48, 3, 3, 56)
    assert (vit.patches, vit.prefix_tokens, vit.feature_width, vit.mean, vit.std) == (16, 5, 48, (0, 0, 0), (1, 1, 1))
    assert not any(p.requires_grad for p in vit.parameters())
    assert "timm.head.weight" not in vit.state_dict()


@pytest.mark.parametrize("classes", [0, 10, 1000])
def test_total_parameters_are_those_with_a_thousand_classes(classes: int) -> None:
    with torch.device("meta"):
        vit = ViT(timm.create_model("vit_base_patch16_224", num_classes=classes))
    assert vit.total_parameters == 86_567_656
    assert vit.hash == ""


def test_the_hash_knows_names_types_shapes_and_bytes() -> None:
    layer = torch.nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        layer.weight.zero_()
    hashes = [weights_hash(layer), weights_hash(torch.nn.Sequential(layer))]
    hashes += [weights_hash(copy.deepcopy(layer).to(dtype)) for dtype in (torch.float16, torch.bfloat16)]
    other = torch.nn.Linear(2, 8, bias=False)
    changed = copy.deepcopy(layer)
    with torch.no_grad():
        other.weight.zero_()
        changed.weight[3, 3] = -0.0  # equal in value, not in bits
    hashes += [weights_hash(other), weights_hash(changed)]
    assert len(set(hashes)) == 6
    assert weights_hash(copy.deepcopy(layer)) == hashes[0]
    vit = ViT(timm_model())
    assert vit.hash == ViT(timm_model()).hash == weights_hash(vit.timm)
    assert vit.hash == ViT(timm_model(num_classes=9)).hash  # the classifier is no part of it
