from dataclasses import replace

import numpy as np
from numpy.random import default_rng

from vlbench.data.scenes.drawing import LARGE, backdrop, draw
from vlbench.data.scenes.layout import several, single
from vlbench.data.scenes.rows import drawing
from vlbench.data.scenes.world import BACKGROUNDS, COLOURS


def test_every_box_shows_the_colour_of_its_thing(rows):
    for image, boxes, colours in zip(rows["image"], rows["boxes"], rows["colours"], strict=True):
        pixels = np.asarray(image, int)
        for (left, top, right, bottom), colour in zip(boxes.int().tolist(), colours, strict=True):
            away = np.abs(pixels[top:bottom, left:right] - COLOURS[colour]).max(-1)
            assert (away < 60).sum() >= 3


def test_every_box_lies_inside_the_image(rows):
    boxes = np.concatenate([np.asarray(boxes) for boxes in rows["boxes"]])
    assert boxes.min() >= 0
    assert boxes.max() <= 64
    assert (boxes[:, 2:] - boxes[:, :2]).min() >= 2


def test_without_a_thing_only_its_box_changes():
    for i in range(0, 6000, 60):
        scene, drawn, _ = drawing("scenes", 0, i)
        if len(scene.things) > 1:
            rest = type(scene)(scene.things[:-1], scene.backdrop)
            changed = np.asarray(drawn.image, int) != np.asarray(draw(rest).image, int)
            rows_, columns = (np.flatnonzero(changed.any((2, axis))) for axis in (1, 0))
            left, top, right, bottom = drawn.boxes[-1]
            assert left - 1 < columns[0] < left + 4
            assert right - 5 < columns[-1] < right
            assert top - 1 < rows_[0] < top + 4
            assert bottom - 5 < rows_[-1] < bottom


def test_what_is_in_front_hides_what_is_behind():
    drawn = draw(_stacked())
    assert drawn.hidden[1, 0] == 1
    assert drawn.hidden[0, 1] == 0
    assert drawn.visible == [0, 1]
    assert drawn.boxes[0] == (0, 0, 0, 0)


def _stacked():
    """Return a small cup right behind a large one."""
    scene = several(2, "cup", twins=True, rng=default_rng(0))
    first = replace(scene.things[0], noun="mug", radius=3.0, centre=(32.0, 32.0), angle=0.0)
    second = replace(first, radius=16.0)
    return replace(scene, things=[first, second])


def test_a_screen_hides_a_part_of_a_thing():
    scene = replace(single("owl", default_rng(0)), screen=None)
    x, y = scene.things[0].centre
    hidden = draw(replace(scene, screen=(x, y - 20, 18.0)))
    assert draw(scene).visible == [1]
    assert 0 < hidden.visible[0] < 1
    assert hidden.boxes[0][1] > draw(scene).boxes[0][1]


def test_every_background_is_drawn_in_more_than_one_colour():
    for kind in BACKGROUNDS:
        background = single("owl", default_rng(0)).backdrop._replace(kind=kind)
        canvas = backdrop(background)
        assert canvas.size == LARGE
        assert len(canvas.getcolors(canvas.width * canvas.height)) > 1
