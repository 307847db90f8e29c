import numpy as np

from vlbench.data.scenes.shapes import SHAPES
from vlbench.data.scenes.world import NOUNS


def test_every_noun_has_a_shape_that_begins_with_its_body():
    assert set(SHAPES) == set(NOUNS)
    assert {parts[0].tone for parts in SHAPES.values()} == {"body"}
    assert max(np.abs(part.points).max() for parts in SHAPES.values() for part in parts) <= 1.2
