"""What a sure model scores: its log-odds lie far apart where its probabilities round to 0 and 1."""

import pytest
import torch
from caption_world import Taste, right_nouns, world
from fakes import PlantedFeatures, labelled_images, planted_image
from foil_fakes import Sees, foil_rows
from scoring import values, with_scores

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import Picture
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.matching import preference
from vlbench.probes.captioning.pairwise import Share, compare_texts
from vlbench.probes.generalization import classification as classification_probe
from vlbench.probes.matching.choice import choice
from vlbench.probes.matching.retrieval import retrieval_in_pools

classification = with_scores(classification_probe.classification)

MARGINS = [0, 16, 60]
FOILS = foil_rows()


class LogOdds:
    """Scores pairs as another scorer does, all of them surer of a match by a margin."""

    score_kind = "logit"

    def __init__(self, scorer, margin):
        self.scorer, self.margin = scorer, margin

    def score_pairs(self, pictures, texts):
        return self.margin + self.scorer.score_pairs(pictures, texts)


class Probabilities(LogOdds):
    score_kind = "probability"

    def score_pairs(self, pictures, texts):
        return super().score_pairs(pictures, texts).sigmoid()


class InPools:
    """The right pair is second of its pool: 10 and -14 are the logits of the issue, others -18."""

    score_kind = "logit"

    def score_pairs(self, pictures, texts):
        shown = [picture.image.getpixel((0, 0))[1] for picture in pictures]
        said = [int(text.split()[0]) for text in texts]
        pairs = zip(shown, said, strict=True)
        return torch.tensor([-14.0 if a == b else 10.0 if b == 0 else -18.0 for a, b in pairs])


def test_the_second_of_a_pool_is_second_behind_a_sure_first():
    images = Column("i", "image", [planted_image(0, i) for i in range(20)], range(20))
    pictures = Column("p", "picture", [Picture(x, None) for x in images.stored], range(20))
    captions = value_column([[f"{i} said"] for i in range(20)])
    split = Split({"image": images, "picture": pictures, "captions": captions})
    outcome = retrieval_in_pools(InPools(), Data(splits={"test": split}), Engine.for_tests(), k=[5])
    assert values(outcome)["recall", "text", 5, 20] == 1.0


class Masked(PlantedFeatures):
    """Gives a class that it leaves out a logit far below all others."""

    def logits(self, pixels):
        return self.encode_images(pixels)

    def class_names(self):
        return ["class 0", "class 1", "class 2"]


def test_a_logit_far_below_does_not_tie_those_that_are_compared():
    labelled = labelled_images(2, 2, 1)
    logits = torch.tensor([[2.0, 1.0, -1e9]] * 4 + [[1.0, 2.0, -1e9]] * 4 + [[2.0, 1.0, -1e9]] * 2)
    outcome = classification(Masked(logits), labelled, Engine.for_tests(), categories=None)
    assert outcome.counts["ties"] == 0


@pytest.mark.parametrize("margin", MARGINS)
def test_texts_are_told_apart_and_printed_as_probabilities(margin):
    data = world([["a dog"], ["a boat"], ["a cat"]])
    scorer = LogOdds(Taste(right_nouns), margin)
    texts = [{"right": f"a {n}", "wrong": "a tree"} for n in ("dog", "boat", "cat")]
    alone = TextScorer([["a dog"]])
    model = PairScorer(scorer, data.splits["test"], Engine.for_tests())
    contest = compare_texts(model, alone, texts, [0, 1, 2], seed=0)
    share, *_ = contest.share(Share("first", {}, [["right", "wrong"]]))
    assert share.score.value == 1.0
    printed = contest.match({}, "right").score
    assert printed.value == pytest.approx(torch.tensor(margin + 1.0).sigmoid().item())


@pytest.mark.parametrize("margin", MARGINS)
def test_a_preference_between_log_odds_is_none_between_probabilities(margin):
    first, second = (torch.tensor([[margin + x]], dtype=torch.float64) for x in (2.0, 0.0))
    assert preference(first.numpy(), second.numpy(), log_odds=True).credit.mean() == 1.0
    as_printed = [x.sigmoid().float().numpy() for x in (first, second)]
    assert preference(*as_printed).credit.mean() == (0.5 if margin >= 16 else 1.0)


def test_probabilities_that_round_to_one_are_counted():
    engine = Engine.for_tests()
    outcome = choice(Probabilities(Sees(), 60), FOILS, engine)
    assert values(outcome)["text_accuracy",] == 0.5
    assert engine.saturated > 0
    for scorer in (Probabilities(Sees(), 0), LogOdds(Sees(), 60)):
        engine = Engine.for_tests()
        choice(scorer, FOILS, engine)
        assert engine.saturated == 0
