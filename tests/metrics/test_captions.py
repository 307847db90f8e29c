import json
import os
from pathlib import Path

import numpy as np
import pytest

from vlbench.errors import DataAbsent, DataError, SpecError, TooFewRows
from vlbench.metrics import captions
from vlbench.metrics.captions import CAPTION_METRICS, CaptionMetrics, plain_words, treebank_words

# What needs no Java.
PURE = (*CAPTION_METRICS[:4], "rouge_l", "cider")

REFERENCES = {1: ["a dog runs on the grass", "a brown dog runs"], 2: ["two cats sleep in a bed"]}


def pure(captions, references=REFERENCES):
    with CaptionMetrics(PURE, words=plain_words) as metrics:
        return metrics(captions, references)


def values(scores):
    return {name: score.estimate.value for name, score in scores.items()}


@pytest.fixture(scope="module")
def folder():
    found = Path(os.environ.get("VLBENCH_DATA", "/nowhere"))
    if not (found / "caption_eval").is_dir():
        pytest.skip("VLBENCH_DATA names no folder with real captions")
    return found


@pytest.fixture(scope="module")
def real(folder):
    """The 1,000 captions of coco-caption's notebook and their references."""
    file = folder / "caption_eval" / "spice_example_input_larger.json"
    rows = json.loads(file.read_text())
    captions = {row["image_id"]: [row["test"]] for row in rows}
    return captions, {row["image_id"]: row["refs"] for row in rows}


@pytest.fixture(scope="module")
def ported(folder):
    """Captions, references, and what the classes of qgevalcap said of them."""
    texts = json.loads((folder / "ports" / "qgevalcap" / "hyps_refs.json").read_text())
    scores = json.loads((folder / "ports" / "qgevalcap" / "scores.json").read_text())
    return {name: [text] for name, text in texts["hyps"].items()}, texts["refs"], scores


@pytest.fixture(scope="module")
def meteor():
    with CaptionMetrics(["meteor"], words=plain_words) as metrics:
        yield metrics


def test_real_captions_score_as_in_the_notebook(real):
    found = pure(*real)
    wanted = dict(zip(PURE, (0.579, 0.404, 0.279, 0.191, 0.396, 0.600), strict=True))
    assert values(found) == pytest.approx(wanted, abs=5e-4)
    sums = found["bleu_4"].statistics.sum(0)
    assert sums[[0, 1, 2, 3, 8, 9]].tolist() == [5732, 2510, 1043, 423, 9893, 9855]


def test_real_captions_have_the_meteor_of_the_notebook(real, meteor):
    assert values(meteor(*real)) == pytest.approx({"meteor": 0.195}, abs=5e-4)


OURS = {"Bleu_1": "bleu_1", "Bleu_2": "bleu_2", "Bleu_3": "bleu_3", "Bleu_4": "bleu_4"}
OURS |= {"ROUGE_L": "rouge_l", "CIDEr": "cider"}


def test_questions_score_as_in_qgevalcap(ported):
    captions, references, scores = ported
    found = pure(captions, references)
    for theirs, ours in OURS.items():
        assert found[ours].estimate.value == pytest.approx(scores[theirs]["corpus"], abs=5.1e-5)
    for name in ("ROUGE_L", "CIDEr"):
        wanted = [scores[name]["per_id"][one] for one in captions]
        assert found[OURS[name]].statistics[:, 0] == pytest.approx(wanted, abs=5.1e-5)


@pytest.mark.nightly
def test_questions_have_the_meteor_of_qgevalcap(ported, meteor):
    from vlbench.metrics.corpus import CORPORA

    captions, references, scores = ported
    found = meteor(captions, references)["meteor"]
    one_by_one = CORPORA["meteor"].formula(found.statistics)
    wanted = [scores["METEOR"]["per_id"][one] for one in captions]
    assert one_by_one == pytest.approx(wanted, abs=5.1e-5)
    assert found.estimate.value == pytest.approx(scores["METEOR"]["corpus"], abs=5.1e-5)


@pytest.mark.nightly
def test_nasty_captions_leave_the_meteor_of_others_alone(meteor):
    nasty = ["", "a\nb", "x ||| y", "a\u2028b", "\x00\ud800", "dog " * 1000, "||||| |||"]
    captions = {i: [text] for i, text in enumerate([*nasty, "two cats in a bed"])}
    references = {i: ["a dog", "two cats sleep in a bed"] for i in captions}
    rows = meteor(captions, references)["meteor"].statistics
    alone = meteor(dict.fromkeys((0, 1), captions[7]), dict.fromkeys((0, 1), references[7]))
    assert np.array_equal(rows[7], alone["meteor"].statistics[0])
    assert rows[0, 21] == 0


def test_real_captions_have_the_spice_of_the_notebook(real):
    try:
        metrics = CaptionMetrics(["spice"], words=plain_words)
    except DataAbsent as error:
        pytest.skip(str(error))
    assert values(metrics(*real)) == pytest.approx({"spice": 0.133}, abs=5e-4)


def test_the_captions_are_read_in_words():
    captions = {1: ["A Dog Runs."], 2: ["Two cats!"]}
    with CaptionMetrics(["bleu_1"]) as metrics:
        found = metrics(captions, REFERENCES)
    assert found["bleu_1"].statistics[:, 0].tolist() == [3, 2]


def test_the_interval_of_a_metric_is_near_that_of_a_bootstrap_over_images():
    from scipy.stats import bootstrap

    references = {i: [f"a {'dog' if i % 2 else 'cat'} runs on grass {i}"] for i in range(40)}
    captions = {i: ["a dog runs" if i % 3 else "grass"] for i in references}
    found = pure(captions, references)["cider"]
    wanted = bootstrap((found.statistics[:, 0],), np.mean, method="percentile", rng=0)
    assert found.estimate.value == pytest.approx(found.statistics.mean())
    assert found.estimate.stderr == pytest.approx(wanted.standard_error, rel=0.1)
    assert found.estimate.ci95 == pytest.approx(wanted.confidence_interval, rel=0.05)


def test_a_caption_without_words_scores_nothing_and_one_of_ten_thousand_is_scored():
    long = pure({1: ["dog " * 10_000], 2: ["two cats"]})
    assert long["bleu_1"].statistics[0, [0, 8]].tolist() == [1, 10_000]
    found = pure({1: [""], 2: ["two cats sleep in a bed"]}, REFERENCES | {1: ["a dog", ""]})
    assert found["bleu_1"].statistics[0, [0, 4, 8]].tolist() == [0, 0, 0]
    assert found["rouge_l"].statistics[:, 0].tolist() == [0, 1]
    assert found["cider"].statistics[0, 0] == 0


DOG, ONE = {1: ["a dog"]}, r"image 2 has \d captions; give a list of one"
REFUSED = [
    *((DOG | {2: given}, REFERENCES, DataError, ONE) for given in (["a", "b"], [], "ab")),
    *(
        (DOG | {2: ["cats"]}, DOG | given, DataError, "image 2 has no list of references")
        for given in ({}, {2: []}, {2: "two cats"})
    ),
    (DOG | {2: ["cats"]}, DOG | {2: ["", " "]}, DataError, "image 2: no reference has a word"),
    # They would move the idf.
    (DOG, REFERENCES, DataError, "1 image with references but no caption, 2 first"),
    (DOG, DOG, TooFewRows, "need two images; there are 1"),
]


@pytest.mark.parametrize(("given", "wanted", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_an_image_has_one_caption_and_references(given, wanted, error, message):
    with pytest.raises(error, match=message):
        pure(given, wanted)


@pytest.mark.parametrize("names", [["bleu_5"], []])
def test_an_unknown_metric_is_named_beside_those_there_are(names):
    known = r"bleu_1, .*, spice, evaluate:NAME_OR_PATH$"
    with pytest.raises(SpecError, match=r"unknown \[.*\]; there are " + known):
        CaptionMetrics(names)


# Captions of strangers, and their words.
NASTY = {
    'A man "rides" a horse.': "a man rides a horse",
    "Don't (stop) - 3.5 now!": "do n't -lrb- stop -rrb- 3.5 now",
    "two\nlines\r\nand\u2028more\x85still\x0bone": "two lines and more still one",
    "": "",
    "...": "",
    "x ||| y": "x | | | y",
    "Café": "café",
}


def test_words_are_those_of_the_penn_treebank_without_punctuation():
    assert treebank_words(list(NASTY)) == list(NASTY.values())
    assert treebank_words([]) == []


def test_real_captions_have_the_words_of_coco_caption(real_data):
    folder = real_data / "caption_eval"
    raw = json.loads((folder / "captions_val2014_fakecap_results.json").read_text())
    told = json.loads((folder / "spice_example_input_larger.json").read_text())
    found = treebank_words([one["caption"] for one in raw])
    by_image = dict(zip([one["image_id"] for one in raw], found, strict=True))
    assert by_image == {one["image_id"]: one["test"] for one in told}


def test_real_references_have_the_words_of_coco_caption(real_data):
    folder = real_data / "caption_eval"
    raw = json.loads((folder / "captions_val2017.json").read_text())["annotations"]
    told = json.loads((folder / "spice_example_input_larger.json").read_text())
    own = {(one["image_id"], text) for one in told for text in one["refs"]}
    images = {image for image, _ in own}
    both = [one for one in raw if one["image_id"] in images]
    found = treebank_words([one["caption"] for one in both])
    pairs = {(one["image_id"], text) for one, text in zip(both, found, strict=True)}
    assert len({image for image, _ in pairs}) == 126
    assert pairs <= own


def test_a_lost_line_is_an_error(monkeypatch):
    monkeypatch.setattr(captions, "run_java", lambda *_, **__: "one\n")
    with pytest.raises(DataError, match=r"Java returned 1 of 2"):
        treebank_words(["one", "two"])


def test_plain_words_are_as_they_stand_but_for_ends_of_line():
    assert plain_words(["A  b.\nC\u2028d", ""]) == ["A  b. C d", ""]
