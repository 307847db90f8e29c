import pytest
from caption_fakes import (
    NO_CAPTIONER,
    Likes,
    captioned,
    constant,
    nouns_of_the_image,
    plant,
    things,
)
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.engine import Known
from vlbench.probes.captioning.caption_cross import caption_cross
from vlbench.probes.captioning.caption_sets import Images

DATA = captioned()
NOUNS, SHORT, SAME = (
    Likes(nouns_of_the_image),
    Likes(lambda _, words: 1 / len(words)),
    Likes(constant),
)
NAMES = {id(NOUNS): "nouns", id(SHORT): "short", id(SAME): "same"}


class Cosines(Likes):
    def similarity(self, images, texts):
        raise NotImplementedError


LONG = Cosines(lambda _, words: len(words) - 5)


def probe(model, *scorers, names=NAMES, data=DATA, **params):
    engine = Engine.for_tests()
    known = {key: Known(name) for key, name in (names | {id(LONG): "long"}).items()}
    engine = Engine(ComputeSettings(engine.device), known=known)
    given = {"captioner": NO_CAPTIONER, "encoders": [], "metrics": ["rouge_l"]} | params
    return caption_cross(model, data, engine, scorers=list(scorers), **given)


@pytest.fixture(scope="module")
def square():
    """The row of a model that counts nouns: favourites name both things, captions before one."""
    with pytest.MonkeyPatch.context() as patch:
        both = "a {} a {}".format
        plant(patch, lambda i: f"a {things(i)[0]}", lambda i: both(*things(i)))
        yield probe(NOUNS, SHORT, SAME, LONG, seeds=2)


def values(outcome):
    return {(s.metric, *s.at.values()): s.value for s in outcome.scores}


def test_each_scorer_scores_the_favourites_and_the_captions_before(square):
    found = values(square)
    assert found["match_score", "nouns", "favourites"] == 1.0
    assert found["match_score", "nouns", "ce"] == 0.5
    assert found["match_score", "short", "favourites"] == 0.25
    assert found["match_score", "long", "favourites"] == -1.0
    assert found["match_score_gain", "short"] == -0.25
    assert found["outscores_ce", "nouns"] == 1.0
    assert found["outscores_ce", "short"] == 0.0
    assert found["outscores_ce", "same"] == 0.5
    assert found["outscores_ce", "long"] == 1.0


def test_the_primary_is_the_mean_over_the_scorers_other_than_the_model(square):
    (score,) = [s for s in square.scores if s.metric == "outscores_ce_of_others"]
    assert (score.value, score.at, score.chance) == (0.5, {}, 0.5)
    assert score.draws == [0.5, 0.5]
    assert "mean over short, same, long: outscores_ce_of_others" in square.notes


def test_only_probabilities_have_a_mean(square):
    found = values(square)
    assert found["match_score_of_others", "favourites"] == (0.25 + 0.5) / 2
    assert found["match_score_of_others", "ce"] == (0.5 + 0.5) / 2
    units = {s.at["scorer"]: s.unit for s in square.scores if s.metric == "match_score"}
    assert units["long"] == "cosine"
    assert "scores that are no probabilities enter no mean: long (cosine)" in square.notes


def test_the_metrics_of_captions_stand_beside(square):
    found = values(square)
    assert 0 < found["rouge_l", "favourites"] < 1
    assert found["rouge_l_gain",] == pytest.approx(
        found["rouge_l", "favourites"] - found["rouge_l", "ce"]
    )


def test_the_items_have_the_mean_of_their_scores(square):
    means = item_means(square.items)
    assert means == pytest.approx(scores_with_items(square.scores, square.items))
    assert ("outscores_ce", ("scorer", "short")) in means
    assert ("outscores_ce_of_others",) in means


def test_favourites_that_are_the_captions_before_outscore_none(monkeypatch):
    plant(monkeypatch, lambda i: f"a {things(i)[0]}", lambda i: f"a {things(i)[0]}")
    outcome = probe(SAME, NOUNS, LONG, metrics=[])
    chances = {s.metric: (s.value, s.chance) for s in outcome.scores if s.chance is not None}
    assert chances["outscores_ce"] == (0.5, 0.5)
    assert all(value == chance for value, chance in chances.values())


def test_a_scorer_named_twice_or_the_model_itself_stands_once(monkeypatch):
    plant(monkeypatch, lambda _: "a dog", lambda _: "a cat")
    outcome = probe(NOUNS, NOUNS, SHORT, SHORT, metrics=[])
    assert [s.at["scorer"] for s in outcome.scores if s.metric == "outscores_ce"] == [
        "nouns",
        "short",
    ]


def test_without_another_scorer_there_is_no_square():
    with pytest.raises(ValueError, match=r"scorers \['nouns'\]: wanted another one than the model"):
        probe(NOUNS, NOUNS)


def test_a_scorer_gets_the_pictures_with_regions_of_its_own_kind(monkeypatch):
    plant(monkeypatch, lambda _: "a dog", lambda _: "a cat")
    seen = []

    class Remembers(Likes):
        def score_pairs(self, pictures, texts):
            seen.extend(pictures)
            return super().score_pairs(pictures, texts)

    other, view = Remembers(constant), captioned()
    engine = Engine(
        ComputeSettings(Engine.for_tests().device), known={id(other): Known("other", view)}
    )
    given = {"captioner": NO_CAPTIONER, "encoders": [], "metrics": [], "images": Images(first=3)}
    caption_cross(NOUNS, DATA, engine, scorers=[other], **given)
    own = [view.splits["test"]["picture"][i] for i in range(3)]
    assert {id(picture.image) for picture in seen} == {id(picture.image) for picture in own}
