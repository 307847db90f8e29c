import sys
from types import SimpleNamespace

import pytest

from vlbench.data.records import Data, Split, value_column
from vlbench.data.scenes.loaders import drawn_rows
from vlbench.data.scenes.world import CATEGORIES, NOUNS, plural
from vlbench.engine import Engine
from vlbench.errors import DataAbsent
from vlbench.metrics.language_model import words_of
from vlbench.probes.captioning.nouns import Nouns, NounSource, find_nouns

NO_THINGS = [
    "picture", "drawing", "image", "background", "thing", "things", "toy", "left", "right", "top",
    "bottom", "front", "stripes", "spots",
]  # fmt: skip


def tagged(*captions):
    """Return data of one image, from captions such as `a/DET dog/NOUN`."""
    pairs = [[word.rsplit("/", 1) for word in caption.split()] for caption in captions]
    columns = {
        "captions": value_column([[" ".join(w for w, _ in caption) for caption in pairs]]),
        "words": value_column([[[w for w, _ in caption] for caption in pairs]]),
        "tags": value_column([[[t for _, t in caption] for caption in pairs]]),
    }
    return Data(splits={"train": Split(columns)})


def find(data, **source):
    return find_nouns(data, Engine.for_tests(), NounSource(**source))


def test_a_word_has_the_tag_that_it_has_most_often_or_the_first_in_the_alphabet():
    nouns = find(tagged("a/DET Park/NOUN", "cars/NOUN park/VERB", "the/DET park/NOUN ./PUNCT"))
    assert nouns.of_each(["park the cars."]) == [[(0, "park"), (2, "cars")]]
    assert (nouns.is_noun("park"), nouns.is_noun("the")) == (True, False)
    assert find(tagged("park/VERB", "park/NOUN")).tag("park") == "NOUN"


def test_positions_count_all_words_and_case_and_punctuation_do_not_matter():
    nouns = find(tagged("dog/NOUN cat/NOUN"))
    assert nouns.of_each(['A big "Dog", -- and\u2028 the CAT .']) == [[(2, "dog"), (6, "cat")]]
    assert nouns.tagged(["Dog --"]) == [[("dog", "NOUN"), ("", "PUNCT")]]
    assert words_of(" A t-shirt, (red)\n . ") == ["a", "t-shirt", "red", ""]


@pytest.mark.parametrize("text", ["zebra unicorn", "", " \n", "...", "a " * 10_000])
def test_a_word_that_no_caption_has_is_no_noun_and_a_caption_may_have_none(text):
    nouns = find(tagged("dog/NOUN a/DET"))
    assert nouns.of_each([text]) == [[]]
    assert nouns.tag("zebra") == "X"
    assert Nouns({}, {}).vocabulary == []


def test_nouns_that_are_left_out_are_other_words_and_rare_words_are_not_drawn_from():
    nouns = find(tagged(*["picture/NOUN of/ADP dog/NOUN"] * 6), leave_out=["picture"])
    assert nouns.of_each(["picture of dog"]) == [[(2, "dog")]]
    assert (nouns.vocabulary, nouns.other_words) == (["dog"], ["of", "picture"])
    nouns = find(tagged(*["a/DET dog/NOUN"] * 5, "a/DET cat/NOUN"))
    assert (nouns.vocabulary, nouns.other_words) == ([], ["a"])


def test_a_plural_is_known_by_its_singular():
    nouns = find(tagged("cherry/NOUN bus/NOUN glass/NOUN buses/NOUN sees/VERB"))
    plurals = ["cherries", "buses", "glasses", "bus", "sees", "owls"]
    assert [*map(nouns.singular, plurals)] == ["cherry", "bus", "glass", "bus", "sees", "owls"]


def test_captions_without_tags_and_without_a_pipeline_are_absent():
    data = Data(splits={"train": Split({"captions": value_column([["a dog"]])})})
    with pytest.raises(DataAbsent, match=r"no spaCy pipeline is given not found; .*en_core_web_sm"):
        find(data)


def test_a_pipeline_that_is_not_installed_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataAbsent, match="the spaCy pipeline 'any' not found"):
        find(tagged("dog/NOUN"), pipeline="any")


def pipe(docs):
    """Tag `park` as a verb after `to`, otherwise as a noun, as all words of three letters."""
    for words in docs:
        yield [
            SimpleNamespace(pos_="NOUN" if len(w) == 3 or (w == "park" and b != "to") else "X")
            for b, w in zip(["", *words], words, strict=False)
        ]


@pytest.fixture
def spacy(monkeypatch):
    pipeline = SimpleNamespace(meta={"version": "1"}, vocab=None, pipe=pipe)
    module = SimpleNamespace(load=lambda _: pipeline, __version__="3.8")
    monkeypatch.setitem(sys.modules, "spacy", module)
    tokens = SimpleNamespace(Doc=lambda _, words: words)
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)


@pytest.mark.usefixtures("spacy")
def test_a_pipeline_tags_words_in_their_context():
    captions = {"captions": value_column([["a park", "the park", "to park -- dog"]])}
    nouns = find(Data(splits={"train": Split(captions)}), pipeline="any")
    assert nouns.of_each(["to park -- by a park, dog"]) == [[(5, "park"), (6, "dog")]]
    assert nouns.is_noun("park")
    assert nouns.counts == {"a": 1, "park": 3, "the": 1, "to": 1, "dog": 1}


def test_the_nouns_of_scenes_are_the_names_of_things(tmp_path):
    named = {*NOUNS, *CATEGORIES} | {plural(noun) for noun in (*NOUNS, *CATEGORIES)}
    # 200 scenes have 1,000 captions, which name each of the 52 more than five times.
    drawn = drawn_rows("scenes", "test", 200, tmp_path)
    nouns = find(Data(splits={"train": drawn}), leave_out=NO_THINGS)
    assert {word for word in nouns.tags if nouns.is_noun(word)} <= named
    assert {*NOUNS, *CATEGORIES} <= set(nouns.vocabulary)
