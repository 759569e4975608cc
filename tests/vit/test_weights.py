"""From names to weights: drawn, from files, from timm; and one sentence for everything that can be wrong."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file
from timm.layers import resample_abs_pos_embed
from torch import Tensor

from rwf.errors import UserError
from rwf.vit import weights
from rwf.vit.weights import load_backbone
from tests.shared import shared
from tests.vit.models import pictures, timm_model

NAME = "test_vit.r160_in1k"  # timm's own small ViT: width 64, six blocks, pictures of 160
METADATA = {"architecture": "test_vit", "img_size": "32", "patch_size": "8", "mean": "0.1,0.2,0.3"}
METADATA |= {"std": "0.4,0.5,0.6", "num_classes": "7"}
FULL: dict[str, Any] = {"embed_dim": 64, "depth": 6, "num_heads": 2}


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    """A state with patches of 8 and pictures of 32, classifier included."""
    model = timm_model("test_vit", img_size=32, patch_size=8, num_classes=7, **FULL)
    return {name: tensor.float() for name, tensor in model.state_dict().items()}


@pytest.fixture
def file(state: dict[str, Tensor], tmp_path: Path) -> str:
    path = tmp_path / "weights.safetensors"
    save_file({name: tensor.half() for name, tensor in state.items()}, path, METADATA)
    return str(path)


def refused(sentence: str, name: str, **options: Any) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        load_backbone(name, **options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


def test_random_weights_are_a_function_of_name_size_and_seed() -> None:
    before = torch.get_rng_state()
    vit = load_backbone("random:64x3")
    assert (vit.width, vit.depth, vit.heads, vit.image_size, vit.patches) == (64, 3, 2, 32, 16)
    assert (vit.mean, vit.std, vit.name) == ((0.5,) * 3, (0.5,) * 3, "random:64x3")
    torch.manual_seed(12345)
    total = sum(p.double().abs().sum().item() for p in load_backbone("random:32x1").parameters())
    assert total == pytest.approx(522.571055721, rel=1e-6)  # on every machine
    hashes = [vit.hash, load_backbone("random:64x3").hash]
    assert len(set(hashes)) == 1
    others = [load_backbone("random:64x3", seed=1), load_backbone("random:96x3"), load_backbone("random:64x2")]
    assert len({*hashes, *(other.hash for other in others)}) == 4
    torch.set_rng_state(before)
    load_backbone(f"random:{NAME}")
    assert torch.equal(torch.get_rng_state(), before)


def test_a_narrow_random_vit_has_one_head() -> None:
    vit = load_backbone("random:16x1", image_size=64, normalize="none")
    assert (vit.heads, vit.image_size, vit.mean, vit.std) == (1, 64, None, None)


def test_random_weights_of_a_timm_name() -> None:
    vit, same = load_backbone(f"random:{NAME}", image_size=48), load_backbone(NAME, image_size=48, pretrained=False)
    assert (vit.width, vit.depth, vit.image_size, vit.patches, vit.hash) == (64, 6, 48, 9, same.hash)
    tiny = load_backbone("random:vit_tiny_patch16_224.augreg_in21k", image_size=32)
    assert (tiny.width, tiny.depth, tiny.mean) == (192, 12, (0.5, 0.5, 0.5))


# files


def test_a_file_is_loaded_whole_and_in_single_precision(file: str, state: dict[str, Tensor]) -> None:
    vit = load_backbone(file)
    assert (vit.image_size, vit.patches, vit.width, vit.name) == (32, 16, 64, file)
    assert (vit.mean, vit.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    loaded = vit.timm.state_dict()
    assert loaded.keys() == {name for name in state if not name.startswith("head.")}
    for name, tensor in loaded.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, state[name].half().float())
    with torch.random.fork_rng(devices=[]):
        model = timm.create_model("test_vit", img_size=32, patch_size=8)
    assert vit.total_parameters == sum(p.numel() for p in model.parameters())
    assert load_backbone(file, normalize="none").mean is None


def test_the_hash_is_of_the_weights_and_not_of_the_file(file: str, state: dict[str, Tensor], tmp_path: Path) -> None:
    vit, other = load_backbone(file), tmp_path / "other.safetensors"
    save_file({name: t.half().float() for name, t in state.items() if not name.startswith("head.")}, other, METADATA)
    assert load_backbone(str(other)).hash == vit.hash
    digest = hashlib.sha256()
    for name, tensor in sorted(vit.timm.state_dict().items()):
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode() + tensor.numpy().tobytes())
    assert digest.hexdigest() == vit.hash


@pytest.mark.parametrize("size", [16, 64])
def test_position_embeddings_are_resampled_to_another_picture_size(file: str, size: int) -> None:
    native, vit = load_backbone(file), load_backbone(file, image_size=size)
    assert (vit.image_size, vit.patches) == (size, (size // 8) ** 2)
    expected = resample_abs_pos_embed(native.timm.pos_embed, [size // 8] * 2, [4, 4], num_prefix_tokens=1)
    assert torch.equal(vit.timm.pos_embed, expected)
    assert torch.equal(vit.timm.blocks[3].mlp.fc1.weight, native.timm.blocks[3].mlp.fc1.weight)
    assert not vit.timm.pos_embed.requires_grad
    assert vit.features(pictures(2, size).float()).shape == (2, 64)


def test_a_file_without_metadata_needs_its_architecture(state: dict[str, Tensor], tmp_path: Path) -> None:
    (tmp_path / "bare@home").mkdir()
    path = tmp_path / "bare@home" / "weights.safetensors"
    model = timm_model("test_vit", img_size=48, **FULL).float()
    save_file(model.state_dict(), path)
    refused("does not say which architecture.*TIMM_NAME@", str(path))
    vit = load_backbone(f"test_vit@{path}")
    assert vit.image_size == 48  # as many positions as the file has
    x = pictures(2, 48).float()
    torch.testing.assert_close(vit.features(x), model.forward_head(model.forward_features(x), pre_logits=True))
    assert load_backbone(f"{NAME}@{path}", image_size=224).image_size == 224


def test_original_names_that_timm_knows_are_converted(tmp_path: Path) -> None:
    """A tower inside a CLIP file, beside the text tower."""
    path = tmp_path / "clip.safetensors"
    tower = timm_model("test_vit", img_size=160, **FULL).float().state_dict()
    whole = {f"visual.trunk.{name}": tensor for name, tensor in tower.items()}
    save_file({**whole, "visual.head.proj.weight": torch.zeros(5, 64), "text.positions": torch.zeros(3)}, path)
    loaded = load_backbone(f"test_vit@{path}").timm.state_dict()
    assert loaded.keys() == tower.keys()
    assert all(torch.equal(tensor, tower[name]) for name, tensor in loaded.items())


def test_an_architecture_in_the_name_wins_over_the_metadata(
    file: str, state: dict[str, Tensor], tmp_path: Path
) -> None:
    path = tmp_path / "other.safetensors"
    save_file({name: tensor.half() for name, tensor in state.items()}, path, {**METADATA, "architecture": "resnet18"})
    assert load_backbone(f"test_vit@{path}").hash == load_backbone(file).hash
    refused("does not fit: blocks.0.attn.norm.* is missing", f"beit3_base_patch16_224@{file}")
    refused("does not fit: blocks.10.attn.proj.bias is missing .and 71 more", f"vit_tiny_patch16_224@{file}")


def test_a_copy_is_loaded_and_not_the_file_itself(state: dict[str, Tensor], tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_file(state, path, METADATA)
    vit = load_backbone(str(path))
    with path.open("r+b") as opened:
        opened.write(b"\0" * path.stat().st_size)
    assert torch.equal(vit.timm.norm.weight, state["norm.weight"])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"architecture": "resnet18"}, "not a plain ViT"),
        ({"architecture": "vit_tiny"}, "there is no backbone 'vit_tiny'.*did you mean"),
        ({"architecture": "test_vit.never"}, "there is no backbone 'test_vit.never'"),
        ({"img_size": "64"}, "does not fit: pos_embed is 1 x 17 x 64 and should be 1 x 65 x 64"),
        ({"img_size": "33"}, "patches of 8.*32, not 33"),
        ({"patch_size": "16"}, "does not fit"),
        ({"patch_size": "none"}, "patch_size is 'none' instead of a number"),
        ({"img_size": "0"}, "img_size is '0' instead of a number"),
        ({"mean": "0.5"}, "mean is '0.5' instead of three numbers"),
        ({"std": "a,b,c"}, "std is 'a,b,c' instead of three numbers"),
        ({"std": "0.5,-1,-1"}, "std is '0.5,-1,-1' instead of three numbers above 0"),
        ({"architecture": "vit_base_mci_224", "patch_size": "32"}, "cannot build vit_base_mci_224 in .*patch_size=32"),
        ({"mean": "nan,0,0"}, "mean is 'nan,0,0'"),
    ],
)
def test_wrong_metadata(change: dict[str, str], sentence: str, state: dict[str, Tensor], tmp_path: Path) -> None:
    save_file(state, tmp_path / "x.safetensors", {**METADATA, **change})
    refused(sentence, str(tmp_path / "x.safetensors"))


def test_wrong_tensors(state: dict[str, Tensor], tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"

    def saved(tensors: dict[str, Tensor]) -> str:
        save_file(tensors, path, METADATA)
        return str(path)

    some = {name: tensor for name, tensor in state.items() if name not in ("norm.weight", "norm.bias")}
    refused("norm.bias is missing \\(and 1 more\\)", saved(some))
    refused("extra is not part of this architecture", saved({**state, "extra": torch.zeros(1)}))
    refused(
        "does not fit: norm.bias is 5 and should be 64; name the architecture",
        saved({**state, "norm.bias": torch.zeros(5)}),
    )
    refused("pos_embed is 1 x 0 x 64 and should be 1 x 17 x 64", saved({**state, "pos_embed": torch.zeros(1, 0, 64)}))
    refused("pos_embed is 17 and should be 1 x 17 x 64", saved({**state, "pos_embed": torch.zeros(17)}))
    refused("norm.bias holds numbers that are not finite", saved({**state, "norm.bias": torch.full((64,), torch.nan)}))


def test_damaged_files(file: str, tmp_path: Path) -> None:
    content = Path(file).read_bytes()
    path = tmp_path / "x.safetensors"
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header["norm.bias"]["data_offsets"][1] += 2
    changed = json.dumps(header).encode()
    damaged = (b"", content[:100], content[:-1], b"x" + content[1:], struct.pack("<Q", len(changed)) + changed)
    for piece in damaged:
        path.write_bytes(piece)
        refused("is damaged or no safetensors file.*get it again", str(path))
    for before in ("", "test_vit@"):
        refused("there is no weights file", f"{before}{tmp_path / 'absent.safetensors'}")


def test_weights_that_come_with_the_package(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(weights.SHIPPED, "small", Path(file))
    vit = load_backbone("small", image_size=64)
    assert (vit.name, vit.image_size, vit.hash) == ("small", 64, load_backbone(file, image_size=64).hash)
    refused("did you mean small", "smal")


def test_the_shared_backbone() -> None:
    path = shared("backbones", "vit_tiny_patch8_64.tinyimagenet.safetensors")
    vit = load_backbone(str(path))
    assert (vit.width, vit.depth, vit.heads, vit.image_size, vit.patches) == (192, 12, 3, 64, 64)
    assert vit.mean == (0.485, 0.456, 0.406)
    raw = load_file(path)
    assert all(torch.equal(tensor, raw[name].float()) for name, tensor in vit.timm.state_dict().items())
    assert load_backbone(str(path), image_size=32).features(torch.zeros(1, 3, 32, 32)).isfinite().all()


# timm, and names


def test_weights_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = []

    def offline(*args: Any, **_: Any) -> Any:
        fetched.append(args[0])
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", offline)
    refused("could not be fetched \\(ConnectionError, no network at all\\).*HF_HOME.*test_vit@PATH.safetensors", NAME)
    assert fetched == [f"timm/{NAME}"]
    for other in ("resnet18.a1_in1k", "deit_tiny_distilled_patch16_224.fb_in1k", "eva02_tiny_patch14_224.mim_in22k"):
        refused("not a plain ViT", other)
    refused("patches of 16.*48, not 50", NAME, image_size=50)
    assert len(fetched) == 1  # nothing is downloaded for a name that would be refused


@pytest.mark.parametrize("size", [None, 48])
def test_weights_of_timm_are_loaded_whole(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.random.fork_rng(devices=[]):
        source = timm.create_model("test_vit").state_dict()
    monkeypatch.setattr("timm.models._builder.load_state_dict_from_hf", lambda *_a, **_k: dict(source))
    before = torch.get_rng_state()
    vit = load_backbone(NAME, image_size=size)
    assert torch.equal(torch.get_rng_state(), before)
    assert vit.image_size == (size or 160)
    assert torch.equal(vit.timm.blocks[5].attn.qkv.weight, source["blocks.5.attn.qkv.weight"])
    assert vit.total_parameters == load_backbone(f"random:{NAME}", image_size=size).total_parameters
    if size is None:
        assert all(torch.equal(tensor, source[name]) for name, tensor in vit.timm.state_dict().items())
        assert load_backbone("test_vit").name == NAME  # a bare name is recorded with the weights it stands for
        source.pop("blocks.5.attn.qkv.weight")  # timm would pass over it, were the classifier dropped at once
        refused("could not be fetched", NAME)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("vit_base_patch16_244", "no backbone 'vit_base_patch16_244': did you mean vit_base_patch16_224"),
        ("vit_base_patch16_224.augreg_21k", "did you mean .*vit_base_patch16_224.augreg_in21k"),
        ("qqqq", "give a timm name such as .*, a .safetensors file, or random:WIDTHxDEPTH"),
        ("", "give a timm name"),
        ("random:", "there is no backbone ''"),
        ("random:vit_base", "there is no backbone 'vit_base': did you mean"),
        ("random:resnet18", "not a plain ViT"),
        ("random:100x2", "take a width that is a multiple of 32, and one block or more"),
        ("random:64x0", "one block or more"),
        ("random:0x2", "multiple of 32"),
        ("hf-hub:timm/vit_tiny", "there is no backbone"),
        ("vit_base_r26_s32_224", "timm has no weights for vit_base_r26_s32_224"),
    ],
)
def test_names_that_are_not(name: str, sentence: str) -> None:
    refused(sentence, name)


def test_options_that_cannot_be() -> None:
    refused("image_size=0 is no size", "random:64x1", image_size=0)
    refused("patches of 8.*32, not 30", "random:64x1", image_size=30)
    refused("patches of 16.*224, not 225", f"random:{NAME}", image_size=225)
    refused("normalize is 'half'", "random:64x1", normalize="half")
