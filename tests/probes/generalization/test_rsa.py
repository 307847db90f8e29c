from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import ConstantModel, PlantedFeatures, ReadsTheLabel, labelled_images
from scipy.spatial.distance import pdist
from scoring import metric_values as values

from vlbench.capabilities import TokenVectors
from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.engine.pass_checks import REPEATED
from vlbench.errors import CannotDo, TooFewRows
from vlbench.probes.generalization.rdm import rdm_of_classes
from vlbench.probes.generalization.rsa import _halves, rsa, rsa_text

FISH = ["tench, Tinca tinca, fish", "goldfish", "great white shark, white shark", "Ray"]


def probe(model, data, **params):
    return rsa(model, data, Engine.for_tests(), **params)


def text_probe(model, classes=FISH, **params):
    return rsa_text(model, Data(splits={}, classes=classes), Engine.for_tests(), **params)


def planted(noise, classes=150, images=20, width=300, seed=0):
    """Return data, and a model whose classes are normal points of variance 1, plus noise."""
    draw = torch.Generator().manual_seed(0)
    points = torch.randn(classes, 1, width, generator=draw)
    draw.manual_seed(1 + seed)
    features = points + noise * torch.randn(classes, images, width, generator=draw)
    data = labelled_images(*[1] * classes, test=[images] * classes)
    return PlantedFeatures(torch.zeros(classes, width), features.flatten(0, 1)), data


@pytest.mark.parametrize("noise", [2.0, 4.0])
def test_halves_with_planted_noise_are_as_reliable_as_theory_says(noise):
    # The mean of n of a class's images has variance 1 + noise^2 / n a dimension, of which 1 is
    # shared. Squared distances of normal points correlate as the square of that share.
    model, data = planted(noise)
    found = values(probe(model, data, trials=3))["reliability"]
    halves, wholes = ((1 / (1 + noise**2 / n)) ** 2 for n in (10, 20))
    assert found == pytest.approx(2 * halves / (1 + halves), abs=0.05)
    assert found < wholes


def test_the_reliability_is_how_well_matrices_of_other_images_of_the_classes_correlate():
    noise = 1.0
    (model, data), (other, _) = (planted(noise, seed=seed) for seed in (0, 1))
    found = probe(model, data, trials=3)
    again = probe(other, data, trials=1).artifacts["rdm"]
    expected = np.corrcoef(found.artifacts["rdm"], again)[0, 1]
    assert values(found)["reliability"] == pytest.approx(expected, abs=0.01)


def test_images_without_noise_are_wholly_reliable():
    model, data = planted(0.0, classes=8, images=3)
    (score, *_) = probe(model, data).scores
    assert score.value == pytest.approx(1.0)
    # Of 8 classes, of which none is otherwise, .312 may be: .688^8 = .05.
    assert score.ci95 == pytest.approx((1 - 2 * 0.3123, 1.0), abs=1e-4)
    assert score.floors["class_permutations"] < 0.9


def test_a_constant_model_scores_chance_and_a_note_says_why():
    outcome = probe(ConstantModel(), labelled_images(5, 4, 6))
    assert values(outcome) == {"reliability": 0.0, "zero_distances": 3, "n_classes": 3}
    assert outcome.scores[0].ci95 == pytest.approx((-0.6316, 0.6316), abs=1e-4)  # 1 - .05^(1/3)
    assert "all distances are the same" in outcome.notes[0]


def test_a_model_that_reads_the_label_gives_a_constant_matrix_so_chance():
    found = values(probe(ReadsTheLabel(), labelled_images(4, 4, 4)))
    assert (found["reliability"], found["zero_distances"]) == (0.0, 0)


def test_classes_that_look_the_same_are_counted():
    features = torch.eye(4)[[0, 0, 1, 1, 1, 1, 2, 2]]
    model = PlantedFeatures(torch.zeros(4, 4), features)
    outcome = probe(model, labelled_images(1, 1, 1, 1, test=[2] * 4))
    assert values(outcome)["zero_distances"] == 1


@pytest.mark.parametrize("rule", ["scalar", "per_dimension", "cosine", "correlation"])
def test_the_matrix_of_all_images_is_kept_with_the_classes_in_their_order(rule):
    model, data = planted(2.0, classes=5, images=4, width=6)
    outcome = probe(model, data, rdm=rule)
    rows = list(torch.arange(5, 25).split(4))
    matrix = rdm_of_classes(model.features, rows, data.classes, rule)
    assert torch.equal(outcome.artifacts["rdm"], matrix.float())
    assert outcome.artifacts["classes"]["name"].to_pylist() == data.classes
    assert outcome.artifacts["classes"]["category"].to_pylist() == data.classes


def test_another_seed_cuts_other_halves():
    model, data = planted(4.0, classes=10, images=6)
    draws = [probe(model, data, seed=seed).scores[0].draws for seed in (0, 0, 1)]
    assert len(draws[0]) == 10
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_halves_share_no_image_and_leave_none():
    rows = [[[i] for i in range(5)], [[i] for i in range(5, 9)]]
    first, second = _halves(rows, np.random.default_rng(0))
    assert [len(row) for row in first] == [2, 2]
    both = [torch.cat(pair).sort().values.tolist() for pair in zip(first, second, strict=True)]
    assert both == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]


def test_copies_of_an_image_are_in_one_half():
    images = [[[0, 3], [1, 4], [2]], [[5], [6, 7, 8], [9]]]
    for seed in range(9):
        halves = _halves(images, np.random.default_rng(seed))
        for own, parts in zip(images, zip(*halves, strict=True), strict=True):
            shown = [{*part.tolist()} for part in parts]
            assert all(any({*copies} <= half for half in shown) for copies in own)
            assert min(map(len, shown)) > 0


def test_random_features_of_copied_images_are_not_reliable():
    """The half of a class's copies would know what the other half is."""
    data = labelled_images(*[1] * 12, test=[8] * 12)
    column = data.splits["test"]["image"]
    image = replace(column, digests=[str(row // 2) for row in column.rows])
    test = Split({**data.splits["test"].columns, "image": image})
    data, found = replace(data, splits={**data.splits, "test": test}), []
    for seed in range(8):
        drawn = torch.randn(48, 20, generator=torch.Generator().manual_seed(seed))
        model = PlantedFeatures(torch.zeros(12, 20), drawn.repeat_interleave(2, 0))
        found.append(values(probe(model, data, trials=2))["reliability"])
    assert abs(np.mean(found)) < 0.15


def test_classes_of_one_category_are_left_out_together():
    model, data = planted(2.0, classes=9, images=4, width=6)
    nested = replace(data, categories=[*"aaabbbccc"])
    (own, *_), outcome = probe(model, data).scores, probe(model, nested)
    assert outcome.scores[0].value == own.value
    assert outcome.scores[0].ci95 != own.ci95
    assert outcome.counts["clusters"] == 3
    assert outcome.artifacts["classes"]["category"].to_pylist() == [*"aaabbbccc"]


def test_two_categories_have_no_interval_and_no_trials_are_refused():
    data = replace(labelled_images(4, 4, 4), categories=["cat", "dog", "dog"])
    with pytest.raises(TooFewRows, match="classes of cat, dog alone; an interval needs 3 cat"):
        probe(ReadsTheLabel(), data)
    with pytest.raises(ValueError, match="0 trials; 1 or more"):
        probe(ReadsTheLabel(), labelled_images(2, 2, 2), trials=0)


@pytest.mark.parametrize(
    ("test", "rule", "message"),
    [
        ([3, 1, 2], "scalar", "class 'bee' has 1 image, halves need 2"),
        ([4, 3, 4], "per_dimension", "class 'bee' has 3 images, halves need 4"),
        ([4, 4], "scalar", "2 classes; a correlation needs 3"),
    ],
)
def test_too_few_images_or_classes_are_told(test, rule, message):
    data = labelled_images(*[2] * len(test), test=test, classes=["ant", "bee", "cat"][: len(test)])
    with pytest.raises(TooFewRows, match=message):
        probe(ReadsTheLabel(), data, rdm=rule)


class Letters:
    """Gives a word of a text its number of letters and its place, but none to words of `blind`."""

    def __init__(self, *blind):
        self.blind = blind
        self.seen = []

    def encode_tokens(self, texts):
        self.seen += texts
        return [self._tokens(text) for text in texts]

    def _tokens(self, text):
        spans, start = [], 0
        for word in text.split(" "):
            if word not in self.blind:
                spans.append((start, start + len(word)))
            start += len(word) + 1
        return TokenVectors(spans, torch.tensor([[float(b - a), float(a)] for a, b in spans]))


class Sentences:
    """Gives a text its numbers of three letters."""

    def encode_texts(self, texts):
        return torch.tensor([[float(text.count(letter)) for letter in "tes"] for text in texts])


def test_a_name_is_its_first_two_synonyms_in_lower_case():
    model = Letters()
    text_probe(model, prompt="a photo of a {}.", other_prompt="{}")
    seen = model.seen[REPEATED + 1 :]  # those that are passed again come first
    assert seen[:4] == [
        "a photo of a tench, tinca tinca.",
        "a photo of a goldfish.",
        "a photo of a great white shark, white shark.",
        "a photo of a ray.",
    ]
    assert "tench, tinca tinca" in seen[4:]


def test_a_names_vector_is_that_of_its_first_token():
    # First tokens `tench,`, `goldfish.`, `great` and `ray.`: 6, 9, 5 and 4 letters at one place.
    matrix = text_probe(Letters()).artifacts["rdm"].tolist()
    assert matrix == [3.0, 1.0, 2.0, 4.0, 5.0, 1.0]


def test_a_names_vector_may_be_the_mean_over_its_tokens():
    # `a b`: (1, 0) and (1, 2), mean (1, 1); `cc`: (2, 0); `d`: (1, 0).
    model, names = Letters(), ["a b", "cc", "d"]
    found = text_probe(model, names, prompt="{}", other_prompt="{}", tokens="mean")
    assert found.artifacts["rdm"].tolist() == pytest.approx([2**0.5, 1.0, 1.0])


def test_names_that_begin_alike_are_at_distance_zero_and_counted():
    names = ["great white shark", "great grey owl", "owl"]
    found = values(text_probe(Letters(), names))
    assert (found["zero_distances"], found["n_classes"]) == (1, 3)


class Towers(Sentences, Letters):
    """Compares texts with images, and gives their words vectors too, as CLIP's adapter does."""

    def preprocess(self, image): ...
    def encode_images(self, pixels): ...
    def similarity(self, images, texts): ...


@pytest.mark.parametrize("model", [Sentences(), Towers()])
def test_a_model_of_whole_texts_gives_the_vector_of_the_sentence_if_it_reads_images_too(model):
    vectors = [[2.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    found = text_probe(model, ["tench", "goldfish", "ray"])
    assert found.artifacts["rdm"].tolist() == pytest.approx(pdist(np.array(vectors)).tolist())


def test_a_prompt_that_changes_nothing_is_wholly_reliable():
    found = text_probe(Letters(), prompt="{}", other_prompt="{} too")
    assert values(found)["prompt_reliability"] == pytest.approx(1.0)


def test_a_name_without_a_vector_is_a_reason_to_skip():
    with pytest.raises(CannotDo, match="the model has no vector for 'goldfish'"):
        text_probe(Letters("goldfish"), prompt="a {} .")


@pytest.mark.parametrize("prompt", ["a photo", "{} and {}"])
def test_a_prompt_needs_one_place_for_the_name(prompt):
    with pytest.raises(ValueError, match=r"must have one \{\} for the class's name"):
        text_probe(Letters(), prompt=prompt)
