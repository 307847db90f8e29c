import numpy as np
import pytest
from caption_world import captioned
from scipy import stats

from vlbench.engine import Engine
from vlbench.errors import DataAbsent, SpecError, TooFewRows
from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.evaluated import Value
from vlbench.metrics.intervals import fraction_ends, wilson
from vlbench.metrics.language_model import TextScorer, perplexity_statistics, train_language_model
from vlbench.probes.captioning.caption_statistics import (
    JudgedCaptions,
    available_metrics,
    caption_statistics,
    formula_of,
    join_outcomes,
    metric_statistics,
    over_seeds,
    ratio,
    with_ones,
)
from vlbench.probes.captioning.nouns import NounSource, find_nouns
from vlbench.results import Outcome, Score

RNG = np.random.default_rng(0)


def test_the_mean_of_one_seed_has_the_error_of_its_images():
    values = RNG.normal(2, 3, size=(1, 400))
    found = over_seeds(with_ones(values), ratio)
    assert found.estimate.value == pytest.approx(values.mean())
    assert found.estimate.stderr == pytest.approx(stats.sem(values[0]), rel=0.1)
    low, high = found.estimate.ci95
    assert (high - low) / 2 == pytest.approx(1.96 * stats.sem(values[0]), rel=0.1)


def test_seeds_and_images_both_vary():
    values = RNG.normal(0, 1, size=(3, 500)) + np.array([[0.0], [1.0], [5.0]])
    found = over_seeds(with_ones(values), ratio)
    by_seed = values.mean(1)
    expected = np.sqrt(by_seed.var(ddof=1) / 3 + values.mean(0).var(ddof=1) / 500)
    assert found.draws == pytest.approx(by_seed.tolist())
    assert found.estimate.stderr == pytest.approx(expected, rel=0.01)
    half = found.estimate.ci95[1] - found.estimate.value
    assert half / found.estimate.stderr == pytest.approx(stats.t.ppf(0.975, 2), rel=0.01)


def test_a_difference_is_paired_by_image():
    before = RNG.normal(0, 100, size=300)
    found = over_seeds(with_ones(before + 1)[None], ratio, less=with_ones(before))
    assert (found.estimate.value, *found.estimate.ci95) == pytest.approx((1.0, 1.0, 1.0))


def test_the_difference_of_a_corpus_score_is_that_of_its_two_values():
    first, second = (RNG.integers(1, 9, size=(50, 10)).astype(float) for _ in range(2))
    formula = CORPORA["bleu_2"].formula
    found = over_seeds(first[None], formula, less=second)
    assert found.estimate.value == pytest.approx(formula(first.sum(0)) - formula(second.sum(0)))


def test_images_that_do_not_count_are_left_out_and_a_seed_of_none_but_them_has_no_score():
    statistics = np.array([[[1.0, 1.0], [0.0, 0.0], [0.5, 1.0]]])
    assert over_seeds(statistics, ratio).estimate.value == 0.75
    assert over_seeds(np.concatenate([statistics, 0 * statistics]), ratio) is None


def test_what_does_not_vary_has_an_interval_without_width_and_wilsons_as_a_fraction():
    values = with_ones(np.ones((2, 20)))
    assert over_seeds(values, ratio).estimate == (1.0, 0.0, (1.0, 1.0))
    assert over_seeds(values, ratio, ends=fraction_ends).estimate == wilson(20, 20)
    # A fraction stays within its range.
    varied = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]])
    low, high = over_seeds(with_ones(varied), ratio, ends=fraction_ends).estimate.ci95
    assert 0 < low < high < 1


def test_one_image_and_what_is_no_number_are_refused():
    with pytest.raises(TooFewRows, match="an interval needs 2 images or more, not 1"):
        over_seeds(with_ones(np.array([[1.0]])), ratio)
    with pytest.raises(ValueError, match="not finite"):
        over_seeds(with_ones(np.array([[1.0, float("nan")]])), ratio)


def test_parts_make_one_outcome():
    parts = [
        Outcome([Score("a", 1.0, 2)], counts={"ties": 1}, notes=["first"]),
        Outcome([Score("b", 1.0, 2)], counts={"ties": 9, "others": 2}, notes=["second"]),
    ]
    found = join_outcomes(parts, {"none": None})
    assert [score.metric for score in found.scores] == ["a", "b"]
    assert found.counts == {"ties": 1, "others": 2}
    assert found.notes == ["first", "second"]
    assert (found.artifacts, found.items) == ({}, None)


DATA = captioned()


@pytest.fixture(scope="module")
def told():
    """Return the statistics of captions whose references name dog and cat, as [N] of each."""
    nouns = find_nouns(DATA, Engine.for_tests(), NounSource(leave_out=["image"]))
    text = TextScorer(DATA.splits["train"]["captions"])

    def of(*captions, references=("a dog and a cat", "a dog is there")):
        judged = JudgedCaptions(list(captions), [list(references)] * len(captions))
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
    found = told("a dog and a owl", references=("a dog and a cat", "a cup"))
    assert found["noun_recall"].tolist() == [[1 / 3, 1]]


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


REFERENCES = [["a dog near a cat", "a dog"], ["two owls", "a pair of owls ."]]
SETS = {
    "first": JudgedCaptions(["a dog", "two owls"], REFERENCES),
    "second": JudgedCaptions(["A dog near a cat.", "a cup"], REFERENCES),
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
    assert metric_statistics(SETS, [], Engine.for_tests()) == {"first": {}, "second": {}}
    # A corpus has its own formula, and all else is a ratio.
    assert formula_of("bleu_4") is CORPORA["bleu_4"].formula
    assert formula_of("length") is ratio


def test_odd_captions_do_not_upset_the_others():
    odd = ["a dog\nand |||\u2028a cat", "", "qua quo", "word " * 10_000]
    judged = {"odd": JudgedCaptions(odd, [["a dog and a cat"], ["a dog"], ["a dog"], ["a word"]])}
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
    monkeypatch.setattr("vlbench.metrics.java.find_spec", lambda _: None)
    with pytest.raises(DataAbsent, match=r"pip install 'vlbench\[captions\]'"):
        available_metrics(["cider"])


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
