import numpy as np
import pytest
from item_means import item_means
from tagged_words import tagged

from vlbench.metrics.items import Examples
from vlbench.probes.captioning.pattern_scores import (
    own_ratios,
    paper_ratios,
    pattern_part,
    unigram_table,
)

IDS = [str(i) for i in range(8)]
EXAMPLES = Examples(IDS, IDS)
PLAIN = [tagged(f"the thing{i} and the other{i}") for i in range(8)]
LIKED = [tagged(f"a image of a thing{i}") for i in range(8)]
OTHER = [tagged(f"his thing{i} that the other{i}") for i in range(8)]
KINDS = {"favourites": [LIKED, OTHER], "ce": [PLAIN], "reference": [[*LIKED[:2], *PLAIN[2:]]]}


def values(ratios):
    scores = [ratio.score for ratio in ratios]
    return {(s.metric, s.at["captions"], s.at["pattern"]): s.value for s in scores}


def test_the_papers_patterns_are_counted_by_hand():
    found = values(paper_ratios(KINDS, EXAMPLES))
    assert len(found) == 3 * (6 + 5)
    assert found["prefix_ratio", "favourites", "clip"] == 0.5
    assert found["pattern_ratio", "favourites", "clip"] == 0.5
    assert found["prefix_ratio", "favourites", "vilbert"] == 0.5
    assert found["pattern_ratio", "favourites", "vilbert"] == 0.5
    assert found["prefix_ratio", "favourites", "rosita_image"] == 0
    assert found["prefix_ratio", "reference", "clip"] == 0.25
    assert {v for (_, kind, _), v in found.items() if kind == "ce"} == {0.0}


def test_a_pattern_found_in_one_half_is_counted_in_the_other():
    ratios, patterns = own_ratios(KINDS, EXAMPLES, seed=0)
    assert [one.prefix_name for one in patterns] == [
        "a+image+of+a+NOUN.P",
        "his+NOUN.P+that+the+NOUN.P",
    ]
    found = values(ratios)
    assert found["prefix_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "favourites", "own"] == 1.0
    assert found["pattern_ratio", "ce", "own"] == 0.0
    assert {ratio.score.n for ratio in ratios} == {4}
    half = set(np.random.default_rng(0).permutation(8)[:4].tolist())
    assert {int(i) for ratio in ratios for i in ratio.examples.ids} == set(range(8)) - half


def test_the_part_has_items_of_all_and_names_the_patterns():
    part = pattern_part(KINDS, EXAMPLES, seed=0)
    means = item_means(part.items)
    scores = {(s.metric, *sorted(s.at.items())): s.value for s in part.scores}
    assert means == pytest.approx(scores)
    assert "seed 0: a+image+of+a+NOUN.P+" in part.notes[0]
    assert "seed 1: his+NOUN.P+that+the+NOUN.P+" in part.notes[0]


def test_favourites_without_words_have_no_pattern_of_their_own():
    part = pattern_part({**KINDS, "favourites": [LIKED, [[]] * 8]}, EXAMPLES, seed=0)
    assert {score.at["pattern"] for score in part.scores}.isdisjoint({"own"})
    assert part.notes == []


def test_the_most_frequent_words_come_first_with_their_parts_of_speech():
    table = unigram_table(
        {"ce": [tagged("a dog near a cat ."), tagged("a dog")], "favourites": [tagged("dog dog")]}
    ).to_pylist()
    assert [(row["captions"], row["rank"], row["word"], row["count"]) for row in table] == [
        ("ce", 1, "a", 3),
        ("ce", 2, "dog", 2),
        ("ce", 3, "cat", 1),
        ("ce", 4, "near", 1),
        ("favourites", 1, "dog", 2),
    ]
    assert [row["part_of_speech"] for row in table] == ["DET", "NOUN", "NOUN", "ADP", "NOUN"]
    assert [row["share"] for row in table] == [3 / 7, 2 / 7, 1 / 7, 1 / 7, 1.0]


def test_a_word_has_the_tag_that_it_has_most_often():
    captions = [[("park", "NOUN")], [("park", "VERB")], [("park", "VERB")]]
    assert unigram_table({"ce": captions})["part_of_speech"].to_pylist() == ["VERB"]


def test_ten_words_are_listed_and_no_caption_has_none():
    long = tagged(" ".join(f"word{i:02}" for i in range(30)))
    assert unigram_table({"ce": [long]}).num_rows == 10
    assert unigram_table({"ce": [[]]}).num_rows == 0
