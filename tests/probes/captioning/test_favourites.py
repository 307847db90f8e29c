from io import BytesIO

import numpy as np
import PIL.Image
import pytest
from caption_world import (
    NO_CAPTIONER,
    Likes,
    captioned,
    constant,
    nouns_of_the_image,
    plant,
    tagged,
    things,
)
from item_means import item_means
from scipy import stats
from scoring import values

from vlbench.capabilities import Picture
from vlbench.data.records import Column, Split
from vlbench.engine import Engine
from vlbench.engine.engine import KnownModel
from vlbench.probes.captioning.caption_sets import Images, Subjects, references_of
from vlbench.probes.captioning.caption_tables import (
    caption_table,
    example_table,
    history_table,
    unigram_table,
)
from vlbench.probes.captioning.captioner import Favourites
from vlbench.probes.captioning.captioner_training import SelfCritical
from vlbench.probes.captioning.favourites import caption_cross, caption_patterns, training_part
from vlbench.probes.captioning.nouns import NounSource


def test_the_most_frequent_words_come_first_with_their_parts_of_speech():
    before = [tagged("a dog near a cat ."), tagged("a dog")]
    table = unigram_table({"ce": before, "favourites": [tagged("dog dog")]}).to_pylist()
    assert [(row["captions"], row["rank"], row["word"], row["count"]) for row in table] == [
        ("ce", 1, "a", 3),
        ("ce", 2, "dog", 2),
        ("ce", 3, "cat", 1),
        ("ce", 4, "near", 1),
        ("favourites", 1, "dog", 2),
    ]
    assert [row["part_of_speech"] for row in table] == ["DET", "NOUN", "NOUN", "ADP", "NOUN"]
    assert [row["share"] for row in table] == [3 / 7, 2 / 7, 1 / 7, 1 / 7, 1.0]


def test_ten_words_are_listed_each_with_the_tag_that_it_has_most_often_and_no_caption_has_none():
    long = tagged(" ".join(f"word{i:02}" for i in range(30)))
    assert unigram_table({"ce": [long]}).num_rows == 10
    assert unigram_table({"ce": [[]]}).num_rows == 0
    captions = [[("park", "NOUN")], [("park", "VERB")], [("park", "VERB")]]
    assert unigram_table({"ce": captions})["part_of_speech"].to_pylist() == ["VERB"]


DATA = captioned()
NOUNS = NounSource(leave_out=["image"])


def patterns(model, **params):
    given = {"captioner": NO_CAPTIONER, "nouns": NOUNS, "metrics": ["cider"]}
    return caption_patterns(model, DATA, Engine.for_tests(), **(given | params))


def one_thing(number):
    return f"a {things(number)[0]}"


def two_things(number):
    return "a {} a {}".format(*things(number))


def image_of_both(number):
    return "a image of a {} and a {}".format(*things(number))


@pytest.fixture(scope="module")
def liked():
    """The outcome of a model that likes nouns of the image, led to name both things."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, one_thing, image_of_both, image_of_both)
        yield patterns(Likes(nouns_of_the_image), seeds=2)


def test_the_favourites_of_a_model_that_counts_nouns_please_it_more(liked):
    found = values(liked)
    assert found["prefers_reference",] == 0.5
    assert found["match_score_gain",] == 0.5
    assert found["noun_recall", "favourites"] == 1.0
    assert found["noun_recall", "ce"] == 0.5
    assert found["length_gain",] == 6.0
    assert found["nonzero_advantages",] == 0.5
    assert found["prefix_ratio", "favourites", "clip"] == 1.0
    assert found["pattern_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "ce", "own"] == 0.0
    assert not any("SCST had not converged" in note for note in liked.notes)


@pytest.mark.parametrize("probe", ["patterns", "crossed"])
def test_a_run_that_ends_in_few_sentences_says_so(monkeypatch, probe):
    plant(monkeypatch, one_thing, lambda _: "a dog", image_of_both)
    outcome = run_probe(probe, Likes(nouns_of_the_image))
    assert outcome.counts["collapsed_runs"] == 1
    (note,) = [note for note in outcome.notes if "collapsed" in note]
    assert note.startswith("1 of 2 runs collapsed: their favourites of 16 images are 1 different")


@pytest.mark.parametrize("probe", ["patterns", "crossed"])
def test_a_reward_that_still_rises_over_the_last_epochs_has_not_converged(monkeypatch, probe):
    plant(monkeypatch, one_thing, image_of_both, before_last=one_thing)
    outcome = run_probe(probe, Likes(nouns_of_the_image))
    assert values(outcome)["late_match_score_gain",] == 0.5
    assert outcome.counts["collapsed_runs"] == 0
    (note,) = [note for note in outcome.notes if "SCST had not converged" in note]
    assert note.endswith("rose by 0.5 (late_match_score_gain)")


def run_probe(probe, model):
    if probe == "patterns":
        return patterns(model, seeds=2)
    return crossed(model, SHORT, names=NAMES | {id(model): "liked"}, seeds=2, metrics=[])


def test_each_budget_has_its_favourites_and_the_largest_is_that_of_the_row(monkeypatch):
    plant(monkeypatch, one_thing, image_of_both, lambda _: "a dog")
    captioner = NO_CAPTIONER._replace(self_critical=SelfCritical(budgets=[0, 1, 3]))
    outcome = patterns(Likes(nouns_of_the_image), captioner=captioner, seeds=2)
    found = values(outcome)
    for metric in ("prefers_reference", "prefers_reference_gain_from_image", "match_score_gain"):
        assert found[metric, 3] == found[metric, 1] == found[metric,]
    assert found["prefers_reference", 0] == 1
    assert (found["win_rate_vs_cross_entropy", 0], found["match_score_gain", 0]) == (0.5, 0)
    # Of the first seed all differ, as pairs of things do; the second says the same of all.
    assert found["distinct_favourites",] == (len({image_of_both(i) for i in range(16)}) + 1) / 2
    assert found["distinct_favourites", 0] == len({one_thing(i) for i in range(16)})
    assert item_means(outcome.items).keys() >= {("prefers_reference", ("budget", 3))}


def test_its_row_has_tables_of_captions_words_images_and_training(liked):
    assert set(liked.artifacts) == {"captions", "unigrams", "examples", "history"}
    rows = liked.artifacts["unigrams"].to_pylist()
    most = {row["captions"]: row["word"] for row in rows if row["rank"] == 1}
    assert most == {"favourites": "a", "ce": "a", "reference": "a"}
    assert liked.counts["scored_in_training"] == 20
    assert liked.counts["ties"] == 32


def test_under_a_constant_model_nothing_changes_and_shares_are_at_chance(monkeypatch):
    plant(monkeypatch, one_thing, one_thing)
    outcome = patterns(Likes(constant))
    with_chance = [score for score in outcome.scores if score.chance is not None]
    assert {s.metric for s in with_chance} >= {"prefers_reference", "cider_gain"}
    assert all(score.value == score.chance for score in with_chance)
    assert not any("SCST had not converged" in note for note in outcome.notes)


ENTRY = {"steps": 5.0, "sampled_score": 0.1, "greedy_score": 0.2, "share_with_advantage": 0.5}


def found(share):
    return Favourites({1: ["a dog"]}, ["a dog"], [ENTRY], share, 60)


def test_the_share_of_advantages_is_a_mean_of_seeds_with_students_interval_and_one_has_none():
    part = training_part([found(0.4), found(0.5), found(0.6)])
    (score,) = part.scores
    assert (score.value, score.n, score.draws) == (0.5, 3, [0.4, 0.5, 0.6])
    error = stats.sem([0.4, 0.5, 0.6])
    assert score.stderr == pytest.approx(error)
    # Wilson's about 1/2, of as many items as have this error, with Student's quantile.
    wide, n = stats.t.ppf(0.975, 2), 0.25 / error**2
    assert score.ci95[1] == pytest.approx(0.5 + wide * error / np.sqrt(1 + wide**2 / n))
    assert part.counts == {"scored_in_training": 180}
    (one,) = training_part([found(0.4)]).scores
    assert (one.value, one.stderr, one.ci95, one.draws) == (0.4, None, None, [])


def test_the_history_has_a_row_for_each_seed_and_entry():
    rows = history_table([found(0.4), found(0.5)]).to_pylist()
    assert rows == [{"seed": 0, **ENTRY}, {"seed": 1, **ENTRY}]


ROWS = captioned(test=20).splits["test"]
FAVOURITES = [[f"first {i}" for i in range(20)], [f"second {i}" for i in range(20)]]
SCORES = {
    "favourites": np.array([np.arange(20) + 0.5, np.arange(20) + 0.25]),
    "ce": np.zeros((1, 20)),
    "reference": np.ones((1, 20)),
}
SUBJECTS = Subjects(ROWS, references_of(ROWS), ["before"] * 20, FAVOURITES, FAVOURITES)


def test_every_caption_stands_with_its_score():
    rows = caption_table(SUBJECTS, SCORES).to_pylist()
    assert len(rows) == 40
    assert rows[23] == {
        "id": "3.png",
        "digest": ROWS["picture"].examples().digests[3],
        "seed": 1,
        "reference": "a cup and a hat",
        "ce": "before",
        "favourites": "second 3",
        "reference_score": 1.0,
        "ce_score": 0.0,
        "favourites_score": 3.25,
    }


def test_twelve_images_are_drawn_and_stand_beside_their_captions():
    rows = example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert len(rows) == 12
    for row in rows:
        number = int(row["id"].removesuffix(".png"))
        assert row["favourites"] == f"first {number}"
        image = PIL.Image.open(BytesIO(row["image"]))
        assert image.getpixel((0, 0)) == (0, number, 0)
    assert rows == example_table(SUBJECTS, SCORES, seed=0).to_pylist()
    assert rows != example_table(SUBJECTS, SCORES, seed=1).to_pylist()


def with_pictures(image):
    """Return the subjects with one picture for all."""
    pictures = Column("key", "picture", [Picture(image, None)] * 20, range(20))
    return SUBJECTS._replace(rows=Split({"picture": pictures, "captions": ROWS["captions"]}))


def test_a_large_image_is_shrunk_and_data_without_images_have_no_examples():
    large = with_pictures(PIL.Image.new("RGB", (1000, 500)))
    table = example_table(large, SCORES, seed=0)
    assert PIL.Image.open(BytesIO(table["image"][0].as_py())).size == (192, 96)
    assert example_table(with_pictures(None), SCORES, seed=0) is None


COUNTS, SAME = Likes(nouns_of_the_image), Likes(constant)
SHORT = Likes(lambda _, words: 1 / len(words))
NAMES = {id(COUNTS): "nouns", id(SHORT): "short", id(SAME): "same"}


class Cosines(Likes):
    def similarity(self, images, texts):
        raise NotImplementedError


LONG = Cosines(lambda _, words: len(words) - 5)


def crossed(model, *scorers, names=NAMES, data=DATA, **params):
    known = {key: KnownModel(name) for key, name in (names | {id(LONG): "long"}).items()}
    engine = Engine(Engine.for_tests().settings, known=known)
    given = {"captioner": NO_CAPTIONER, "metrics": ["rouge_l"]} | params
    return caption_cross(model, data, engine, scorers=list(scorers), **given)


@pytest.fixture(scope="module")
def square():
    """The row of a model that counts nouns: favourites name both things, captions before one."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, one_thing, two_things)
        yield crossed(COUNTS, SHORT, SAME, LONG, seeds=2)


def test_each_scorer_scores_the_favourites_and_the_captions_before(square):
    found = values(square)
    assert found["match_score", "nouns", "favourites"] == 1.0
    assert found["match_score", "nouns", "ce"] == 0.5
    assert found["match_score", "short", "favourites"] == 0.25
    assert found["match_score", "long", "favourites"] == -1.0
    assert found["match_score_gain", "short"] == -0.25
    assert found["win_rate_vs_cross_entropy", "nouns"] == 1.0
    assert found["win_rate_vs_cross_entropy", "short"] == 0.0
    assert found["win_rate_vs_cross_entropy", "same"] == 0.5
    assert found["win_rate_vs_cross_entropy", "long"] == 1.0


def test_each_judge_is_told_by_itself_and_the_models_own_is_named(square):
    assert not [score for score in square.scores if "of_others" in score.metric]
    units = {s.at["scorer"]: s.unit for s in square.scores if s.metric == "match_score"}
    assert units == dict.fromkeys(["nouns", "short", "same"], "unstated") | {"long": "cosine"}
    (own,) = [note for note in square.notes if "the model's own score" in note]
    told = "the model's own score, which rewarded its favourites"
    assert own == f"win_rate_vs_cross_entropy nouns: {told}"


def test_metrics_of_captions_and_precision_and_recall_of_nouns_stand_beside(square):
    found = values(square)
    assert found["noun_precision", "favourites"] == found["noun_precision", "ce"] == 1.0
    assert found["noun_recall_gain",] > 0
    own, before = found["rouge_l", "favourites"], found["rouge_l", "ce"]
    assert 0 < own < 1
    assert found["rouge_l_gain",] == pytest.approx(own - before)


def test_each_budget_has_its_row_of_the_square(monkeypatch):
    plant(monkeypatch, one_thing, two_things)
    captioner = NO_CAPTIONER._replace(self_critical=SelfCritical(budgets=[0, 1, 3]))
    found = values(crossed(COUNTS, SHORT, LONG, captioner=captioner, metrics=[]))
    for budget, share in ((0, 0.5), (1, 1.0), (3, 1.0)):
        assert found["win_rate_vs_cross_entropy", "nouns", budget] == share
    assert found["win_rate_vs_cross_entropy", "long", 3] == 1.0


def test_favourites_that_are_the_captions_before_outscore_none(monkeypatch):
    plant(monkeypatch, one_thing, one_thing)
    outcome = crossed(SAME, COUNTS, LONG, metrics=[])
    chances = {s.metric: (s.value, s.chance) for s in outcome.scores if s.chance is not None}
    assert chances["win_rate_vs_cross_entropy"] == (0.5, 0.5)
    assert all(value == chance for value, chance in chances.values())


def test_a_scorer_named_twice_or_the_model_itself_stands_once(monkeypatch):
    plant(monkeypatch, lambda _: "a dog", lambda _: "a cat")
    scores = crossed(COUNTS, COUNTS, SHORT, SHORT, metrics=[]).scores
    own = [s.at["scorer"] for s in scores if s.metric == "win_rate_vs_cross_entropy"]
    assert own == ["nouns", "short"]


def test_without_another_scorer_there_is_no_square():
    why = r"scorers \['nouns'\]: a scorer must differ from the model"
    with pytest.raises(ValueError, match=why):
        crossed(COUNTS, COUNTS)


def test_a_scorer_gets_the_pictures_with_regions_of_its_own_kind(monkeypatch):
    plant(monkeypatch, lambda _: "a dog", lambda _: "a cat")
    seen = []

    class Remembers(Likes):
        def score_pairs(self, pictures, texts):
            seen.extend(pictures)
            return super().score_pairs(pictures, texts)

    other, view = Remembers(constant), captioned()
    known = {id(other): KnownModel("other", view)}
    engine = Engine(Engine.for_tests().settings, known=known)
    given = {"captioner": NO_CAPTIONER, "metrics": [], "images": Images(first=3)}
    caption_cross(COUNTS, DATA, engine, scorers=[other], **given)
    own = [view.splits["test"]["picture"][i] for i in range(3)]
    assert {id(picture.image) for picture in seen} == {id(picture.image) for picture in own}
