import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from vlbench.errors import TooFewRows
from vlbench.metrics.probe_worth import (
    PERCENT,
    block_ends,
    control_labels,
    online_code,
    selectivity,
)


def gaussian(n, d, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def linear(features, label):
    """Train a linear probe of 3 classes."""
    model = LogisticRegression(C=1.0, max_iter=1000).fit(features.numpy(), label.numpy())

    def probabilities(points):
        found = np.full((len(points), 3), 1e-6)
        found[:, model.classes_] += model.predict_proba(points.numpy())
        return torch.from_numpy(np.log(found / found.sum(1, keepdims=True)))

    return probabilities


def counts(_, label):
    """Take each class to be as likely as it was, with one more of each of 2 classes (Laplace)."""
    chances = (label.bincount(minlength=2) + 1).double() / (len(label) + 2)
    return lambda points: chances.log().expand(len(points), -1)


def always(*chances):
    return lambda *_: lambda points: torch.tensor(chances).log().expand(len(points), -1)


def test_the_code_by_hand():
    # Blocks 1 | 0 1 | 1: a bit; then chances 1/3, 2/3; then 2/5 and 3/5.
    label = torch.tensor([1, 0, 1, 1])
    code = online_code(torch.zeros(4, 1), label, 2, counts, [1, 3, 4])
    assert code.blocks == pytest.approx([1, math.log2(3) + math.log2(3 / 2), math.log2(5 / 3)])
    assert code.bits == pytest.approx(math.log2(2 * 9 / 2 * 5 / 3))
    assert code.compression == pytest.approx(4 / math.log2(15))
    by_example = [1, math.log2(3), math.log2(3 / 2), math.log2(5 / 3)]
    assert code.examples.tolist() == pytest.approx(by_example)
    # A probe that knows nothing does not compress.
    none = always(1 / 3, 1 / 3, 1 / 3)
    code = online_code(torch.zeros(300, 1), torch.arange(300) % 3, 3, none, [3, 30, 300])
    assert code.compression == pytest.approx(1)


def test_a_linear_signal_is_coded_shorter_than_labels_to_memorise():
    x = gaussian(1200, 10)
    signal = (x @ gaussian(10, 3, 1)).argmax(1)
    noise = signal[torch.from_numpy(np.random.default_rng(2).permutation(1200))]
    ends = block_ends(1200, least=12)
    told, memorised = (online_code(x, label, 3, linear, ends) for label in (signal, noise))
    assert told.compression > 3
    assert memorised.compression < 1.05


def test_what_is_learned_from_fewer_examples_is_coded_shorter():
    few = gaussian(1200, 5)
    many = torch.cat([few, 2 * gaussian(1200, 150, 3)], 1)
    label = (few @ gaussian(5, 3, 1)).argmax(1)
    ends = block_ends(1200, least=12)
    easy, hard = (online_code(x, label, 3, linear, ends) for x in (few, many))
    assert easy.compression > 1.5 * hard.compression


def test_ends_are_the_papers_percentages_and_blocks_too_small_are_part_of_the_next():
    assert block_ends(10_000) == [10, 20, 40, 80, 160, 320, 625, 1250, 2500, 5000, 10_000]
    assert len(PERCENT) == 11
    assert block_ends(100) == [1, 2, 3, 6, 12, 25, 50, 100]
    assert block_ends(100, least=10) == [12, 25, 50, 100]
    assert block_ends(100, [50, 100]) == [50, 100]


def test_a_control_label_is_that_of_its_type():
    types = torch.arange(4000) % 400
    label = (torch.arange(4000) % 4 == 0).long()
    found = control_labels(types, label, np.random.default_rng(0))
    assert [found[types == t].unique().numel() for t in range(400)] == [1] * 400
    # A quarter of the types, whose standard deviation is .022.
    assert found.double().mean().item() == pytest.approx(0.25, abs=0.09)
    assert found.tolist() != control_labels(types, label, np.random.default_rng(1)).tolist()


def test_a_linear_probe_is_selective_and_one_that_memorises_is_not():
    types = torch.arange(900) % 90
    x = gaussian(90, 5)[types] + 0.01 * gaussian(900, 5, 1)
    label = (x @ gaussian(5, 3, 2)).argmax(1)
    control = control_labels(types, label, np.random.default_rng(3))

    def accuracy(model, target):
        return model.fit(x[:450], target[:450]).score(x[450:], target[450:])

    models = LogisticRegression(max_iter=1000), KNeighborsClassifier(1)
    learned, memorised = (selectivity(accuracy(m, label), accuracy(m, control)) for m in models)
    assert learned > 0.3
    assert abs(memorised) < 0.05


@pytest.mark.parametrize("percent", [[], [0, 100], [50, 20, 100], [20, 50]])
def test_percentages_that_do_not_rise_to_100_are_refused(percent):
    with pytest.raises(ValueError, match="must be rising numbers above 0, the last 100"):
        block_ends(50, percent)


ENDS = [[], [0, 4], [2, 2, 4], [1, 3]]
REFUSED = [
    *((2, counts, ends, "must be rising numbers from 1 to 4") for ends in ENDS),
    (1, counts, [1, 4], "1 classes; a code needs 2 or more"),
    (2, always(0.5, 0.6), [1, 4], "do not sum to 1"),
    (2, always(1.0, 0.0), [1, 4], "a true label has probability 0"),
    (2, always(0.5, 0.25, 0.25), [1, 4], r"log-probabilities \[3, 3\] of 3 x 2"),
]


@pytest.mark.parametrize(("classes", "fit", "ends", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_makes_no_code_is_refused(classes, fit, ends, message):
    with pytest.raises(TooFewRows, match="2 examples in one block; 2 are needed"):
        online_code(torch.zeros(2, 1), torch.tensor([0, 1]), 2, counts, [2])
    with pytest.raises(ValueError, match=message):
        online_code(torch.zeros(4, 1), torch.tensor([0, 1, 0, 1]), classes, fit, ends)
