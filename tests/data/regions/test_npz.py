import numpy as np
import pytest
from region_files import BOXES, FRACTIONS, VECTORS, is_whole

from vlbench.data.regions import region_features
from vlbench.data.regions.npz import index
from vlbench.errors import DataError


@pytest.mark.parametrize("names", [("x", "boxes"), ("x", "bbox"), ("features", "boxes")])
@pytest.mark.parametrize("turn", [False, True])
def test_npz_may_have_a_row_or_a_column_for_each_region(tmp_path, names, turn):
    vectors = VECTORS.T if turn else VECTORS
    arrays = {names[0]: vectors, names[1]: BOXES, "image_w": 40, "image_h": 30}
    np.savez(tmp_path / "COCO_val2014_000000000042.jpg.npz", **arrays)
    assert is_whole(region_features(tmp_path)["COCO_val2014_000000000042"])


def test_boxes_that_are_fractions_are_scaled_by_the_size_of_the_image(tmp_path):
    arrays = {"norm_bb": FRACTIONS.astype(np.float16), "features": VECTORS.astype(np.float16)}
    np.savez(tmp_path / "flickr30k_000000000042.npz", **arrays, conf=np.array([0.5, 0.25]))
    regions = region_features(tmp_path, {"42": (40, 30)}, numbered=True)["42"]
    assert regions.boxes.numpy() == pytest.approx(BOXES, abs=0.02)
    assert regions.scores.tolist() == [0.5, 0.25]
    with pytest.raises(DataError, match=r"000042\.npz has no image size"):
        region_features(tmp_path)["flickr30k_000000000042"]


REFUSED = [
    ({"x": VECTORS}, r"^42\.npz has no boxes or bbox or norm_bb; it has x, im"),
    ({"x": np.array([{}]), "boxes": BOXES}, r"^42\.npz cannot be read"),
]


@pytest.mark.parametrize(("arrays", "message"), REFUSED)
def test_an_npz_file_that_does_not_fit_is_named(tmp_path, arrays, message):
    np.savez(tmp_path / "42.npz", **arrays, image_w=40, image_h=30)
    with pytest.raises(DataError, match=message):
        index(tmp_path / "42.npz")["42.npz"]()


def test_the_real_npz_files_have_36_regions(real_data):
    features = region_features(real_data / "bottom_up_features/rosita_npz/features", numbered=True)
    assert sorted(map(int, features)) == [58350, 124629, 437564, 504810]
    assert {tuple(r.vectors.shape) for r in features.values()} == {(36, 2048)}
