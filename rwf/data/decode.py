"""From whatever holds a picture (a file's bytes, PIL, array, tensor) to one form: uint8, 3 H W, RGB."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from rwf.errors import UserError

# Only what Pillow reads by itself. Left to guess, it would also open formats that start other programs (EPS).
Image.init()
_WANTED = ("JPEG", "MPO", "PNG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "PPM", "JPEG2000", "AVIF")
FORMATS = tuple(name for name in _WANTED if name in Image.OPEN)  # a Pillow may be built without some of them
_COMMON = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".dib", ".webp", ".tif", ".tiff")
SUFFIXES = frozenset((*_COMMON, ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif"))


class BadImageError(UserError):
    """One picture cannot be read; a stream may leave it out and count it instead of ending."""


def decode(data: bytes, name: str) -> Tensor:
    """The picture in these bytes as uint8 3 H W in RGB; ``name`` stands in the sentence when it cannot be read.

    The strides are those of H W C memory, which resizing reads fastest.
    """
    if not data:
        raise BadImageError(f"the picture {name!r} is empty (0 bytes): replace or remove it.")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _refuse_bomb(image, name)
            image.load()
            return from_pil(image, name)
    except UserError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImageError(f"the picture {name!r} is too large to be unpacked safely: {error}") from error
    except Exception as error:  # Pillow's decoders raise nearly every kind of exception on damaged bytes
        raise BadImageError(
            f"the picture {name!r} cannot be read, it is damaged or no picture ({type(error).__name__}: "
            f"{_one_line(error)}): replace or remove it."
        ) from error


def _one_line(error: Exception) -> str:
    # Pillow names the BytesIO object in "cannot identify image file"; its address says nothing to anybody.
    text = " ".join(str(error).split())
    return "unknown format" if text.startswith("cannot identify image file") else text[:120]


def _refuse_bomb(image: Image.Image, name: str) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise BadImageError(
            f"the picture {name!r} has {image.width} x {image.height} pixels, more than the {limit} that are "
            "unpacked safely: shrink it, or raise PIL.Image.MAX_IMAGE_PIXELS if you trust it."
        )


def from_pil(image: Image.Image, name: str = "image") -> Tensor:
    """Any mode of Pillow as uint8 3 H W.

    Transparent pixels are laid onto white (most cut-outs were made for a white page; dropping alpha would show
    whatever colour lies under it). 16-bit grey is scaled, not clipped as Pillow's convert does. A rotation in
    EXIF is applied. Of several frames the first counts.
    """
    image = _upright(image)
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        wide = np.asarray(image).astype(np.uint32)
        grey = ((wide.clip(max=65535) * 255 + 32767) // 65535).astype(np.uint8)
        image = Image.fromarray(grey)
    elif image.mode in ("I", "F"):
        raise BadImageError(
            f"the picture {name!r} holds 32-bit numbers whose range is not defined: save it with 8 or 16 bits."
        )
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    if image.mode != "RGB":
        image = image.convert("RGB")
    return torch.from_numpy(np.array(image, dtype=np.uint8)).permute(2, 0, 1)  # 3 H W


def _upright(image: Image.Image) -> Image.Image:
    try:
        if image.getexif().get(0x0112, 1) == 1:
            return image
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF says nothing about the pixels
        return image


def to_picture(x: Any, name: str = "image") -> Tensor:
    """One picture of a person's own as uint8 3 H W (a copy: a reused camera buffer must not change the past).

    Accepted: PIL images; file paths and encoded bytes; arrays and tensors H W, H W C or C H W with 1, 3 or 4
    channels (4 = alpha, laid onto white), uint8 or floats in [0, 1]. Where both readings of the axes are
    possible, a tensor is C H W and an array is H W C.
    """
    if isinstance(x, Image.Image):
        _refuse_bomb(x, name)
        try:
            return from_pil(x, name)
        except UserError:
            raise
        except Exception as error:  # a lazily opened file that turns out to be damaged
            raise BadImageError(f"{name} cannot be read ({type(error).__name__}: {_one_line(error)}).") from error
    if isinstance(x, (bytes, bytearray, memoryview)):
        return decode(bytes(x), name)
    if isinstance(x, (str, os.PathLike)):
        return decode(read_bytes(x), os.fspath(x))
    is_tensor = isinstance(x, Tensor)
    tensor = _as_tensor(x, name)
    if tensor.ndim == 2:
        tensor = tensor[None]  # H W -> 1 H W
    elif tensor.ndim != 3:
        raise UserError(
            f"{name} has the shape {tuple(tensor.shape)}, but one picture is H W, H W C or C H W (C = 1, 3 or 4)."
        )
    elif not _channels_first(tensor.shape, is_tensor, name):
        tensor = tensor.permute(2, 0, 1)
    return _to_rgb8(tensor, name)


def to_pictures(images: Any) -> list[Tensor]:
    """A batch of pictures: a list (or any iterable) of what ``to_picture`` accepts, a stacked array or tensor
    N C H W or N H W C, or a single picture (PIL, path, bytes, or an array or tensor of 2 or 3 axes)."""
    if isinstance(images, (Image.Image, bytes, bytearray, memoryview, str, os.PathLike)):
        return [to_picture(images)]
    if isinstance(images, Tensor) or hasattr(images, "__array__"):
        is_tensor = isinstance(images, Tensor)
        stack = images if is_tensor else np.asarray(images)
        if stack.ndim == 4:
            return [to_picture(one, f"images[{i}]") for i, one in enumerate(stack)]
        if stack.ndim == 3 and not ({stack.shape[0], stack.shape[-1]} & {1, 3, 4}):
            raise UserError(
                f"images have the shape {tuple(stack.shape)}: give a stack of grey pictures a channel axis, N 1 H W."
            )
        return [to_picture(stack)]
    if not isinstance(images, Iterable):
        raise UserError(f"images are of the type {type(images).__name__}: give a list of pictures or an array N C H W.")
    return [to_picture(one, f"images[{i}]") for i, one in enumerate(images)]


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """A file's bytes, or a sentence."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadImageError(f"cannot read {os.fspath(path)!r}: {error.strerror or error}.") from error


def _as_tensor(x: Any, name: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach().cpu()
    try:
        array = np.asarray(x)
        if array.dtype.kind not in "fu" and array.dtype != np.uint8:
            raise TypeError(f"type {array.dtype}")
        return torch.from_numpy(np.array(array))  # a copy: own memory, writable, positive strides
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{name} is of the type {type(x).__name__} and cannot be read as a picture ({_one_line(error)}): "
            "give a PIL image, or an array or tensor, uint8 or floats in [0, 1]."
        ) from error


def _channels_first(shape: Iterable[int], is_tensor: bool, name: str) -> bool:
    first, _, last = shape
    readings = {"first": first in (1, 3, 4), "last": last in (1, 3, 4)}
    if not any(readings.values()):
        raise UserError(f"{name} has the shape {tuple(shape)}, where no axis has 1, 3 or 4 channels.")
    return readings["first"] if is_tensor else not readings["last"]


def _to_rgb8(tensor: Tensor, name: str) -> Tensor:
    if 0 in tensor.shape:
        raise UserError(f"{name} has the shape {tuple(tensor.shape)} and so no pixels.")
    if tensor.is_floating_point():
        low, high = tensor.min().item(), tensor.max().item()
        if not (low >= 0.0 and high <= 1.0):  # also catches NaN
            raise UserError(
                f"{name} holds floats from {low:.4g} to {high:.4g}, but floats must lie in [0, 1]: give the picture "
                "before it was normalised, or uint8 from 0 to 255."
            )
        tensor = tensor.float().mul(255).round().to(torch.uint8)
    elif tensor.dtype != torch.uint8:
        raise UserError(f"{name} holds numbers of the type {tensor.dtype}: give uint8, or floats in [0, 1].")
    if tensor.shape[0] == 4:
        alpha = tensor[3:].float() / 255
        tensor = (tensor[:3].float() * alpha + 255 * (1 - alpha)).round().to(torch.uint8)
    hwc = tensor.expand(3, -1, -1).permute(1, 2, 0).clone(memory_format=torch.contiguous_format)  # H W 3
    return hwc.permute(2, 0, 1)  # 3 H W
