import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from vlbench.errors import DataAbsent, DataError
from vlbench.metrics.captions import CaptionMetrics, plain_words
from vlbench.metrics.evaluated import Evaluated, Value

CAPTIONS, REFERENCES = {1: ["a dog"], 2: ["a cat sits"]}, {1: ["the dog", "dogs"], 2: ["a cat"]}

# A metric of somebody's own: how many words the first references have less than the captions.
SCRIPT = """\
import datasets
import evaluate


class Longer(evaluate.Metric):
    def _info(self):
        word = datasets.Value("string")
        references = datasets.Sequence(word)
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({"predictions": word, "references": references}),
        )

    def _compute(self, predictions, references):
        pairs = zip(predictions, references, strict=True)
        longer = sum(len(own.split()) - len(others[0].split()) for own, others in pairs)
        return {"longer": longer, "count": len(predictions)}
"""


@pytest.mark.skipif(find_spec("evaluate") is None, reason="the package evaluate is not installed")
@pytest.mark.filterwarnings("ignore")
def test_a_script_of_somebodys_own_is_loaded_by_its_path(tmp_path):
    file = tmp_path / "longer.py"
    file.write_text(SCRIPT)
    assert Evaluated(f"evaluate:{file}")(["a b", "c"], [["a", "b"], ["d"]]) == Value(1.0)
    with pytest.raises(DataError, match=r"^evaluate:/nowhere/x\.py cannot be loaded"):
        Evaluated("evaluate:/nowhere/x.py")


class Word:
    """Stands for the type of one text in `evaluate`."""


Word.__name__ = "Value"


@pytest.fixture
def install(monkeypatch):
    """Return what makes an `evaluate` whose metric `bright` returns this, and what it was given."""

    def make(found, references=()):
        given = {}
        metric = SimpleNamespace(
            name="bright",
            features={"references": references},
            compute=lambda **texts: given.update(texts) or found,
        )
        module = SimpleNamespace(load=lambda _name, keep_in_memory: keep_in_memory and metric)
        monkeypatch.setitem(sys.modules, "evaluate", module)
        return given

    return make


def test_captions_are_scored_as_they_stand_against_all_references(install):
    given = install({"bright": np.float32(0.5), "precision": 0.1, "length": [2]})
    assert Evaluated("evaluate:bright")(["A dog."], [["a", "b"]]) == Value(0.5)
    assert given == {"predictions": ["A dog."], "references": [["a", "b"]]}


def test_a_metric_of_one_reference_has_the_first_and_alone_it_needs_no_words(install):
    given = install({"em": 1}, Word())
    assert Evaluated("evaluate:bright")(["a"], [["b", "c"]]) == Value(1.0)
    assert given["references"] == ["b"]
    with CaptionMetrics(["evaluate:bright"], words=None) as metrics:
        assert metrics(CAPTIONS, REFERENCES)["evaluate:bright"].estimate == Value(1.0)
        with pytest.raises(DataError, match="image 2 has no list of references"):
            metrics(CAPTIONS, {1: ["a"]})


@pytest.mark.parametrize(
    "found",
    [{"precision": [0.1]}, {"a": 1, "b": 2}, {"bright": float("nan")}, {"b": True}, {}, None],
)
def test_a_metric_without_a_number_of_its_own_is_named(install, found):
    install(found)
    with pytest.raises(DataError, match=r"^evaluate:bright did not return its number \("):
        Evaluated("evaluate:bright")(["a"], [["b"]])


def test_a_metric_stands_among_the_others_without_an_interval(install):
    install({"bright": 0.25})
    names = ["cider", "evaluate:bright", "bleu_1"]
    with CaptionMetrics(names, words=plain_words) as metrics:
        found = metrics(CAPTIONS, REFERENCES)
    assert list(found) == names
    assert found["evaluate:bright"].estimate._asdict() == {"value": 0.25}
    assert found["evaluate:bright"].statistics.shape == (2, 0)


def test_without_the_package_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "evaluate", None)
    with pytest.raises(DataAbsent, match=r"evaluate not found; .* -m pip install evaluate`$"):
        CaptionMetrics(["evaluate:bleu"])


def test_a_metric_that_cannot_be_loaded_is_named(monkeypatch):
    def load(_name, **_):
        raise FileNotFoundError("no such metric\nand much more")

    monkeypatch.setitem(sys.modules, "evaluate", SimpleNamespace(load=load))
    why = r"^evaluate:x cannot be loaded \(FileNotFoundError: no such metric\)$"
    with pytest.raises(DataError, match=why):
        CaptionMetrics(["evaluate:x"])
