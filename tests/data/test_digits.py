import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vlbench.data.digits import digits
from vlbench.data.records import labels
from vlbench.errors import DataAbsent


def test_grey_levels_reach_from_0_to_255():
    test = digits().splits["test"]
    row = test["image"].rows[0]
    levels = np.round(load_digits().images[row] / 16 * 255)
    assert np.array_equal(np.asarray(test["image"][0])[..., 1], levels)
    assert max(np.asarray(image).max() for image in test["image"].stored) == 255


def test_labels_belong_to_their_images():
    train = digits().splits["train"]
    assert np.array_equal(labels(train), load_digits().target[list(train["image"].rows)])


def test_the_seed_and_the_share_decide_the_draw():
    draws = [digits(), digits(), digits(seed=1), digits(test_share=0.2)]
    digests = [data.digest() for data in draws]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    assert len(draws[3].splits["test"]) == 360


def test_splits_share_one_stored_column():
    splits = digits().splits
    assert splits["train"]["image"].key == splits["test"]["image"].key


def test_classes_are_words():
    assert digits().classes[7] == "seven"


def test_a_share_of_all_is_refused():
    with pytest.raises(ValueError, match="test_size"):
        digits(test_share=1.5)


def test_the_pinned_split_is_the_one_that_scikit_learn_draws():
    label = load_digits().target
    rows = range(len(label))
    drawn = train_test_split(rows, test_size=0.5, stratify=label, random_state=0)
    splits = digits().splits
    found = [list(splits[name]["image"].rows) for name in ("train", "test")]
    assert found == [sorted(part) for part in drawn]


def test_without_scikit_learn_the_digits_are_absent(monkeypatch):
    monkeypatch.setattr("vlbench.data.presence.importlib.util.find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match="scikit-learn's digits not found; get it from `pip"):
        digits()
