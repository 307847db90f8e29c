from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from fakes import PlantedFeatures, planted_image
from sklearn.metrics import average_precision_score, top_k_accuracy_score
from torch.nn.functional import normalize

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import DataError, SpecError, TooFewRows
from vlbench.probes.matching import retrieval as module
from vlbench.probes.matching.retrieval import retrieval, retrieval_in_pools

BOTH = [retrieval, retrieval_in_pools]
FIVE = (5,) * 12


class Towers(PlantedFeatures):
    """Gives image number i row i of [N, D], and the text "3 ..." row 3 of [M, D]; cosines."""

    def __init__(self, images, texts):
        super().__init__(images)
        self.texts, self.read = texts, 0

    def encode_texts(self, texts):
        self.read += len(texts)
        return self.texts[[int(text.split()[0]) for text in texts]]

    def similarity(self, images, texts):
        return normalize(images, dim=1) @ normalize(texts, dim=1).T


class CutsTexts(Towers):
    """Reads one word of a text."""

    context_length = 1

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


class Scorer:
    """Scores pairs as a model of two towers does, which it has not."""

    def __init__(self, towers):
        self.towers = towers

    def score_pairs(self, pictures, texts):
        pixels = torch.stack([self.towers.preprocess(one.image) for one in pictures])
        images, texts = self.towers.encode_images(pixels), self.towers.encode_texts(texts)
        return self.towers.similarity(images, texts).diagonal()


def captioned(*counts, texts=None):
    """Return test images with so many captions each, which say their numbers."""
    said = iter(range(sum(counts)))
    captions = texts or [[f"{next(said)} said" for _ in range(n)] for n in counts]
    shown = [planted_image(0, i) for i in range(len(counts))]
    names = [f"{i}.png" for i in range(len(counts))]
    images = Column(f"images {len(counts)}", "image", shown, range(len(counts)), names=names)
    pictures = replace(images, kind="picture", stored=[Picture(image, None) for image in shown])
    columns = {"image": images, "picture": pictures, "captions": value_column(captions)}
    return Data(splits={"test": Split(columns)})


def noise(images, texts, width=6, seed=0):
    made = torch.Generator().manual_seed(seed)
    return Towers(*(torch.randn(n, width, generator=made) for n in (images, texts)))


def oracle(*counts):
    axes = torch.eye(len(counts))
    return Towers(axes, axes.repeat_interleave(torch.tensor(counts), 0))


def probe(which, model, data, **params):
    return which(model, data, Engine.for_tests(), **params)


def values(outcome):
    """Return values by metric, what is retrieved, and k."""
    return {(s.metric, s.at["retrieve"], s.at.get("k")): s.value for s in outcome.scores}


def only(outcome, metric, **at):
    (found,) = [s for s in outcome.scores if s.metric == metric and at.items() <= s.at.items()]
    return found


def by_numpy(model, counts, k):
    """Return recall, median rank and mean average precision both ways, from whole matrices."""
    images, texts = (x.double().numpy() for x in (model.features, model.texts))
    cosines = (images @ texts.T) / np.linalg.norm(images, axis=1)[:, None]
    cosines /= np.linalg.norm(texts, axis=1)
    owner = np.repeat(np.arange(len(counts)), counts)
    right = owner == np.arange(len(counts))[:, None]
    to_text = np.where(right, (-cosines).argsort(1).argsort(1), len(texts)).min(1)
    to_image = (-cosines.T).argsort(1).argsort(1)[range(len(owner)), owner]
    ranks = {"text": to_text, "image": to_image}
    found = {("recall", to, n): (rank < n).mean() for to, rank in ranks.items() for n in k}
    found |= {("median_rank", to, None): np.median(rank) + 1 for to, rank in ranks.items()}
    precision = {
        to: np.mean([average_precision_score(y, x) for y, x in zip(*of_queries, strict=True)])
        for to, of_queries in {"text": (right, cosines), "image": (right.T, cosines.T)}.items()
    }
    return found | {("mean_average_precision", to, None): x for to, x in precision.items()}


@pytest.mark.parametrize("counts", [FIVE, (1,) * 9, (3, 1, 7, 2, 2, 1)])
def test_scores_are_those_of_whole_matrices_in_numpy(counts):
    model, k = noise(len(counts), sum(counts)), (1, 2, 5)
    found = values(probe(retrieval, model, captioned(*counts), k=k))
    assert found == pytest.approx(by_numpy(model, counts, k), rel=0, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_recall_of_one_image_is_top_k_accuracy_of_scikit_learn(k):
    model = noise(12, 60)
    found = only(probe(retrieval, model, captioned(*FIVE), k=[k]), "recall", retrieve="image")
    cosines = model.similarity(model.features, model.texts).T.numpy()
    owner = np.repeat(np.arange(12), 5)
    assert found.value == pytest.approx(top_k_accuracy_score(owner, cosines, k=k), abs=1e-12)


def test_recall_and_rank_are_the_same_in_small_blocks_and_in_a_pool_of_all_images(monkeypatch):
    counts = (3, 1, 7, 2, 2, 1)
    whole = values(probe(retrieval, noise(6, 16), captioned(*counts)))
    pooled = values(probe(retrieval, noise(6, 16), captioned(*counts), pool=6))
    assert pooled == pytest.approx(whole)
    monkeypatch.setattr(module, "BLOCK", 40)
    assert values(probe(retrieval, noise(6, 16), captioned(*counts))) == pytest.approx(whole)


@pytest.mark.parametrize("which", BOTH)
def test_a_constant_model_scores_exactly_chance(which):
    counts = (3, 1, 7, 2, 2, 1)
    # Two vectors whose product is nearly 0, so that it is all rounding.
    image, text = torch.randn(2, 64, generator=torch.Generator().manual_seed(0)).double()
    text -= image * (image @ text - 1e-3) / (image @ image)
    rows = (v.float().expand(n, -1) for v, n in ((image, len(counts)), (text, sum(counts))))
    outcome = probe(which, Towers(*rows), captioned(*counts), pool=3, k=[1, 2, 5])
    assert [s.value for s in outcome.scores] == pytest.approx([s.chance for s in outcome.scores])
    ranked = sum(x["metric"] == "mean_average_precision" for x in outcome.items.to_pylist())
    assert outcome.counts["ties"] == outcome.counts["choices"] == ranked


@pytest.mark.parametrize("tower", ["features", "texts"])
def test_one_constant_tower_scores_chance_whatever_the_other_says(tower):
    model = noise(12, 60, width=64)
    getattr(model, tower)[:] = getattr(model, tower)[0].clone()
    outcome = probe(retrieval, model, captioned(*FIVE))
    way = "image" if tower == "features" else "text"
    found = [s for s in outcome.scores if s.at["retrieve"] == way]
    assert [s.value for s in found] == pytest.approx([s.chance for s in found])
    assert "have identical vectors," in outcome.notes[0]


def test_a_similarity_that_is_one_number_expanded_scores_chance():
    class OneNumber(Towers):
        def similarity(self, images, texts):
            return torch.tensor(0.5).expand(len(images), len(texts))

    texts = [["0 a", "1 b"], ["0 a"]]
    model = OneNumber(*(noise(2, 2).features for _ in range(2)))
    outcome = probe(retrieval, model, captioned(2, 1, texts=texts), k=[1])
    assert [s.value for s in outcome.scores] == pytest.approx([s.chance for s in outcome.scores])


def test_chance_is_that_of_drawing_candidates():
    outcome = probe(retrieval, noise(4, 8), captioned(2, 2, 2, 2), k=[1, 2])
    chance = {(s.metric, s.at["retrieve"], s.at.get("k")): s.chance for s in outcome.scores}
    assert chance == pytest.approx(
        {
            ("recall", "text", 1): 2 / 8,
            ("recall", "text", 2): 1 - (6 * 5) / (8 * 7),
            # Of 8, 2 are right: the first is at place 2 or before in 13 of 28 draws, at 3 in 18.
            ("median_rank", "text", None): 3,
            ("mean_average_precision", "text", None): np.mean(
                [(1 / a + 2 / b) / 2 for a, b in combinations(range(1, 9), 2)]
            ),
            ("recall", "image", 1): 1 / 4,
            ("recall", "image", 2): 2 / 4,
            ("median_rank", "image", None): 5 / 2,
            ("mean_average_precision", "image", None): (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4,
        }
    )


@pytest.mark.parametrize("which", BOTH)
def test_a_model_that_knows_every_caption_is_always_right(which):
    counts = (3, 1, 7, 2, 2, 1)
    found = values(probe(which, oracle(*counts), captioned(*counts), pool=3))
    assert set(found.values()) == {1.0}


def test_tied_images_share_the_credit_of_a_caption():
    axes = torch.eye(3)
    # The caption of image 0 fits images 0 and 1 alike; that of image 2 fits none best.
    model = Towers(axes, torch.tensor([[1.0, 1, 0], [0, 1, 0], [1, 0, 0]]))
    outcome = probe(retrieval, model, captioned(1, 1, 1), k=[1, 2])
    assert only(outcome, "recall", retrieve="image", k=1).value == pytest.approx((0.5 + 1 + 0) / 3)
    assert only(outcome, "recall", retrieve="image", k=2).value == pytest.approx((1 + 1 + 0.5) / 3)
    # Ranks are 1 or 2, 1, and 2 or 3: recall at 1 is exactly 1/2.
    assert only(outcome, "median_rank", retrieve="image").value == (1 + 2) / 2
    precision = only(outcome, "mean_average_precision", retrieve="image").value
    assert precision == pytest.approx(((1 + 1 / 2) / 2 + 1 + (1 / 2 + 1 / 3) / 2) / 3)


def test_several_right_captions_tied_with_wrong_ones_share_their_credit():
    axes = torch.eye(2)
    # Image 0 has three captions, of which two fit as well as the one of image 1.
    model = Towers(axes, torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]]))
    outcome = probe(retrieval, model, captioned(3, 1), k=[1])
    items = outcome.items.to_pylist()
    found = {x["id"]: x["credit"] for x in items if '"text"' in x["at"] and '"k"' in x["at"]}
    assert found == {"0.png": pytest.approx(2 / 3), "1.png": 0}
    several = [x for x in items if x["metric"] == "mean_average_precision"]
    precision = {x["id"]: x["credit"] for x in several}
    # The wrong caption of image 0 is before, between or after its two tied ones; the last is 4th.
    of_orders = [(1 / 2 + 2 / 3), (1 + 2 / 3), (1 + 1)]
    assert precision["0.png"] == pytest.approx((np.mean(of_orders) + 3 / 4) / 3)
    # The caption of image 1 is worse than one, and tied with none; then two.
    assert precision["1.png"] == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)


@pytest.mark.parametrize("pool", [None, 3])
def test_items_of_the_first_rank_name_the_candidate_of_it_and_the_right_one(pool):
    counts = (2, 1, 3, 2, 1, 1)
    data, model = captioned(*counts), oracle(*counts)
    items = probe(retrieval, model, data, pool=pool, k=[1, 2]).items.to_pylist()
    first = [x for x in items if '"k": 1' in x["at"]]
    assert all(x["prediction"] == x["target"] for x in first)
    names, captions = data.splits["test"]["image"].names, data.splits["test"]["captions"]
    for x in first:
        image = x["id"].partition("/")[0]
        own = [image] if "/" in x["id"] else captions[names.index(image)]
        assert x["target"] in own
    assert not any(x["target"] for x in items if '"k": 2' in x["at"])


def test_items_name_the_wrong_candidate_that_ranks_first():
    # Each image is like the caption of the other.
    model = Towers(torch.eye(2), torch.eye(2).flip(0))
    outcome = probe(retrieval, model, captioned(1, 1, texts=[["0 a"], ["1 b"]]), k=[1])
    items = [x for x in outcome.items.to_pylist() if '"k": 1' in x["at"]]
    said = {x["id"]: (x["prediction"], x["target"]) for x in items}
    of_captions = {"0.png/0": ("1.png", "0.png"), "1.png/0": ("0.png", "1.png")}
    assert said == {"0.png": ("1 b", "0 a"), "1.png": ("0 a", "1 b")} | of_captions


def test_captions_of_the_same_words_are_encoded_once():
    model = Towers(torch.eye(2), torch.eye(2))
    probe(retrieval, model, captioned(40, 40, texts=[["0 a"] * 40, ["1 b"] * 40]), k=[1])
    # A batch of 32, filled up, and some of it again.
    assert model.read < 40


def test_captions_of_the_same_words_are_tied_and_counted():
    texts = [["0 a", "1 b"], ["0 a"], ["2 c", "2 c"]]
    model = Towers(torch.eye(3), torch.eye(3))
    outcome = probe(retrieval, model, captioned(2, 1, 2, texts=texts), k=[1])
    assert outcome.counts["repeated_captions"] == 2
    items = outcome.items.to_pylist()
    found = {x["id"]: x["credit"] for x in items if '"text"' in x["at"] and '"k"' in x["at"]}
    assert found == {"0.png": 0.5, "1.png": 0.0, "2.png": 1.0}


@pytest.mark.parametrize(("texts", "repeated"), [([["0 a"]] * 4, 4), ([["0 a"], ["1 b"]], 0)])
def test_captions_that_another_pool_repeats_are_not_counted(texts, repeated):
    n = len(texts)
    outcome = probe(retrieval, noise(n, 2), captioned(*[1] * n, texts=texts), pool=2)
    assert outcome.counts["repeated_captions"] == repeated


@pytest.mark.parametrize("which", BOTH)
def test_pools_are_ranked_by_themselves_and_the_rest_is_counted(which):
    outcome = probe(which, noise(12, 60), captioned(*FIVE), pool=5)
    counts = {name: outcome.counts[name] for name in ("left_out", "clusters", "captions")}
    assert counts == {"left_out": 2, "clusters": 10, "captions": 50}
    first = probe(which, noise(12, 60), captioned(*FIVE), pool=4, images=4)
    assert only(first, "recall", retrieve="text", k=1).n == 4
    score = only(outcome, "recall", retrieve="image", k=1)
    assert (score.at["pool"], score.n, score.chance) == (5, 50, pytest.approx(0.2))
    assert only(outcome, "median_rank", retrieve="image").range == (1, 5)


def test_pools_are_drawn_with_the_seed():
    model, data = noise(12, 60), captioned(*FIVE)
    found = [values(probe(retrieval, model, data, pool=4, seed=seed)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_a_scorer_its_towers_and_both_give_the_same():
    class Both(Towers):
        score_pairs = Scorer.score_pairs

        @property
        def towers(self):
            return self

    model, data = noise(6, 16), captioned(3, 1, 7, 2, 2, 1)
    both = Both(model.features, model.texts)
    wanted = values(probe(retrieval, model, data, pool=3))
    for other in (model, Scorer(model), both):
        assert values(probe(retrieval_in_pools, other, data, pool=3)) == pytest.approx(wanted)


def test_the_interval_of_a_median_that_is_one_rank_has_its_rounding():
    counts = (2,) * 30
    outcome = probe(retrieval, oracle(*counts), captioned(*counts))
    assert only(outcome, "median_rank", retrieve="image").ci95 == (0.5, 1.5)
    # So few queries may have any median.
    few = probe(retrieval, oracle(1, 1), captioned(1, 1))
    assert only(few, "median_rank", retrieve="image").ci95 == (1, 2)


class Reads(Towers):
    """Keeps the texts that it reads, whose last word but one is a number."""

    def encode_texts(self, texts):
        self.seen = [*getattr(self, "seen", []), *texts]
        return self.texts[[int(text.split()[-2]) for text in texts]]


@pytest.mark.parametrize("which", BOTH)
def test_the_model_reads_captions_in_the_prompt_and_items_keep_them_as_written(which):
    model = Reads(torch.eye(2), torch.eye(3)[:, :2])
    data, params = captioned(2, 1), {"k": [1], "pool": 2}
    plain = probe(which, noise(2, 3), data, **params)
    prompted = probe(which, model, data, **params, prompt="a photo of {}")
    assert set(model.seen) == {f"a photo of {i} said" for i in range(3)}
    digests = [outcome.items["digest"].to_pylist() for outcome in (plain, prompted)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("which", BOTH)
def test_the_first_captions_of_an_image_alone_are_queries(which):
    outcome = probe(which, noise(3, 9), captioned(5, 1, 3), pool=3, captions=2)
    assert outcome.counts["captions"] == 2 + 1 + 2
    ids = {x["id"] for x in outcome.items.to_pylist() if x["cluster"]}
    assert ids == {"0.png/0", "0.png/1", "1.png/0", "2.png/0", "2.png/1"}


@pytest.mark.parametrize("which", BOTH)
def test_no_captions_and_a_prompt_without_a_place_are_refused(which):
    with pytest.raises(ValueError, match="captions 0: must be 1 or more"):
        probe(which, noise(12, 60), captioned(*FIVE), captions=0)
    with pytest.raises(ValueError, match=r"prompt 'a photo' has no \{\} for the caption"):
        probe(which, noise(12, 60), captioned(*FIVE), prompt="a photo")


def test_captions_of_an_image_are_one_cluster():
    items = probe(retrieval, oracle(2, 1), captioned(2, 1), k=[1]).items.to_pylist()
    clusters = {x["id"]: x["cluster"] for x in items}
    of_captions = {"0.png/0": "0.png", "0.png/1": "0.png", "1.png/0": "1.png"}
    assert clusters == {"0.png": None, "1.png": None} | of_captions


def test_captions_that_the_model_cuts_are_counted():
    model = noise(2, 3)
    data = captioned(2, 1, texts=[["0", "1 cut"], ["2 cut"]])
    counts = probe(retrieval, CutsTexts(model.features, model.texts), data).counts
    assert counts["truncated_texts"] == 2


def test_too_few_images_are_skipped_and_one_without_captions_is_named():
    with pytest.raises(TooFewRows, match="1 image; there is nothing to rank"):
        probe(retrieval, noise(1, 5), captioned(5))
    with pytest.raises(TooFewRows, match=r"12 images; a pool has 20; a split needs 20 rows"):
        probe(retrieval_in_pools, noise(12, 60), captioned(*FIVE))
    with pytest.raises(DataError, match=r"image 1\.png has no caption"):
        probe(retrieval, noise(2, 5), captioned(5, 0))


@pytest.mark.parametrize("params", [{"k": []}, {"k": [0]}, {"pool": 1}])
@pytest.mark.parametrize("which", BOTH)
def test_params_that_rank_nothing_are_refused(which, params):
    with pytest.raises(ValueError, match="k must be 1 or more, and the pool 2 or more"):
        probe(which, noise(12, 60), captioned(*FIVE), **params)


def test_a_similarity_that_is_no_number_is_refused():
    class Broken(Towers):
        def similarity(self, images, texts):
            return super().similarity(images, texts) * torch.nan

    model = noise(2, 2)
    with pytest.raises(ValueError, match="a score is not finite"):
        probe(retrieval, Broken(model.features, model.texts), captioned(1, 1))


class Softmax(Towers):
    """Gives an image probabilities of the texts that it is compared with."""

    def similarity(self, images, texts):
        return super().similarity(images, texts).softmax(1)


class Centres(Towers):
    """Centres the vectors of texts in place."""

    def similarity(self, images, texts):
        texts -= 0.5
        return super().similarity(images, texts)


@pytest.mark.parametrize("kind", [Softmax, Centres])
def test_a_similarity_that_depends_on_other_pairs_or_changes_vectors_is_refused(kind):
    towers = noise(3, 6)
    with pytest.raises(SpecError, match=rf"test_retrieval.py:\d+: {kind.__name__}.similarity must"):
        probe(retrieval, kind(towers.features, towers.texts), captioned(2, 2, 2))
