import numpy as np
import pytest
import torch
from captions_data import SeesPairs, world
from captions_world import PAIRS, THINGS, features

from vlbench.data.records import Split
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, DataError, SpecError
from vlbench.probes.captioning.image_features import image_features

ENGINE = Engine.for_tests()


@pytest.fixture
def split():
    return world().splits["test"]


def arrays(folder, values, name="{}.npy"):
    for number, value in enumerate(values):
        np.save(folder / name.format(number), value)
    return folder


def test_regions_are_summed_or_averaged_and_encoders_follow(split):
    summed, seen = image_features(split, ENGINE, [SeesPairs()], regions="sum")
    (mean,) = image_features(split, ENGINE, [], regions="mean")
    assert torch.equal(summed, features())
    assert torch.equal(seen, features())
    assert torch.equal(mean, features() / 2)


def test_ready_features_are_read_by_the_number_of_the_image(split, tmp_path):
    values = np.random.default_rng(0).random((len(PAIRS), 3)).astype(np.float32)
    (found,) = image_features(split, ENGINE, [], files=arrays(tmp_path, values))
    assert torch.equal(found, torch.from_numpy(values))


def test_ready_features_may_have_the_whole_name_of_the_image(split, tmp_path):
    values = np.arange(len(PAIRS), dtype=np.float64)[:, None]
    for number, value in enumerate(values):
        np.save(tmp_path / f"{number:04d}.npy", value)
    (found,) = image_features(split, ENGINE, [], files=tmp_path)
    assert found.flatten().tolist() == list(range(len(PAIRS)))
    assert found.dtype == torch.float32


def test_ready_region_features_are_averaged(split, tmp_path):
    for number in range(len(PAIRS)):
        vectors, boxes = np.array([[2.0, number], [4.0, number]]), np.zeros((2, 4))
        np.savez(tmp_path / f"{number}.npz", x=vectors, bbox=boxes, image_w=4, image_h=4)
    (mean,) = image_features(split, ENGINE, [], files=tmp_path)
    (total,) = image_features(split, ENGINE, [], files=tmp_path, regions="sum")
    assert mean.tolist() == [[3, number] for number in range(len(PAIRS))]
    assert torch.equal(total, 2 * mean)


def test_without_any_source_nothing_is_seen(split):
    with pytest.raises(SpecError, match="the captioner sees nothing"):
        image_features(split, ENGINE, [])


def test_regions_that_the_data_lack_are_asked_for_in_vain(split):
    bare = Split({name: split[name] for name in ("image", "picture", "captions")})
    with pytest.raises(DataError, match="asks for regions: sum, but the data have no regions"):
        image_features(bare, ENGINE, [], regions="sum")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 2)), "not one axis of numbers"),
        (np.array([np.nan]), "not finite"),
        (np.array([None], dtype=object), "cannot be read"),
    ],
)
def test_broken_features_are_errors(split, tmp_path, value, message):
    values = [np.zeros(1, np.float32)] * len(PAIRS)
    with pytest.raises(DataError, match=message):
        image_features(split, ENGINE, [], files=arrays(tmp_path, [value, *values[1:]]))


def test_a_file_that_announces_more_than_it_has_is_an_error(split, tmp_path):
    arrays(tmp_path, [np.zeros(100)] * len(PAIRS))
    whole = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "0.npy").write_bytes(whole[:300])
    with pytest.raises(DataError, match=r"0\.npy cannot be read .* make it again"):
        image_features(split, ENGINE, [], files=tmp_path)


def test_features_of_an_image_that_are_absent_are_named(split, tmp_path):
    arrays(tmp_path, [np.zeros(1)] * (len(PAIRS) - 1))
    with pytest.raises(DataError, match=r"no features of image 0014\.jpg \(14\.npy\)"):
        image_features(split, ENGINE, [], files=tmp_path)
    with pytest.raises(DataAbsent, match="features of images"):
        image_features(split, ENGINE, [], files=tmp_path / "none")


def test_images_whose_features_have_other_widths_are_an_error(split, tmp_path):
    values = [np.zeros(1 + (number == 3)) for number in range(len(PAIRS))]
    with pytest.raises(DataError, match=r"different widths: \[1, 2\]"):
        image_features(split, ENGINE, [], files=arrays(tmp_path, values))


def test_the_world_has_as_many_features_as_things(split):
    assert image_features(split, ENGINE, [SeesPairs()])[0].shape == (len(PAIRS), len(THINGS))
