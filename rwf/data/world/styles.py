"""The styles of the stream: each draws a silhouette, with a background of its own, from integers of its dice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import Image, ImageChops

from rwf.data.world import ink
from rwf.data.world.dice import Colour, Dice, mix
from rwf.data.world.ink import CANVAS, Mask, Picture

Style = Callable[[Mask, Dice], Picture]


def outline(mask: Mask, dice: Dice) -> Picture:
    """Only the contour."""
    back, line = dice.pair(90)
    return ink.over(ink.flat(back), line, ink.rim(mask, dice.integer(1, 2), dice.integer(1, 2)))


def hatched(mask: Mask, dice: Dice) -> Picture:
    """Filled with parallel lines, on paper; now and then crossed the other way."""
    paper, pen = dice.colour(170), dice.colour(0, 90)
    angle, period = dice.integer(0, 179), dice.integer(6, 9)
    lines = ink.stripes(angle, period, period // 2)
    if dice.chance(40):
        lines = ImageChops.lighter(lines, ink.stripes(angle + dice.integer(60, 120), period + 1, period // 3))
    return ink.over(ink.grain(ink.flat(paper), dice, 10), pen, ink.both(mask, lines))


def stippled(mask: Mask, dice: Dice) -> Picture:
    """Ink dots, dense inside and sparse outside."""
    paper, pen = dice.pair(120)
    n = CANVAS // 2
    dots = Image.fromarray(dice.bytes(n, n)).resize((CANVAS, CANVAS), Image.Resampling.NEAREST)
    dense, sparse = ink.threshold(dots, dice.integer(80, 110)), ink.threshold(dots, dice.integer(238, 250))
    return ink.over(ink.flat(paper), pen, Image.composite(dense, sparse, mask))


def embossed(mask: Mask, dice: Dice) -> Picture:
    """One material; light, shade and a faint groove show the shape."""
    stuff = dice.colour(70, 180)
    by, side = dice.integer(2, 3), dice.one((-1, 1))
    soft = ink.blur(mask, 1)
    light = ImageChops.subtract(ink.shift(soft, -side * by, -by), ink.shift(soft, side * by, by))
    shade = ImageChops.subtract(ink.shift(soft, side * by, by), ink.shift(soft, -side * by, -by))
    picture = ink.grain(ink.flat(stuff), dice, 14)
    ink.over(picture, mix(stuff, (0, 0, 0), 50), ink.blend(ink.rim(mask, 1, 0), 50))
    ink.over(picture, mix(stuff, (255, 255, 255), 75), light)
    return ink.over(picture, mix(stuff, (0, 0, 0), 75), shade)


def neon(mask: Mask, dice: Dice) -> Picture:
    """A glowing tube along the contour, before a dark wall."""
    wall, gas = dice.colour(5, 50), dice.colour(120, 220)
    picture = ink.flat(wall)
    if dice.chance(50):
        ink.over(picture, mix(wall, (0, 0, 0), 60), ink.stripes(90, dice.integer(14, 22), 2))
    tube = ink.rim(mask, 2, 1)
    glow = ink.blur(ink.grow(tube, 2), dice.integer(4, 7))
    ink.over(picture, gas, ink.blend(glow, 80))
    ink.over(picture, gas, tube)
    return ink.over(picture, mix(gas, (255, 255, 255), 80), ink.shrink(ink.rim(mask, 2, 2), 1))


def chalk(mask: Mask, dice: Dice) -> Picture:
    """Broken strokes on a wiped board."""
    board = dice.one(((34, 60, 46), (38, 42, 50), (28, 44, 70), (60, 44, 40)))
    dust = dice.one(((235, 235, 225), (240, 220, 150), (235, 180, 190), (170, 210, 235)))
    picture = ink.over(ink.flat(board), (150, 150, 150), ink.blend(ink.noise(dice, 32), dice.integer(15, 35)))
    rough = ink.threshold(
        ImageChops.add(ink.noise(dice, 2), ink.blend(ink.noise(dice, 12), 60), 2), dice.integer(50, 72)
    )
    wobbly = ink.threshold(ImageChops.add(ink.blur(mask, 1), ink.blend(ink.noise(dice, 5), 60)), 155)
    return ink.over(picture, dust, ink.both(wobbly, rough))


def sketchy(mask: Mask, dice: Dice) -> Picture:
    """The contour drawn three times by an unsteady pencil, on paper that may be ruled."""
    paper, pencil = dice.colour(200), dice.colour(20, 100)
    picture = ink.flat(paper)
    if dice.chance(60):
        rule = ink.stripes(dice.one((0, 90)), dice.integer(12, 20), 1)
        ink.over(picture, mix(paper, (90, 120, 190), 45), rule)
    for _ in range(3):
        size = 2 * dice.integer(61, 67)
        again = mask.resize((size, size), Image.Resampling.BILINEAR).rotate(dice.integer(-4, 4))
        again = ink.shift(again.crop((0, 0, CANVAS, CANVAS)), dice.integer(-2, 2), dice.integer(-2, 2))
        ink.over(picture, pencil, ink.blend(ink.rim(again, 1, 0), dice.integer(60, 95)))
    return picture


def mosaic(mask: Mask, dice: Dice) -> Picture:
    """Square stones with joints; every stone has its own shade."""
    back, stone = dice.pair(100)
    tile = dice.integer(4, 6)
    n = -(-CANVAS // tile)
    whole = ink.over(ink.flat(back), stone, mask).resize((n, n), Image.Resampling.BOX)
    jitter = dice.bytes(n, n, 3).astype(np.int16) // 5 - 25
    shades = Image.fromarray(np.clip(np.asarray(whole, dtype=np.int16) + jitter, 0, 255).astype(np.uint8))
    picture = shades.resize((n * tile, n * tile), Image.Resampling.NEAREST).crop((0, 0, CANVAS, CANVAS))
    joints = ImageChops.lighter(ink.stripes(0, tile, 1), ink.stripes(90, tile, 1))
    return ink.over(picture, dice.colour(), ink.blend(joints, 50))


def gradient(mask: Mask, dice: Dice) -> Picture:
    """Both the symbol and the ground run from one colour to another."""
    low, high = [dice.colour(0, 85) for _ in "ab"], [dice.colour(150) for _ in "ab"]
    back, front = (low, high) if dice.chance(50) else (high, low)
    return ink.over(ink.ramp(dice, back[0], back[1]), ink.ramp(dice, front[0], front[1]), mask)


def counterchange(mask: Mask, dice: Dice) -> Picture:
    """Two colours that change roles along a straight border, or two: the negative of itself."""
    one, two = dice.pair(110)
    period = dice.integer(100, 180)
    fields = ink.stripes(dice.integer(0, 359), period, period // 2, dice.integer(0, 179))
    return ink.over(ink.flat(one), two, ImageChops.difference(fields, mask))


def cut_paper(mask: Mask, dice: Dice) -> Picture:
    """Cut out with a knife, a pale rim, a shadow on sheets of other paper."""
    sheet, shape = dice.pair(60)
    picture = ink.flat(sheet)
    for _ in range(dice.integer(1, 3)):
        half = ink.mask_of(ink.along(dice.integer(0, 359)) > 64 * dice.integer(10, 90))
        ink.over(picture, dice.near(sheet, 30), half)
    edge = mask.resize((CANVAS // 5, CANVAS // 5), Image.Resampling.BOX).resize(mask.size, Image.Resampling.BILINEAR)
    knife = ink.threshold(ImageChops.blend(edge, mask, 0.4), 110)
    rim = ink.grow(knife, dice.integer(0, 2))
    ink.over(picture, (0, 0, 0), ink.blend(ink.blur(ink.shift(rim, dice.integer(2, 5), dice.integer(2, 5)), 2), 60))
    ink.over(picture, (245, 240, 230), rim)
    return ink.grain(ink.over(picture, shape, knife), dice, 8)


def watercolour(mask: Mask, dice: Dice) -> Picture:
    """A wash that bleeds, darker where it dried at the rim."""
    paper, paint = dice.colour(215), dice.colour(40, 150)
    wet = ImageChops.add(ink.blur(mask, 2), ink.blend(ink.noise(dice, 8), 60))
    body = ink.blur(ink.threshold(wet, dice.integer(165, 195)), 1)
    picture = ink.grain(ink.flat(paper), dice, 8)
    ink.over(picture, dice.near(paper, 40), ink.blend(ink.noise(dice, 32), 60))
    ink.over(picture, paint, ink.both(body, ink.noise(dice, 16).point([110 + v // 3 for v in range(256)])))
    return ink.over(picture, mix(paint, (0, 0, 0), 30), ink.blend(ink.rim(body, 0, 1), 70))


def halftone(mask: Mask, dice: Dice) -> Picture:
    """A screen of round dots, big inside and small outside."""
    paper, pen = dice.pair(100)
    cell, angle = dice.integer(6, 8), dice.integer(0, 89)
    u, v = (ink.along(angle + turn) % (64 * cell) - 32 * cell for turn in (0, 90))
    tone = np.asarray(ink.blur(mask, 1), dtype=np.int32)
    radius = 32 * cell * (40 + tone * 75 // 255) // 100
    return ink.over(ink.flat(paper), pen, ink.mask_of(u * u + v * v < radius * radius))


def camouflage(mask: Mask, dice: Dice) -> Picture:
    """Patches of three greens (or reds, blues) on patches of three others."""
    back, front = dice.pair(70)

    def patches(colour: Colour) -> Picture:
        picture = ink.flat(colour)
        for _ in "ab":
            ink.over(picture, dice.near(colour, 45), ink.threshold(ink.noise(dice, dice.integer(10, 16)), 140))
        return picture

    return ink.over(patches(back), patches(front), mask)


def glitch(mask: Mask, dice: Dice) -> Picture:
    """A broken screen: the colour channels apart, bands of rows displaced, scan lines."""
    back, front = dice.pair(100)
    bands = np.asarray(mask).copy()
    for _ in range(dice.integer(2, 4)):
        top = dice.integer(0, CANVAS - 20)
        rows = slice(top, top + dice.integer(5, 14))
        bands[rows] = np.roll(bands[rows], dice.integer(-12, 12), axis=1)
    torn = Image.fromarray(bands)
    by = dice.integer(2, 5)
    split = Image.merge("RGB", [ink.shift(torn, d, 0) for d in (-by, 0, by)])
    picture = ImageChops.add(
        ImageChops.multiply(ink.flat(front), split), ImageChops.multiply(ink.flat(back), ImageChops.invert(split))
    )
    return ink.over(picture, (0, 0, 0), ink.blend(ink.stripes(90, 4, 2), dice.integer(15, 40)))


def stained_glass(mask: Mask, dice: Dice) -> Picture:
    """Panes with lead between them; the panes of the symbol and those of the ground keep to two colours."""
    back, front = dice.pair(80)
    cells = ink.nearest(dice, dice.integer(14, 26))
    shades = dice.bytes(int(cells.max()) + 1, 3).astype(np.int16) * 70 // 256 - 35
    inside = np.asarray(ink.threshold(mask, 128)) > 0
    ground = np.where(inside[..., None], np.array(front), np.array(back)).astype(np.int16)
    picture = Image.fromarray(np.clip(ground + shades[cells], 0, 255).astype(np.uint8))
    ink.over(picture, (20, 20, 24), ink.borders(cells))
    return ink.over(picture, (20, 20, 24), ink.rim(mask, 2, 0))


def extruded(mask: Mask, dice: Dice) -> Picture:
    """A solid letter seen from one side."""
    back, face = dice.pair(60)
    side = mix(face, (0, 0, 0), dice.integer(45, 70))
    right, down = dice.one(((1, 1), (-1, 1), (1, -1), (-1, -1)))
    picture = ink.ramp(dice, back, dice.near(back, 40))
    for step in range(dice.integer(7, 12), 0, -1):
        ink.over(picture, side, ink.shift(mask, right * step, down * step))
    return ink.over(picture, face, mask)


def stitched(mask: Mask, dice: Dice) -> Picture:
    """Dashed thread along the contour and a sparse filling, on woven cloth."""
    cloth, thread = dice.pair(90)
    picture = ink.flat(cloth)
    weave = ImageChops.difference(ink.stripes(0, 4, 2), ink.stripes(90, 4, 2))
    ink.over(picture, mix(cloth, (0, 0, 0), 22), weave)
    angle = dice.integer(0, 89)
    gaps = ImageChops.difference(ink.stripes(angle, 16, 8), ink.stripes(angle + 90, 16, 8))
    ink.over(picture, thread, ink.both(ink.rim(mask, 2, 1), ink.blend(gaps, 100)))
    ink.over(picture, mix(thread, cloth, 35), ink.both(ink.rim(mask, 1, 1), ImageChops.invert(gaps)))
    return ink.over(picture, thread, ink.both(mask, ink.stripes(angle + 45, 10, 3)))


def sprayed(mask: Mask, dice: Dice) -> Picture:
    """Paint from a can through a stencil, on a brick wall."""
    brick, paint = dice.pair(80)
    high, wide = dice.integer(12, 18), dice.integer(26, 40)
    x, y = ink.grid()
    joints = ink.mask_of((y % high < 2) | ((x + (y // high % 2) * wide // 2) % wide < 2))
    picture = ink.over(ink.grain(ink.flat(brick), dice, 18), mix(brick, (200, 195, 190), 55), joints)
    cloud = ImageChops.add(ink.blur(mask, dice.integer(2, 4)), ink.noise(dice, 1), 2)
    return ink.over(picture, paint, ink.blend(ink.threshold(cloud, dice.integer(140, 160)), 90))


def engraved(mask: Mask, dice: Dice) -> Picture:
    """Wavy lines all over; inside the symbol they are thick, outside thin."""
    paper, pen = dice.pair(110)
    period, wave = dice.integer(6, 8), dice.integer(0, 3)
    angle = dice.integer(0, 179)
    bend = np.abs(ink.along(angle + 90) // 64 % 48 - 24) * wave * 64 // 12
    phase = (ink.along(angle) + bend) % (64 * period)
    tone = np.asarray(ink.blur(mask, 1), dtype=np.int32)
    width = 64 * period * (15 + tone * 62 // 255) // 100
    return ink.over(ink.flat(paper), pen, ink.mask_of(phase < width))


STYLES: dict[str, Style] = {
    style.__name__: style
    for style in (
        outline,
        hatched,
        stippled,
        embossed,
        neon,
        chalk,
        sketchy,
        mosaic,
        gradient,
        counterchange,
        cut_paper,
        watercolour,
        halftone,
        camouflage,
        glitch,
        stained_glass,
        extruded,
        stitched,
        sprayed,
        engraved,
    )
}


def occlude(picture: Picture, mask: Mask, dice: Dice) -> Picture:
    """Now and then something lies on top; it hides at most a fifth of the symbol, or is left away."""
    if not dice.chance(40):
        return picture
    x, y = ink.grid()
    at_x, at_y, size = dice.integer(20, 107), dice.integer(20, 107), dice.integer(12, 26)
    kind = dice.one(("bar", "disc", "box"))
    if kind == "bar":
        where = np.abs(ink.along(dice.integer(0, 179)) - 64 * dice.integer(40, 90)) < 64 * size // 4
    elif kind == "disc":
        where = (x - at_x) ** 2 + (y - at_y) ** 2 < size * size * 2 // 3
    else:
        where = (np.abs(x - at_x) < size * 3 // 4) & (np.abs(y - at_y) < size // 2)
    shape = np.asarray(mask) > 127
    if 5 * int((where & shape).sum()) > int(shape.sum()):
        return picture
    return ink.over(picture, dice.colour(), ink.mask_of(where))


def draw(mask: Mask, style: str, dice: Dice) -> Picture:
    """The 64 x 64 picture of a silhouette in a style."""
    picture = occlude(STYLES[style](mask, dice), mask, dice)
    return picture.reduce(2)
