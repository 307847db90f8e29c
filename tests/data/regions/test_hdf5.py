import pickle
import sys

import h5py
import pytest
from region_files import BOXES, is_whole, put_ban

from vlbench.data.regions import region_features
from vlbench.data.regions.hdf5 import index
from vlbench.errors import DataError


def test_hdf5_may_have_as_many_regions_as_an_image_needs(tmp_path):
    features = region_features(put_ban(tmp_path))
    assert is_whole(features["7"])
    assert features["42"].boxes.tolist() == BOXES[1:].tolist()
    assert features["42"].size == features["7"].size == (40, 30)


def test_hdf5_may_have_as_many_regions_for_each_image(tmp_path):
    assert is_whole(region_features(put_ban(tmp_path, slots=False))["42"])


def test_features_are_known_by_their_index_too(tmp_path):
    first = region_features(put_ban(tmp_path)).key
    swapped = pickle.dumps({42: 1, 7: 0}, protocol=2)
    (tmp_path / "val_imgid2idx.pkl").write_bytes(swapped)
    assert region_features(tmp_path / "val.hdf5").key != first


class Harm:
    def __reduce__(self):
        return (sys.exit, ("harm",))


REFUSED = [
    (pickle.dumps(Harm()), r"^val_imgid2idx\.pkl is not a plain pickle .*it loads 'sys\.exit'"),
    (pickle.dumps({42: 0})[:-2], r"^val_imgid2idx\.pkl is not a plain pickle"),
    (pickle.dumps([42]), r"^val_imgid2idx\.pkl does not give each image the number of a row"),
    (pickle.dumps({42: 2}), r"^val\.hdf5 has 2 images: no row 2 \(42\)"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_a_pickle_that_is_no_index_is_refused_and_runs_nothing(tmp_path, content, message):
    file = put_ban(tmp_path, index=content)
    with pytest.raises(DataError, match=message):
        index(file)


def test_an_hdf5_file_that_lacks_a_column_is_named(tmp_path):
    file = put_ban(tmp_path)
    with h5py.File(file, "a") as content:
        del content["image_bb"]
    with pytest.raises(DataError, match=r"^val\.hdf5 has no image_bb; it has image_features"):
        index(file)


def test_without_h5py_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    file = put_ban(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    message = r"val\.hdf5 is read with h5py: pip install 'vlbench\[hdf5\]'"
    with pytest.raises(DataError, match=message):
        index(file)
