import pytest
from question_fakes import toy_asked, toy_trainings

from vlbench.data.records import Split
from vlbench.engine import Engine
from vlbench.probes.question_generation import examples
from vlbench.probes.question_generation.attention import AttentionReader, look_rows
from vlbench.probes.question_generation.examples import attention_artifacts
from vlbench.probes.question_generation.steps import STEPS


class Second(Engine):
    """The engine of a process that does not write."""

    is_main = False


@pytest.fixture(scope="module")
def trainings():
    return toy_trainings(5)


@pytest.fixture
def drawn(monkeypatch):
    """What was to be drawn: images, regions and looks, instead of a picture."""
    calls = []

    def draw(images, regions, looks):
        calls.append((images, regions, looks))
        return "a picture"

    monkeypatch.setattr(examples, "draw_looks", draw)
    return calls


def test_no_examples_are_no_table_and_no_picture(trainings, drawn):
    assert attention_artifacts(trainings, toy_asked(5), 0) == {}
    assert not drawn


@pytest.mark.parametrize(
    ("asked_for", "names"),
    [(1, ["0"]), (2, ["0", "2"]), (3, ["0", "1", "3"]), (9, ["0", "1", "2", "3", "4"])],
)
def test_examples_are_spread_evenly_and_no_more_than_there_are(trainings, drawn, asked_for, names):
    test = toy_asked(5)
    found = attention_artifacts(trainings, test, asked_for)
    assert list(dict.fromkeys(found["attention"]["id"].to_pylist())) == names
    assert found["examples"] == "a picture"
    ((images, regions, looks),) = drawn
    assert images == [test.split["image"][int(name)] for name in names]
    assert [r.boxes.tolist() for r in regions] == [
        test.split["regions"][int(name)].boxes.tolist() for name in names
    ]
    assert {step: len(own) for step, own in looks.items()} == dict.fromkeys("123", len(names))


@pytest.mark.usefixtures("drawn")
def test_the_table_has_what_each_trained_step_looks_at(trainings):
    test = toy_asked(5)
    expected = []
    for step in (STEPS[0], STEPS[1], STEPS[3]):
        regions = [test.split["regions"][0] if step.images else None]
        (look,) = AttentionReader(trainings.asker(step)).looks(regions, ["0"], ["thing0 here"])
        expected += look_rows("0", step.name, look)
    found = attention_artifacts(trainings, test, 1)["attention"].to_pylist()
    assert len(found) == len(expected) > 20
    for row, other in zip(found, expected, strict=True):
        assert row.pop("weight") == pytest.approx(other.pop("weight"), abs=1e-6)
        assert row == other


def test_images_that_are_not_there_are_drawn_by_their_regions_alone(trainings, drawn):
    test = toy_asked(5)
    columns = {name: c for name, c in test.split.columns.items() if name != "image"}
    attention_artifacts(trainings, test._replace(split=Split(columns)), 2)
    assert drawn[0][0] == [None, None]


def test_a_process_that_does_not_write_draws_nothing(drawn):
    engine = Second(Engine.for_tests().settings)
    found = attention_artifacts(toy_trainings(5, engine=engine), toy_asked(5), 2)
    assert list(found) == ["attention"]
    assert not drawn
