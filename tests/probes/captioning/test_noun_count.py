import pytest
from caption_world import REFERENCES, Taste, length, nothing, right_nouns, scores_of, world
from item_means import item_means, scores_with_items

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.captioning.caption_sets import Images
from vlbench.probes.captioning.caption_templates import TEMPLATES
from vlbench.probes.captioning.noun_count import noun_count, ranked_nouns
from vlbench.probes.captioning.nouns import Nouns

K = [2, 3, 4]


def probe(taste, references=REFERENCES, k=K, **params):
    return noun_count(Taste(taste), world(references), Engine.for_tests(), k=k, **params)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_scorer_of_right_nouns_rises_with_true_nouns_alone(template):
    found = scores_of(probe(right_nouns))
    assert [found["match_score", str(k), template, "true"] for k in K] == [2, 3, 4]
    assert [found["match_score", str(k), template, "absent"] for k in K] == [2, 2, 2]
    assert (found["rises", template, "true"], found["rises", template, "absent"]) == (1, 0.5)
    assert found["slope", template, "true"] == pytest.approx(1)
    assert found["slope", template, "absent"] == pytest.approx(0)
    # The first reference names two nouns, its list four.
    assert found["prefers_reference",] == found["prefers_reference", template] == 0
    assert found["match_score", "reference"] == 2
    assert found["rises_tied", template, "absent"] == 1


def test_a_scorer_of_length_rises_with_absent_nouns_as_well():
    found = scores_of(probe(length))
    # `a N of the N N N` grows by one word a noun, `a N of a N ...` by three.
    assert found["slope", "uniter", "absent"] == found["slope", "uniter", "true"] == 1
    assert found["slope", "lxmert", "absent"] == found["slope", "lxmert", "true"] == 3
    assert found["rises_another_image", "clip", "true"] == 1


def test_a_constant_scorer_has_chance_everywhere():
    outcome = probe(nothing)
    judged = [s for s in outcome.scores if s.chance is not None and "text_only" not in s.metric]
    assert [s.value for s in judged] == [s.chance for s in judged]
    assert outcome.counts["ties"] == 10


def test_the_mean_over_templates_treats_an_image_as_a_cluster():
    outcome = probe(length)
    first = outcome.scores[0]
    assert (first.metric, first.at, first.n, first.chance) == ("prefers_reference", {}, 10, 0.5)
    assert outcome.counts["clusters"] == 2
    items = [i for i in outcome.items.to_pylist() if i["metric"] == "prefers_reference"]
    mean = [i for i in items if i["at"] == "{}"]
    assert len(mean) == 10
    assert {i["cluster"] for i in mean} == {"0", "1"}


def test_scores_are_the_means_of_their_items():
    outcome = probe(length)
    means = item_means(outcome.items)
    assert len(means) == len(outcome.scores)
    assert means == pytest.approx(scores_with_items(outcome.scores, outcome.items))


def test_images_with_too_few_nouns_are_counted_and_left_out():
    outcome = probe(nothing, [*REFERENCES, ["a dog"], ["no noun at all"]])
    assert outcome.counts["too_few_nouns"] == 2
    assert outcome.counts["clusters"] == 2
    with pytest.raises(TooFewRows, match="1 image with 4 nouns in the references"):
        probe(nothing, [REFERENCES[0], ["a dog"]])


def test_an_image_with_one_reference_is_taken():
    outcome = probe(right_nouns, [["a dog, a cat, a hat and a car"], REFERENCES[1]])
    assert outcome.counts["clusters"] == 2


@pytest.mark.parametrize("k", [[], [3], [4, 3], [0, 2], [2, 2]])
def test_numbers_that_do_not_ascend_are_refused(k):
    with pytest.raises(ValueError, match="ascending from 1"):
        probe(nothing, k=k)


def test_the_first_images_are_read():
    references = [REFERENCES[0], REFERENCES[1], REFERENCES[0]]
    assert probe(nothing, references, images=Images(first=2)).counts["clusters"] == 2
    with pytest.raises(TooFewRows, match="1 image;"):
        probe(nothing, references, images=Images(first=1))


def test_nouns_that_more_references_name_come_first_and_forms_count_once():
    told = Nouns(dict.fromkeys(["dog", "cat", "hat"], "NOUN"), {})
    references = ["a cat", "cats and dogs", "a hat", "the hat and a dog", "a hat hat hat"]
    tags = Nouns({**told.tags, "dogs": "NOUN", "cats": "NOUN"}, {})
    assert ranked_nouns(tags, references) == ["hat", "cat", "dogs"]
