import pytest
from caption_fakes import Likes, captioned, constant, nouns_of_the_image, things
from item_means import item_means

from vlbench.engine import Engine
from vlbench.probes.captioning.caption_metrics import matching_part, score_kind
from vlbench.probes.captioning.caption_sets import Subjects, references_of
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.scoring import PairScorer

DATA = captioned()
ROWS = DATA.splits["test"]
TEXT = TextScorer(DATA.splits["train"])


def part(rule, *favourites):
    """Return the part where the captions before name one thing, favourites are as given."""
    n = len(ROWS)
    before = [f"a {things(i)[0]}" for i in range(n)]
    told = [[one(i) for i in range(n)] for one in favourites]
    subjects = Subjects(ROWS, references_of(ROWS), before, told)
    scorer = PairScorer(Likes(rule), ROWS, Engine.for_tests())
    found, scores = matching_part(scorer, subjects, TEXT, "probability", seed=0)
    values = {(score.metric, *score.at.values()): score for score in found.scores}
    return found, values, scores


def nothing(_):
    return "there is a image"


def everything(number):
    return "a {} a {}".format(*things(number))


def test_a_model_that_cannot_be_led_astray_prefers_the_reference():
    _, values, _ = part(nouns_of_the_image, nothing)
    assert values["prefers_reference",].value == 1.0
    assert values["match_score", "favourites"].value == 0.0
    assert values["match_score", "ce"].value == 0.5
    assert values["match_score", "reference"].value == 1.0
    assert values["match_score", "reference_of_another_image"].value < 0.5
    assert values["match_score_gain",].value == -0.5


def test_each_seed_is_a_draw():
    _, values, scores = part(nouns_of_the_image, nothing, everything)
    score = values["prefers_reference",]
    assert (score.value, score.draws, score.n) == (0.75, [1.0, 0.5], len(ROWS))
    assert scores["favourites"].shape == (2, len(ROWS))


def test_under_a_constant_model_every_share_is_at_chance_and_nothing_changes():
    found, values, _ = part(constant, lambda i: f"a {things(i)[0]}")
    for control in ("", "_another_image"):
        assert values[f"prefers_reference{control}",].value == 0.5
    assert values["prefers_reference_tied",].value == 1.0
    assert values["match_score_gain",].value == 0.0
    assert values["match_score_gain",].ci95 == (0.0, 0.0)
    assert found.notes[0].startswith("SCST found nothing")
    n = len(ROWS)
    assert f"prefers_reference: the scores are tied in {n} of {n} choices" in found.notes[1]
    assert found.counts == {"ties": len(ROWS), "choices": len(ROWS)}


def test_what_is_preferred_for_another_image_too_is_no_matter_of_the_image():
    # Likes short captions, of whatever image.
    _, values, _ = part(lambda _, words: -len(words), everything)
    assert values["prefers_reference",].value == 0.0
    assert values["prefers_reference_another_image",].value == 0.0


def test_a_trigram_model_tells_blind_what_is_not_said_by_people():
    _, values, _ = part(constant, lambda _: "a a a a a")
    assert values["prefers_reference_text_only",].value == 1.0
    _, values, _ = part(constant, lambda i: f"a {things(i)[0]} and a {things(i)[1]}")
    assert values["prefers_reference_text_only",].value == 0.5


def test_the_items_have_the_mean_of_their_scores():
    found, _, _ = part(nouns_of_the_image, nothing, everything)
    means = item_means(found.items)
    scores = {(s.metric, *sorted(s.at.items())): s.value for s in found.scores}
    assert means == pytest.approx({key: scores[key] for key in means})
    assert ("prefers_reference_text_only",) in means


class Matcher:
    def score_pairs(self, pictures, texts): ...


class Towers(Matcher):
    def similarity(self, images, texts): ...


class Logits(Matcher):
    score_kind = "logit"


@pytest.mark.parametrize(
    ("model", "kind"), [(Matcher(), "probability"), (Towers(), "cosine"), (Logits(), "logit")]
)
def test_a_score_is_what_the_adapter_says_else_what_its_towers_say(model, kind):
    assert score_kind(model) == kind
