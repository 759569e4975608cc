"""From a name to a frozen ViT: weights of timm, of a safetensors file, or drawn from a seed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

import timm
import torch
from safetensors import SafetensorError, safe_open
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import Tensor

from rwf.errors import UserError
from rwf.registry import BACKBONES
from rwf.seeds import hash32
from rwf.vit.door import check_plain
from rwf.vit.forward import Statistics, ViT

Normalize = Literal["weights", "none"]

SHIPPED: dict[str, Path] = {name: Path(__file__).parent / "shipped" / f"{name}.safetensors" for name in BACKBONES}
"""Weights that come with the package."""

_SIZES = ("img_size", "patch_size", "embed_dim", "depth", "num_heads")
"""What the metadata of a weights file may say about sizes in which it differs from its architecture."""
_FORMS = "a timm name such as vit_base_patch16_224.augreg_in21k, a .safetensors file, or random:WIDTHxDEPTH"
_FAMILIES = ["vision_transformer", "deit", "vision_transformer_hybrid"]  # timm's modules that hold plain ViTs

Found = tuple[VisionTransformer, Statistics | None, Statistics | None]  # model, mean, std


def load_backbone(
    name: str,
    *,
    image_size: int | None = None,
    normalize: Normalize = "weights",
    pretrained: bool = True,
    seed: int = 0,
) -> ViT:
    """The frozen ViT of that name.

    ``name`` is a timm name (its weights are downloaded once; ``pretrained=False`` draws them), ``PATH.safetensors``
    (with metadata ``architecture``, ``mean``, ``std`` and sizes in which it differs from it),
    ``TIMM_NAME@PATH.safetensors`` for a file that does not say what it holds, ``random:WIDTHxDEPTH`` (patch 8,
    pictures 32 x 32, heads of 32) or ``random:TIMM_NAME``. ``seed`` counts for drawn weights only. With an
    ``image_size`` other than the weights' own the position embeddings are resampled by timm. ``normalize="none"``
    leaves pictures in [0, 1].
    """
    if normalize not in ("weights", "none"):
        raise UserError(f"normalize is {normalize!r}; choose 'weights' or 'none'.")
    if image_size is not None and image_size < 1:
        raise UserError(f"image_size={image_size} is no size: take a positive number of pixels.")
    if name in SHIPPED:
        model, mean, std = _from_file(SHIPPED[name], "", image_size)
    elif name.startswith("random:"):
        model, mean, std = _random(name.removeprefix("random:"), image_size, seed)
    elif name.endswith(".safetensors"):
        architecture, at, file = name.partition("@")
        if not at or "/" in architecture or Path(name).is_file():  # the @, if any, belongs to the path
            architecture, file = "", name
        model, mean, std = _from_file(Path(file).expanduser(), architecture, image_size)
    elif pretrained:
        name, model, mean, std = _pretrained(name, image_size)
    else:
        model, mean, std = _random(name, image_size, seed)
    if normalize == "none":
        mean = std = None
    return ViT(model, name=name, mean=mean, std=std)


def _random(what: str, image_size: int | None, seed: int) -> Found:
    """Drawn weights: of a small ViT, or of a ViT of timm."""
    width, by, depth = what.partition("x")
    if not (by and width.isdecimal() and depth.isdecimal()):
        _plan(what, what, image_size)
        return _with_statistics(_quietly(lambda: timm.create_model(what, num_classes=0, **_sized(image_size)), seed))
    heads = max(1, int(width) // 32)
    if int(width) % heads or not int(width) or not int(depth):
        raise UserError(f"random:{what} cannot be built: take a width that is a multiple of 32, and one block or more.")
    arguments: dict[str, Any] = {
        "embed_dim": int(width),
        "depth": int(depth),
        "num_heads": heads,
        "patch_size": 8,
        "num_classes": 0,
    }
    arguments |= _sized(image_size or 32)
    _check_size(f"random:{what}", arguments["img_size"], 8)
    half = (0.5, 0.5, 0.5)  # as timm has it for ViTs
    return _quietly(lambda: VisionTransformer(**arguments), seed), half, half


def _pretrained(name: str, image_size: int | None) -> tuple[str, Any, Statistics | None, Statistics | None]:
    """The full name and timm's weights; whether they would do is asked before anything is downloaded."""
    cfg = _plan(name, name, image_size).pretrained_cfg
    name = f"{cfg['architecture']}.{cfg['tag']}"  # which weights a bare or an old name stands for
    if not timm.is_model_pretrained(name):
        raise UserError(f"timm has no weights for {name}: choose a name with weights, or random:{name} without.")
    try:
        # with the classifier of the weights: only then does timm insist that every tensor is in the file
        model = _quietly(lambda: timm.create_model(name, pretrained=True, **_sized(image_size)))
    except Exception as error:  # the hub's client raises whatever its network library raises
        why = f"{type(error).__name__}, {shorten(str(error), 90)}"
        raise UserError(
            f"the weights of {name} could not be fetched ({why}): load them once where there is a network and copy the "
            f"cache (HF_HOME), or give a file as {cfg['architecture']}@PATH.safetensors."
        ) from error
    return name, *_with_statistics(model)


def _from_file(path: Path, architecture: str, image_size: int | None) -> Found:
    """Weights of a safetensors file, all of them and no others, in single precision."""
    if not path.is_file():
        raise UserError(f"there is no weights file {path}: give the path of a .safetensors file.")
    try:
        with safe_open(path, "pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            state: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged or no safetensors file ({error}): get it again.") from error
    architecture = architecture or metadata.get("architecture", "")
    if not architecture:
        raise UserError(f"{path} does not say which architecture it holds: write TIMM_NAME@{path}.")
    arguments = {key: _number(path, metadata, key) for key in _SIZES if key in metadata}
    model = _plan(architecture, f"{architecture} in {path}", None, **arguments)
    native = _native_size(state, model)
    if native and "img_size" not in metadata:
        model = _plan(architecture, f"{architecture} in {path}", None, **arguments, img_size=native)
    _fill(model, state, path)
    if image_size is not None and image_size != model.patch_embed.img_size[0]:
        _check_size(str(path), image_size, model.patch_embed.feat_ratio())
        model.set_input_size(img_size=(image_size, image_size))
    _, mean, std = _with_statistics(model)
    return model, _triple(path, metadata, "mean") or mean, _triple(path, metadata, "std") or std


def _fill(model: VisionTransformer, state: dict[str, Tensor], path: Path) -> None:
    """Gives a model without numbers those of a state, or says in one sentence why the state is not this model's."""
    model.reset_classifier(0)
    expected = model.state_dict()
    state = _body(state)
    if state.keys() != expected.keys():
        try:  # timm knows the names in many original files
            state = _body(checkpoint_filter_fn(state, model))
        except Exception as error:
            raise UserError(f"{path} holds weights in a form that timm does not know: convert them first.") from error
    wrong = sorted(expected.keys() ^ state.keys())
    if wrong:
        how = "is missing" if wrong[0] in expected else "is not part of this architecture"
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UserError(f"{path} does not fit: {wrong[0]} {how}{more}; name the architecture it holds.")
    for key, value in state.items():
        is_, should = (" x ".join(map(str, tensor.shape)) for tensor in (value, expected[key]))
        if is_ != should:
            raise UserError(
                f"{path} does not fit: {key} is {is_} and should be {should}; name the architecture it holds."
            )
        if value.is_floating_point() and not value.isfinite().all():
            raise UserError(f"{path} is damaged, {key} holds numbers that are not finite: get the file again.")
    # copies, because a tensor of the file may still be the file itself
    model.load_state_dict({k: v.to(expected[k].dtype, copy=True) for k, v in state.items()}, strict=True, assign=True)


def _plan(architecture: str, name: str, image_size: int | None, **arguments: int) -> Any:
    """The model on the meta device, where it costs nothing: known, plain, able to take pictures of that size."""
    if not timm.is_model(architecture):
        raise _unknown(architecture)
    with torch.device("meta"):
        try:
            model: Any = timm.create_model(architecture)
        except RuntimeError as error:  # a tag that timm does not know
            raise _unknown(architecture) from error
        check_plain(model)
        if arguments:
            size, patch = arguments.get("img_size"), arguments.get("patch_size") or model.patch_embed.feat_ratio()
            _check_size(name, size or patch, patch)
            try:
                model = timm.create_model(architecture, **dict[str, Any](arguments))
            except (RuntimeError, TypeError, ValueError, AssertionError) as error:
                given = ", ".join(f"{key}={value}" for key, value in arguments.items())
                raise UserError(f"timm cannot build {name} with {given}: correct the metadata.") from error
    if image_size is not None:
        _check_size(name, image_size, model.patch_embed.feat_ratio())
    return model


def _quietly(build: Callable[[], Any], seed: int = 0) -> Any:
    """What is built, its initial numbers drawn from the seed and not from anybody else's generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(hash32(seed, "backbone"))
        return build()


def _sized(image_size: int | None) -> dict[str, Any]:
    return {} if image_size is None else {"img_size": image_size}


def _body(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state without the classifier."""
    return {key: value for key, value in state.items() if not key.startswith("head.")}


def _native_size(state: dict[str, Tensor], model: Any) -> int:
    """The picture size that position embeddings were made for, or 0 where they do not tell."""
    embedding = state.get("pos_embed")
    if embedding is None or embedding.ndim != 3:
        return 0
    patches = embedding.shape[1] - (0 if model.no_embed_class else model.num_prefix_tokens)
    side: int = math.isqrt(max(0, patches)) * model.patch_embed.feat_ratio()
    return side


def _with_statistics(model: Any) -> Found:
    """The model with the mean and standard deviation its weights were trained with."""
    return model, tuple(model.pretrained_cfg["mean"]), tuple(model.pretrained_cfg["std"])


def _check_size(name: str, size: int, patch: int) -> None:
    if size % patch:
        nearest = max(patch, round(size / patch) * patch)
        raise UserError(
            f"{name} cuts pictures into patches of {patch}: take an image size such as {nearest}, not {size}."
        )


def _number(path: Path, metadata: dict[str, str], key: str) -> int:
    if not metadata[key].isdecimal() or int(metadata[key]) < 1:
        raise UserError(f"the metadata of {path} is wrong: {key} is {metadata[key]!r} instead of a number.")
    return int(metadata[key])


def _triple(path: Path, metadata: dict[str, str], key: str) -> Statistics | None:
    if key not in metadata:
        return None
    try:
        a, b, c = map(float, metadata[key].split(","))
    except ValueError:
        a = b = c = math.nan
    if not all(map(math.isfinite, (a, b, c))) or (key == "std" and min(a, b, c) <= 0):
        wanted = "three numbers above 0" if key == "std" else "three numbers"
        raise UserError(f"the metadata of {path} is wrong: {key} is {metadata[key]!r} instead of {wanted}.")
    return a, b, c


def _unknown(name: str) -> UserError:
    known = [*SHIPPED, *timm.list_models(module=_FAMILIES), *timm.list_models(module=_FAMILIES, pretrained=True)]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    meant = f"did you mean {' or '.join(close)}?" if close else f"give {_FORMS}."
    return UserError(f"there is no backbone {name!r}: {meant}")
