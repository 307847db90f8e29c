import json

import pytest

from vlbench.errors import DataError, SpecError
from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.questions import QUESTION_METRICS, QuestionMetrics

# What needs no Java.
PURE = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider")

# Names in the records of the original code.
THEIRS = {f"Bleu_{n}": f"bleu_{n}" for n in (1, 2, 3, 4)}
THEIRS |= {"ROUGE_L": "rouge_l", "CIDEr": "cider", "METEOR": "meteor"}

ASKED = {1: ["What is this?"], 2: ["what is that ?"]}
REFERENCES = {1: ["what is this ?"], 2: ["what is that ?", "Who?"]}


@pytest.fixture
def ported(real_data):
    """Questions, references, and what the classes of qgevalcap said of them."""
    folder = real_data / "ports" / "qgevalcap"
    texts = json.loads((folder / "hyps_refs.json").read_text())
    asked = {name: [text] for name, text in texts["hyps"].items()}
    return asked, texts["refs"], json.loads((folder / "scores.json").read_text())


def values(scores):
    return {name: score.estimate.value for name, score in scores.items()}


def printed(scores):
    """Scores as the original code's records have them, with four decimals."""
    return {name: round(value, 4) for name, value in values(scores).items()}


def test_scores_are_those_of_qgevalcap_to_the_last_printed_digit(ported):
    asked, references, scores = ported
    with QuestionMetrics(PURE) as metrics:
        found = printed(metrics(asked, references))
    assert found == {ours: scores[t]["corpus"] for t, ours in THEIRS.items() if ours in PURE}


@pytest.mark.slow
def test_all_scores_are_those_of_qgevalcap_and_of_coco_caption(ported):
    asked, references, scores = ported
    with QuestionMetrics() as metrics:
        found = metrics(asked, references)
    assert tuple(found) == QUESTION_METRICS
    own = printed({name: found[name] for name in THEIRS.values()})
    assert own == {ours: scores[theirs]["corpus"] for theirs, ours in THEIRS.items()}
    with CaptionMetrics(PURE) as coco_caption:
        wanted = values(coco_caption(asked, references))
    assert values({name: found[f"{name}_ptb"] for name in wanted}) == wanted


def test_the_treebanks_words_are_scores_of_their_own():
    """As they stand, "What" and "this?" are other words; the Treebank's lose case and mark."""
    with QuestionMetrics(["bleu_1", "bleu_1_ptb"]) as metrics:
        found = metrics(ASKED, REFERENCES)
    right = {name: score.statistics[:, 0].tolist() for name, score in found.items()}
    assert right == {"bleu_1": [1, 4], "bleu_1_ptb": [3, 3]}


def test_only_the_words_that_are_asked_for_are_told_apart(monkeypatch):
    monkeypatch.setenv("VLBENCH_JAVA", "no-such-program")
    with QuestionMetrics(["cider"]) as metrics:
        assert list(metrics(ASKED, REFERENCES)) == ["cider"]
    with QuestionMetrics(["cider_ptb"]) as metrics, pytest.raises(DataError, match="no-such-pro"):
        metrics(ASKED, REFERENCES)


@pytest.mark.parametrize("names", [["spice"], ["cider_ptb_ptb"], []])
def test_what_is_no_metric_of_questions_is_refused(names):
    with pytest.raises(SpecError, match=r"metrics of questions: unknown .*; there are bleu_1, "):
        QuestionMetrics(names)
