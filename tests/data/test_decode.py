"""Every kind of picture becomes uint8 3 H W in RGB, or one sentence with its name."""

from __future__ import annotations

import io
import random
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from PIL import Image

from rwf.data.decode import BadImageError, decode, to_picture, to_pictures
from rwf.errors import UserError
from tests.data.make import pixels, png


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def hwc(picture: torch.Tensor) -> np.ndarray:
    assert picture.dtype == torch.uint8
    assert picture.shape[0] == 3
    return picture.permute(1, 2, 0).numpy()


def test_rgb_is_read_as_it_is() -> None:
    assert np.array_equal(hwc(decode(png(1, 5, 7), "x")), pixels(1, 5, 7))


def test_grey_palette_and_bilevel() -> None:
    grey = Image.fromarray(pixels(2)[..., 0])
    assert np.array_equal(hwc(decode(encoded(grey), "x")), np.repeat(pixels(2)[..., :1], 3, axis=2))
    palette = Image.fromarray(pixels(3)).quantize(17)
    assert np.array_equal(hwc(decode(encoded(palette), "x")), np.asarray(palette.convert("RGB")))
    bilevel = grey.convert("1")
    assert set(np.unique(hwc(decode(encoded(bilevel), "x")))) <= {0, 255}


def test_cmyk_comes_out_in_rgb() -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    assert np.abs(hwc(decode(encoded(red, "JPEG", quality=95), "x")).astype(int) - [255, 0, 0]).max() <= 8
    assert np.array_equal(hwc(decode(encoded(red, "TIFF"), "x")), np.full((16, 16, 3), [255, 0, 0]))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_grey_is_scaled_not_clipped(kind: str) -> None:
    wide = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    got = hwc(decode(encoded(Image.fromarray(wide), kind), "x"))
    assert got[0].tolist() == [[v, v, v] for v in (0, 1, 128, 255)]


def test_transparency_is_laid_onto_white() -> None:
    rgba = np.zeros((1, 3, 4), dtype=np.uint8)
    rgba[0, :, 3] = [0, 255, 51]  # black: invisible, solid, a fifth
    for kind in ("PNG", "TIFF"):
        assert hwc(decode(encoded(Image.fromarray(rgba), kind), "x"))[0, :, 0].tolist() == [255, 0, 204]
    palette = Image.fromarray(np.array([[0, 1]], dtype=np.uint8), "P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    got = hwc(decode(encoded(palette, transparency=0), "x"))
    assert got.tolist() == [[[255, 255, 255], [40, 50, 60]]]
    grey = Image.fromarray(np.array([[7, 9]], dtype=np.uint8))
    assert hwc(decode(encoded(grey, transparency=7), "x"))[0, :, 0].tolist() == [255, 9]


@pytest.mark.parametrize(("orientation", "turn"), [(1, None), (3, 2), (6, -1), (8, 1)])
def test_exif_rotation_is_applied(orientation: int, turn: int | None) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    got = hwc(decode(encoded(Image.fromarray(pixels(4, 5, 7)), exif=exif), "x"))
    assert np.array_equal(got, pixels(4, 5, 7) if turn is None else np.rot90(pixels(4, 5, 7), turn))


@pytest.mark.filterwarnings("ignore:::PIL")
def test_damaged_exif_does_not_cost_the_picture() -> None:
    assert decode(encoded(Image.fromarray(pixels(5)), exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff"), "x").shape == (3, 8, 8)


def test_of_several_frames_the_first_counts() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert hwc(decode(data, "x"))[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    "data",
    [b"", b"no picture", png(1)[:-30], png(1)[:20], b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 1 1\n"],
    ids=["empty", "text", "truncated", "head only", "postscript"],
)
def test_damaged_files_are_one_sentence_with_the_name(data: bytes) -> None:
    with pytest.raises(BadImageError, match=r"dogs/Bär\.png") as caught:
        decode(data, "dogs/Bär.png")
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)  # no addresses of objects


def bomb(width: int, height: int) -> bytes:
    """A PNG that says it is huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [10_000, 100_000])  # Pillow warns of the first, refuses the second
@pytest.mark.parametrize("warned", ["error", "ignore"])
def test_a_decompression_bomb_is_refused_before_it_is_unpacked(side: int, warned: Literal["error", "ignore"]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(warned)
        with pytest.raises(BadImageError, match=r"'b\.png' .*pixels"):
            decode(bomb(side, side), "b.png")


def test_numbers_without_a_range_are_refused() -> None:
    with pytest.raises(BadImageError, match="range is not defined"):
        decode(encoded(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF"), "x")


FORMS: list[tuple[str, str, dict[str, Any]]] = [
    ("RGB", "PNG", {}),
    ("P", "PNG", {}),
    ("LA", "PNG", {}),
    ("RGB", "JPEG", {}),
    ("CMYK", "JPEG", {"progressive": True}),
    ("RGB", "BMP", {}),
    ("P", "GIF", {}),
    ("RGB", "WEBP", {}),
    ("RGB", "TIFF", {"compression": "tiff_lzw"}),
    ("RGB", "PPM", {}),
]
SEEDS = [encoded(Image.fromarray(pixels(6, 12, 10)).convert(mode), kind, **options) for mode, kind, options in FORMS]


def damage(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    kind = rng.randrange(4)
    at = rng.randrange(len(broken))
    if kind == 0:
        del broken[at:]
    elif kind == 1:
        del broken[at : at + rng.randrange(1, 20)]
    elif kind == 2:
        broken[at:at] = rng.randbytes(rng.randrange(1, 20))
    else:
        for _ in range(rng.choice([1, 2, 5, 30])):
            reach = min(len(broken), rng.choice([40, 400, 10**6]))
            broken[rng.randrange(reach)] = rng.choice([0, 255, 127, rng.randrange(256)])
    return bytes(broken)


@pytest.mark.filterwarnings("ignore:::PIL")
def test_damaged_bytes_never_give_anything_but_a_picture_or_a_sentence() -> None:
    rng = random.Random(0)
    read = refused = 0
    for _ in range(3000):
        try:
            picture = decode(damage(rng.choice(SEEDS), rng), "x")
        except UserError:
            refused += 1
        else:
            assert picture.dtype == torch.uint8
            assert picture.shape[0] == 3
            assert picture.numel()
            read += 1
    assert read > 300
    assert refused > 300


def test_one_picture_in_every_form_a_person_may_hold(tmp_path: Path) -> None:
    array = pixels(7, 5, 7)
    expected = torch.from_numpy(array).permute(2, 0, 1)
    (tmp_path / "a.png").write_bytes(png(7, 5, 7))
    forms = [
        array,
        array.transpose(2, 0, 1),
        array[:, ::-1][:, ::-1],  # negative strides
        array.astype(np.float64) / 255,
        expected,
        expected.float() / 255,
        (expected.double() / 255).requires_grad_(),
        expected.permute(1, 2, 0),
        Image.fromarray(array),
        png(7, 5, 7),
        tmp_path / "a.png",
        str(tmp_path / "a.png"),
    ]
    for form in forms:
        assert torch.equal(to_picture(form), expected)
        assert [p.tolist() for p in to_pictures([form, form])] == [expected.tolist()] * 2
    grey = array[..., 0]
    for form in (grey, grey[None], grey[..., None], torch.from_numpy(grey)):
        assert torch.equal(to_picture(form), torch.from_numpy(grey).expand(3, 5, 7))
    alpha = np.concatenate([array, np.zeros((5, 7, 1), np.uint8)], axis=2)
    assert (to_picture(alpha) == 255).all()


def test_stacks_and_single_pictures() -> None:
    stack = np.stack([pixels(i, 5, 7) for i in range(4)])
    expected = [torch.from_numpy(p).permute(2, 0, 1) for p in stack]
    for form in (stack, stack.transpose(0, 3, 1, 2), torch.from_numpy(stack), list(stack), iter(stack), tuple(stack)):
        assert [p.tolist() for p in to_pictures(form)] == [p.tolist() for p in expected]
    assert torch.equal(to_pictures(stack[0])[0], expected[0])
    assert torch.equal(to_pictures(Image.fromarray(stack[0]))[0], expected[0])
    assert to_pictures([]) == []
    assert to_pictures(np.zeros((0, 3, 4, 4), np.uint8)) == []


def test_square_colour_axes_are_read_as_documented() -> None:
    cube = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    assert np.array_equal(to_picture(torch.from_numpy(cube)).numpy(), cube)
    assert np.array_equal(to_picture(cube).numpy(), cube.transpose(2, 0, 1))


def test_the_picture_is_a_copy() -> None:
    for form in (pixels(8), torch.from_numpy(pixels(8)).permute(2, 0, 1).clone()):
        picture = to_picture(form)
        form[:] = 0
        assert picture.any()


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (np.zeros((5, 5, 2), np.uint8), "no axis"),
        (np.zeros(4, np.uint8), "shape"),
        (np.zeros((2, 3, 4, 4, 1), np.uint8), "shape"),
        (np.zeros((4, 4, 3), np.int64), "uint8"),
        (np.zeros((4, 4, 3), np.uint16), "uint8"),
        (torch.zeros(3, 4, 4, dtype=torch.int64), "uint8"),
        (np.full((4, 4, 3), 2.0), r"\[0, 1\]"),
        (np.full((4, 4, 3), -0.1), r"\[0, 1\]"),
        (np.full((4, 4, 3), np.nan), r"\[0, 1\]"),
        (np.zeros((0, 4, 3), np.uint8), "no pixels"),
        (None, "NoneType"),
        ("no/such/file.png", "no/such/file.png"),
    ],
)
def test_what_is_no_picture_is_a_sentence(bad: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        to_picture(bad)


def test_a_grey_stack_needs_its_channel_axis() -> None:
    with pytest.raises(UserError, match="N 1 H W"):
        to_pictures(np.zeros((5, 8, 8), np.uint8))
    with pytest.raises(UserError, match="int"):
        to_pictures(3)
