from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import PlantedFeatures, labelled_images
from scipy.spatial.distance import pdist
from scoring import metric_values as values

from vlbench.data.records import Data, Split, value_column
from vlbench.engine import Engine
from vlbench.metrics.representation_similarity import (
    calibrated,
    centred_kernel,
    cka_debiased,
    mutual_knn,
)
from vlbench.probes.generalization import similarity as module
from vlbench.probes.generalization.similarity import (
    OWN_COMPANION_NOTE,
    SIZE_NOTE,
    TIED_NOTE,
    WIDTH_NOTE,
    caption_similarity,
    similarity,
    text_similarity,
)

IMAGES = labelled_images(1, test=[60])


def planted(seed, width=5, share=None):
    """Return a model with random features of all 61 images, of which a part can be another's."""
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(61, width, generator=rng)
    return PlantedFeatures(features if share is None else torch.cat([features, share], 1))


class OtherFeatures(PlantedFeatures):
    """A model of another name."""


class ReadsNumbers:
    """Gives the text of image number i row i of its features, and cuts every text after a word."""

    context_length = 1

    def __init__(self, features):
        self.features = features

    def encode_texts(self, texts):
        return self.features[[int(text.split()[1]) for text in texts]]

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


def probe(model, companion, **params):
    params = {"k": 4, "blocks": 6, **params}
    return similarity(model, IMAGES, Engine.for_tests(), companion=companion, **params)


def test_the_scores_are_those_of_the_vectors_of_test_images():
    model, companion = planted(0), planted(1, 7, planted(0).features)
    outcome = probe(model, companion)
    x, y = model.features[1:], companion.features[1:]
    mutual = mutual_knn(x, y, 4)
    assert values(outcome) == pytest.approx(
        {
            "cka_debiased": cka_debiased(x, y),
            "rdm_correlation": np.corrcoef(pdist(x), pdist(y))[0, 1],
            "mutual_knn": mutual,
            "mutual_knn_calibrated": calibrated(mutual, 4 / 59),
        }
    )
    assert (values(outcome)["cka_debiased"] > 0.3, outcome.counts) == (True, {"n": 60})


def test_each_score_says_what_it_takes_to_judge_it():
    scores = probe(planted(0), planted(1)).scores
    cka, _, mutual, above = scores
    assert [s.at for s in scores] == [{}, {}, {"k": 4}, {"k": 4}]
    assert [s.chance for s in scores] == pytest.approx([0, 0, 4 / 59, 0])
    assert all(s.n == 60 and s.ci95[0] < s.chance < s.ci95[1] for s in scores)
    assert (cka.limits, mutual.limits) == ((-1, 1), (0, 1))
    assert above.limits == pytest.approx((-4 / 55, 1))


SIZE = SIZE_NOTE.format(60)


def test_a_model_is_wholly_similar_to_itself_and_its_row_says_why():
    outcome = probe(planted(0), planted(0))
    assert values(outcome) == pytest.approx(dict.fromkeys(values(outcome), 1))
    assert all(s.ci95[0] < 1 for s in outcome.scores)
    assert outcome.notes == [SIZE, WIDTH_NOTE, OWN_COMPANION_NOTE]


def test_a_row_says_whose_large_mean_ties_the_neighbours_of_its_images():
    near, far = planted(0), planted(0)
    far.features = far.features + 1000  # cosines of 1 - 1e-6 and less apart
    outcome = probe(far, near)
    note = TIED_NOTE.format(1, "model")
    assert (note in outcome.notes, probe(near, near).notes.count(note)) == (True, 0)
    assert values(outcome)["mutual_knn"] < values(outcome)["cka_debiased"] - 0.8


def test_the_kernels_that_rows_keep_have_the_debiased_cka_of_their_models():
    x, y = planted(0), planted(1, 7, planted(0).features)
    kept = [probe(one, planted(2)).artifacts for one in (x, y)]
    found = np.corrcoef(*(one["kernel"].numpy() for one in kept))[0, 1]
    assert found == pytest.approx(cka_debiased(x.features[1:], y.features[1:]), abs=1e-6)
    names, blocks = (kept[0]["images"][key].to_pylist() for key in ("name", "category"))
    assert names == IMAGES.splits["test"]["image"].examples().ids
    assert sorted(Counter(blocks).values()) == [10] * 6
    assert kept[0]["images"] == kept[1]["images"]


def test_the_kernel_of_many_images_is_that_of_some(monkeypatch):
    monkeypatch.setattr(module, "MOST_IMAGES", 20)
    model = planted(0)
    kept = probe(model, planted(1)).artifacts
    ids = IMAGES.splits["test"]["image"].examples().ids
    rows = [ids.index(name) for name in kept["images"]["name"].to_pylist()]
    assert (len(rows), rows == sorted(rows)) == (20, True)
    expected = centred_kernel(model.features[1:][rows]).float()
    assert torch.equal(kept["kernel"], expected)


def test_another_seed_draws_other_blocks():
    ends = [probe(planted(0), planted(1), seed=seed).scores[0].ci95 for seed in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]


def test_captions_are_compared_as_images_are():
    model, features = planted(0), planted(1, 7, planted(0).features).features
    engine, data = Engine.for_tests(), captioned()
    found = caption_similarity(model, data, engine, companion=ReadsNumbers(features), k=4, blocks=6)
    assert found.scores == probe(model, OtherFeatures(features)).scores
    assert (found.counts, found.notes) == ({"n": 60, "truncated_texts": 60}, [SIZE, WIDTH_NOTE])


def captioned():
    texts = value_column([f"number {i}" for i in range(1, 61)], "text")
    return Data(splits={"test": Split({"image": IMAGES.splits["test"]["image"], "caption": texts})})


def test_captions_are_probed_as_images_are_and_their_kernels_are_compared():
    model, companion = planted(0), planted(1, 7, planted(0).features)
    engine, options = Engine.for_tests(), {"k": 4, "blocks": 6}
    reader = ReadsNumbers(model.features)
    found = text_similarity(reader, captioned(), engine, companion=companion, **options)
    images = similarity(companion, IMAGES, engine, companion=model, **options)
    assert values(found) == pytest.approx(values(images))
    assert found.counts == {"n": 60, "truncated_texts": 60}
    assert found.artifacts["images"] == images.artifacts["images"]
    kernels = [one.artifacts["kernel"].numpy() for one in (found, images)]
    expected = cka_debiased(model.features[1:], companion.features[1:])
    assert np.corrcoef(*kernels)[0, 1] == pytest.approx(expected, abs=1e-6)


def test_each_layer_of_texts_is_scored_and_no_kernel_is_kept():
    class Deep(ReadsNumbers):
        def text_layers(self):
            return ["noise", "output"]

        def encode_texts_at(self, texts, layers):
            noise = torch.randn(61, 5, generator=torch.Generator().manual_seed(7))
            rows = [int(text.split()[1]) for text in texts]
            return {n: (self.features if n == "output" else noise)[rows] for n in layers}

    model, companion = planted(0), planted(1, 7, planted(0).features)
    options = {"companion": companion, "k": 4, "blocks": 6, "layers": "all"}
    found = text_similarity(Deep(model.features), captioned(), Engine.for_tests(), **options)
    by_layer = {s.at["layer"]: s for s in found.scores if s.metric == "cka_debiased"}
    assert by_layer["noise"].ci95[0] < 0 < by_layer["noise"].ci95[1]
    expected = cka_debiased(model.features[1:], companion.features[1:])
    assert by_layer["output"].value == pytest.approx(expected)
    assert found.artifacts == {}


def copied(data, every):
    """Return data of which so many test images in a row are copies of one."""
    column = data.splits["test"]["image"]
    image = replace(column, digests=[str(row // every) for row in column.rows])
    texts = value_column([f"image {row} shown" for row in column.rows], "text")
    return replace(data, splits={"test": Split({"image": image, "caption": texts})})


def test_independent_models_are_no_more_similar_for_copies_of_images():
    above, every = Counter(), 4
    data = copied(IMAGES, every)
    for seed in range(40):
        drawn = [torch.Generator().manual_seed(1000 * kind + seed) for kind in (1, 2)]
        features = [torch.randn(1 + -(-60 // every), 5, generator=rng) for rng in drawn]
        rows = [torch.cat([one[:1], one[1:].repeat_interleave(every, 0)]) for one in features]
        model, companion = (PlantedFeatures(one) for one in rows)
        options = {"companion": companion, "k": 2, "blocks": 5, "seed": seed}
        outcome = similarity(model, data, Engine.for_tests(), **options)
        assert {score.n for score in outcome.scores} == {60 // every}
        for score in outcome.scores:
            above[score.metric] += score.ci95[0] > score.chance
    assert max(above.values()) <= 6  # of 40: 1 is expected, and more than 6 has p < .001
