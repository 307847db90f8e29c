from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, labelled_images
from PIL import Image
from scoring import with_scores
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import NearestCentroid

from vlbench.data.records import Column, Split, labels, value_column
from vlbench.engine import Engine
from vlbench.engine.store import Store
from vlbench.errors import DataError
from vlbench.probes.generalization import few_shot as few_shot_probe
from vlbench.probes.generalization import transfer as transfer_probe
from vlbench.probes.generalization.blind import blind_features, nearest_mean_accuracy
from vlbench.probes.generalization.linear import LinearTraining

few_shot = with_scores(few_shot_probe.few_shot)
transfer = with_scores(transfer_probe.transfer)

COLOURS = ("red", "green", "blue")
ENGINE = Engine.for_tests()
FLOORS = {"colour": "colours"}


def coloured(*counts):
    """Return images whose column `colours` tells the class of the first two, and not of others."""
    data = labelled_images(*counts)
    colours = {
        name: value_column([[COLOURS[min(i, 1)]] for i in labels(rows)])
        for name, rows in data.splits.items()
    }
    splits = {n: Split({**s.columns, "colours": colours[n]}) for n, s in data.splits.items()}
    return replace(data, splits=splits)


def test_words_are_told_apart_as_in_all_splits():
    seen = {"train": value_column([["a", "b"], "c"]), "test": value_column(["d"])}
    splits = {name: Split({"seen": column}) for name, column in seen.items()}
    found = blind_features(splits, "seen", ENGINE)
    assert found["train"].tolist() == [[1, 1, 0, 0], [0, 0, 1, 0]]
    assert found["test"].tolist() == [[0, 0, 0, 1]]


def test_a_histogram_is_numpys_of_each_colour_standardised():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, 6, 7, 3), np.uint8)
    images = [Image.fromarray(one) for one in pixels]
    rows = Split({"image": Column("a", "image", images, range(5))})
    splits = {"train": rows.select([0, 1]), "test": rows.select([2, 3, 4])}
    found = blind_features(splits, "image", ENGINE)
    edges = [0, 64, 128, 192, 256]
    counts = [np.histogramdd(one.reshape(-1, 3), [edges] * 3)[0].ravel() / 42 for one in pixels]
    spread = np.std(counts, 0, ddof=1)
    expected = (counts - np.mean(counts, 0)) / np.where(spread > 0, spread, 1)
    assert torch.cat([found["train"], found["test"]]).numpy() == pytest.approx(expected, abs=1e-5)


class Decoded(list):
    """Images that count how often one is read."""

    read = 0

    def __getitem__(self, place):
        Decoded.read += 1
        return super().__getitem__(place)


def test_images_are_read_for_their_histograms_once_for_all_models(tmp_path):
    images = Decoded(Image.new("RGB", (4, 4), (60 * i, 0, 0)) for i in range(4))
    rows = {"test": Split({"image": Column("some images", "image", images, range(4))})}
    engine = Engine(ENGINE.settings, store=Store(tmp_path))
    first, again = (blind_features(rows, "image", engine)["test"] for _ in range(2))
    assert torch.equal(first, again)
    assert Decoded.read == 4


@pytest.mark.parametrize("shots", [1, 3])
def test_the_floor_of_few_shot_is_that_of_a_model_with_these_features(shots):
    data = coloured(4, 5, 6)
    ours = few_shot(ConstantModel(), data, Engine.for_tests(), shots=[shots], floors=FLOORS)
    found = blind_features(data.splits, "colours", ENGINE)
    model = PlantedFeatures(found["train"], found["test"])
    theirs = few_shot(model, data, Engine.for_tests(), shots=[shots])
    assert [s.floors["colour"] for s in ours.scores] == [s.value for s in theirs.scores]
    # The colour tells the first class, and leaves a choice of two to the others.
    assert ours.scores[0].floors["colour"] == pytest.approx((4 + 11 / 2) / 15)


def test_the_floor_of_a_part_is_of_its_own_classes():
    parts = {"ab": ["class 0", "class 1"], "cd": ["class 2", "class 3"]}
    more = {"floors": FLOORS, "categories": parts}
    outcome = few_shot(ConstantModel(), coloured(4, 4, 4, 4), Engine.for_tests(), shots=[1], **more)
    found = {s.at["categories"]: s.floors["colour"] for s in outcome.scores}
    assert found == {"ab": 1.0, "cd": 0.5}


def test_the_floor_of_transfer_is_what_a_probe_learns_of_the_column():
    more = {"training": LinearTraining(epochs=40, batch_size=8, seeds=2), "floors": FLOORS}
    accuracy, remembered = transfer(ConstantModel(), coloured(40, 40), ENGINE, **more).scores
    assert accuracy.floors["colour"] == 1.0
    assert "colour" not in remembered.floors


def test_data_without_the_column_say_so():
    with pytest.raises(DataError, match="no column 'colours'"):
        few_shot(ConstantModel(), labelled_images(2, 2), ENGINE, shots=[1], floors=FLOORS)


def test_the_nearest_mean_of_others_is_scikit_learns_left_out_one_by_one():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 30)
    pixels = rng.integers(0, 192, (30, 8, 8, 3)) + 6 * label[:, None, None, None]
    images = [Image.fromarray(one) for one in pixels.astype(np.uint8)]
    column = Column("a", "image", images, range(30))
    rows = Split({"image": column, "label": value_column(label.tolist())})
    features = blind_features({"test": rows}, "image", ENGINE)["test"].numpy()
    # The library does not take features that are all the same.
    features = features[:, features.std(0) > 0]
    theirs = cross_val_score(NearestCentroid(), features, label, cv=LeaveOneOut()).mean()
    assert nearest_mean_accuracy(rows, "image", ENGINE) == pytest.approx(theirs)
    assert 0.34 < theirs < 1


def test_a_class_of_one_image_is_never_the_nearest():
    rows = Split({"label": value_column([0, 0, 1, 1, 2]), "of": value_column([*"aabba"])})
    # The first two share with the class of the last one, which has no image of its own beside it.
    expected = (1 / 2 + 1 / 2 + 1 + 1 + 0) / 5
    assert nearest_mean_accuracy(rows, "of", ENGINE) == pytest.approx(expected)
