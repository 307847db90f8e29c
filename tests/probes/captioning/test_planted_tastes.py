"""Models with a planted taste, and a captioner that learns it: what the probes then say."""

import pytest
from caption_world import PAIRS, SETTINGS, THINGS, VOCABULARY, captions, named, network, taught
from caption_world import LikesPairs as Likes
from caption_world import pairs as world

from vlbench.engine import Engine
from vlbench.probes.captioning.captioner_files import StoredCaptioner, write_captioner
from vlbench.probes.captioning.captioner_training import SelfCritical
from vlbench.probes.captioning.favourites import caption_cross, caption_patterns

TAGS = {"a": "DET", "of": "ADP", "near": "ADP", "on": "ADP", "and": "CCONJ", "is": "AUX"}
TAGS |= dict.fromkeys([*THINGS, "picture", "background"], "NOUN")
WORDS = [[text.split() for text in captions(pair)] for pair in PAIRS]
TAGGED = [[[TAGS.get(word, "ADJ") for word in one] for one in texts] for texts in WORDS]
DATA = world(words=WORDS, tags=TAGGED)


def begins(_, text):
    """Return how much of "a picture of" a caption begins with."""
    wanted = ["a", "picture", "of"]
    right = [a == b for a, b in zip(text.split(), wanted, strict=False)]
    return [*right, False].index(False) / len(wanted)


def names(pair, text):
    return len(set(named(text)) & set(pair))


def is_long(_, text):
    return len(text.split())


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    """A captioner of the little world, and how it learns a taste."""
    folder = tmp_path_factory.mktemp("captioner")
    about = {"regions": "sum", "widths": [6]}
    write_captioner(folder, StoredCaptioner(network(taught()["weights"]), VOCABULARY, about))
    plan = SelfCritical(epochs=12, images=5, learning_rate=5e-3)
    return SETTINGS._replace(weights=folder, self_critical=plan)


def liked(taste, captioner, seeds=1):
    given = {"captioner": captioner, "seeds": seeds, "metrics": ["cider"]}
    outcome = caption_patterns(Likes(taste), DATA, Engine.for_tests(), **given)
    return outcome, {(s.metric, *s.at.values()): s.value for s in outcome.scores}


def test_a_model_that_loves_a_prefix_gets_it_and_it_is_named(captioner):
    outcome, values = liked(begins, captioner)
    # "a picture of" is the prefix of UNITER in the paper. What follows it differs by processor.
    assert values["prefix_ratio", "favourites", "uniter"] > 0.9
    assert values["prefix_ratio", "ce", "uniter"] < 0.5
    assert values["prefix_ratio", "favourites", "own"] > values["prefix_ratio", "ce", "own"]
    assert any("seed 0: a+picture+of+" in note for note in outcome.notes)
    assert values["match_score_gain",] > 0.5
    assert values["prefers_reference",] < 0.1


def test_a_model_that_loves_nouns_of_the_image_gets_them(captioner):
    # This taste is learnt more slowly than others, and with one seed of three less well.
    longer = captioner.self_critical._replace(epochs=25)
    _, values = liked(names, captioner._replace(self_critical=longer), seeds=3)
    assert values["match_score_gain",] > 0.2
    assert values["unique_nouns_gain",] > 1
    # It pays to name whatever may be there.
    assert values["noun_precision_gain",] < -0.1


def test_what_pleases_a_model_that_loves_length_does_not_please_one_that_loves_a_prefix(captioner):
    class Other(Likes):
        """A model of another name."""

    given = {"captioner": captioner, "seeds": 1, "metrics": []}
    model, other = Likes(is_long), Other(lambda pair, text: text in captions(pair))
    outcome = caption_cross(model, DATA, Engine.for_tests(), scorers=[other], **given)
    values = {(s.metric, *s.at.values()): s.value for s in outcome.scores}
    assert values["win_rate_vs_cross_entropy", "LikesPairs"] > 0.9
    assert values["win_rate_vs_cross_entropy", "Other"] < 0.4
    assert values["match_score_gain", "Other"] < -0.3
