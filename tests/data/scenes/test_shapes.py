import numpy as np
import pytest

from vlbench.data.scenes.shapes import (
    arc,
    box,
    dome,
    eye,
    oval,
    petals,
    poly,
    shapes,
    stem,
    wave,
    wheels,
)
from vlbench.data.scenes.world import NOUNS


def test_every_noun_has_a_shape_that_begins_with_its_body():
    assert set(shapes()) == set(NOUNS)
    assert {parts[0].tone for parts in shapes().values()} == {"body"}
    assert max(np.abs(part.points).max() for parts in shapes().values() for part in parts) <= 1.2


def bounds(part):
    return [*part.points.min(0).round(6).tolist(), *part.points.max(0).round(6).tolist()]


def test_a_polygon_is_its_points():
    assert poly("dark", 0, 1, 2, 3, 4, 5).points.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert bounds(box("dark", -1, -0.5, 0.5, 1)) == [-1, -0.5, 0.5, 1]


def test_an_ellipse_reaches_its_radius_and_a_dome_is_its_upper_half():
    assert oval("body", 0.5, 0, 0.3, 0.2).points[0] == pytest.approx([0.8, 0])
    assert np.abs(oval("body", 0, 0, 1, 1).points).max() <= 1
    assert bounds(dome("body", 0, 0.5, 1, 1))[3] == pytest.approx(0.5)


def test_an_arc_is_open_to_the_left():
    points = arc("dark", 0, 0, 1, 0.5).points
    assert points[:, 0].min() >= -1e-9
    assert np.linalg.norm(points, axis=1) == pytest.approx([1] * 10 + [0.5] * 10)


def test_a_wave_spans_the_whole_width():
    assert (wave().points[:, 0].min(), wave().points[:, 0].max()) == (-1, 1)


def test_groups_of_parts_have_their_number_and_tones():
    assert [part.tone for part in petals(5)] == ["body"] * 5
    assert [part.tone for part in eye(0, 0)] == ["white", "black"]
    assert [part.tone for part in wheels(-0.5, 0.5)] == ["black", "light"] * 2
    assert bounds(stem(-0.2)[0])[1::2] == [-0.2, 1]
