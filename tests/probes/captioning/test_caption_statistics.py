import numpy as np
import pytest
from caption_fakes import captioned

from vlbench.engine import Engine
from vlbench.errors import DataAbsent, SpecError
from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.text.evaluated import Value
from vlbench.probes.captioning.caption_statistics import (
    Judged,
    available_metrics,
    caption_statistics,
    formula_of,
    metric_statistics,
    noun_statistics,
)
from vlbench.probes.captioning.controls import (
    TextScorer,
    perplexity_statistics,
    train_language_model,
)
from vlbench.probes.captioning.estimates import ratio
from vlbench.probes.captioning.nouns import NounSource, find_nouns

DATA = captioned()


@pytest.fixture(scope="module")
def told():
    """Return the statistics of captions whose references name dog and cat, as [N] of each."""
    nouns = find_nouns(DATA, Engine.for_tests(), NounSource(leave_out=["image"]))
    text = TextScorer(DATA.splits["train"])

    def of(*captions, references=("a dog and a cat", "a dog is there")):
        judged = Judged(list(captions), [list(references)] * len(captions))
        return caption_statistics(judged, nouns, text)

    return of


def test_words_and_nouns_are_counted_by_hand(told):
    found = told("a image of a dog", "a dog dog and a cat .", "there is", "")
    assert found["length"].tolist() == [[5, 1], [6, 1], [2, 1], [0, 1]]
    assert found["nouns"].tolist() == [[1, 1], [3, 1], [0, 1], [0, 1]]
    assert found["unique_nouns"].tolist() == [[1, 1], [2, 1], [0, 1], [0, 1]]


def test_precision_and_recall_are_of_the_nouns_that_the_references_name(told):
    found = told("a dog and a owl", "a cat dog dog", "a owl", "there is")
    assert found["noun_precision"].tolist() == [[0.5, 1], [1, 1], [0, 1], [0, 0]]
    assert found["noun_recall"].tolist() == [[0.5, 1], [1, 1], [0, 1], [0, 1]]


def test_an_image_whose_references_name_nothing_has_no_recall(told):
    found = told("a dog", references=("there is a",))
    assert found["noun_precision"].tolist() == [[0, 1]]
    assert found["noun_recall"].tolist() == [[0, 0]]


def test_perplexity_is_that_of_the_training_captions(told):
    captions = [text.split() for texts in DATA.splits["train"]["captions"] for text in texts]
    expected = perplexity_statistics(train_language_model(captions), [["a", "dog"], ["qua", "a"]])
    assert told("A dog.", "qua a")["perplexity"].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("caption", "length", "unknown"),
    [
        ("a dog\nand a cat", 5, 0),
        ("a dog ||| a cat", 4, 0),
        ("a dog\u2028a cat", 4, 0),
        ("", 0, 0),
        ("qua quo qui", 3, 3),
        ("dog " * 10_000, 10_000, 0),
    ],
)
def test_odd_captions_are_told_like_others(told, caption, length, unknown):
    found = told(caption)
    assert found["length"][0, 0] == length
    assert found["perplexity"][0, 2] == unknown
    assert CORPORA["perplexity"].formula(found["perplexity"].sum(0)) > 1


def test_a_corpus_has_its_own_formula_and_all_else_is_a_ratio():
    assert formula_of("bleu_4") is CORPORA["bleu_4"].formula
    assert formula_of("length") is ratio


def test_each_noun_counts_once():
    found = noun_statistics([frozenset({"dog", "owl"})], [frozenset({"dog", "cat", "cup"})])
    assert found["noun_precision"].tolist() == [[0.5, 1.0]]
    assert found["noun_recall"].tolist() == [[1 / 3, 1.0]]


REFERENCES = [["a dog near a cat", "a dog"], ["two owls", "a pair of owls ."]]
SETS = {
    "first": Judged(["a dog", "two owls"], REFERENCES),
    "second": Judged(["A dog near a cat.", "a cup"], REFERENCES),
}


def test_several_sets_have_what_each_has_alone():
    names = ["bleu_4", "rouge_l", "cider"]
    found = metric_statistics(SETS, names, Engine.for_tests())
    with CaptionMetrics(names) as metrics:
        for name, one in SETS.items():
            captions = {i: [caption] for i, caption in enumerate(one.captions)}
            expected = metrics(captions, dict(enumerate(one.references)))
            assert found[name]["bleu_4"].tolist() == expected["bleu_4"].statistics.tolist()
            means = found[name]["cider"]
            assert means[:, 0].tolist() == expected["cider"].statistics[:, 0].tolist()
            assert means[:, 1].tolist() == [1.0, 1.0]


def test_odd_captions_do_not_upset_the_others():
    odd = ["a dog\nand |||\u2028a cat", "", "qua quo", "word " * 10_000]
    judged = {"odd": Judged(odd, [["a dog and a cat"], ["a dog"], ["a dog"], ["a word"]])}
    found = metric_statistics(judged, ["bleu_1", "cider"], Engine.for_tests())["odd"]
    assert found["bleu_1"][0, :4].tolist()[0] == 5  # all five words of the reference are there
    assert np.isfinite(found["cider"]).all()
    assert found["cider"][1:3, 0].tolist() == [0.0, 0.0]


def test_a_metric_of_evaluate_has_one_number_for_all_images(monkeypatch):
    class Length:
        def __init__(self, name):
            self.name = name

        def __call__(self, captions, references):
            return Value(float(len(captions[0].split())))

    monkeypatch.setattr("vlbench.metrics.captions.Evaluated", Length)
    found = metric_statistics(SETS, ["evaluate:length"], Engine.for_tests())
    assert found["first"]["evaluate:length"].tolist() == [[2.0], [2.0]]


def test_a_name_that_is_no_metric_is_refused_before_anything_is_computed():
    with pytest.raises(SpecError, match=r"unknown \['blue'\]; there are bleu_1"):
        available_metrics(["cider", "blue"])


def test_a_machine_without_java_or_metrics_is_told_what_to_install(monkeypatch):
    monkeypatch.delenv("VLBENCH_JAVA", raising=False)
    monkeypatch.setattr("vlbench.metrics.text.java.find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match=r"pip install 'vlbench\[captions\]'"):
        available_metrics(["cider"])


def test_without_metrics_nothing_is_computed():
    assert metric_statistics(SETS, [], Engine.for_tests()) == {"first": {}, "second": {}}


def test_spice_is_left_out_with_a_note_where_its_parser_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    names, (note,) = available_metrics(["cider", "spice"])
    assert names == ["cider"]
    assert note.startswith("SPICE is left out: the parser of SPICE")
    assert "get it from" in note


@pytest.mark.parametrize("there", [False, True])
def test_other_metrics_need_no_parser(there, tmp_path, monkeypatch):
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    for jar in ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar") if there else ():
        (tmp_path / "spice").mkdir(exist_ok=True)
        (tmp_path / "spice" / jar).touch()
    names = ["cider", "spice"] if there else ["cider"]
    assert available_metrics(names) == (names, [])
