from pathlib import Path

import pytest
from planted_claims import catalog, model, task

from vlbench.leaderboard.reproduction.fetching import to_fetch
from vlbench.leaderboard.reproduction.measured import Lack

TASK = task(data={"root": "$VLBENCH_DATA/coco/x", "loader": "a:b"}, params={"regions": "eyes"})
OTHER = task("u", data={"regions": {"k": "$VLBENCH_DATA/boxes"}, "pairs": ["$VLBENCH_DATA/coco"]})
MODELS = [
    model("m", weights="m.bin on the hub"),
    model("eyes", weights="eyes.bin"),
    model("lost", unavailable="it was withdrawn"),
]


@pytest.fixture
def fetched():
    def fetch(*lacks):
        known = catalog(TASK, OTHER, task("g", group=["t", "u"]), models=MODELS)
        return to_fetch([Lack(*one, "no board") for one in lacks], known, Path("my boards"))

    return fetch


def cells(table):
    return list(
        zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    )


def test_where_nothing_is_missing_there_is_nothing_to_fetch(fetched):
    assert fetched() == []


def test_weights_are_those_of_the_models_and_of_what_the_tasks_use(fetched):
    weights, *_ = fetched(("m", "t"), ("lost", "t"), ("mine", "t"))
    assert cells(weights) == [
        ("m", "m.bin on the hub"),
        ("lost", "unavailable: it was withdrawn"),
        ("mine", "no models.yaml lists this model"),
        ("eyes", "eyes.bin"),
    ]


def test_data_are_the_folders_that_the_tasks_name(fetched):
    _, data, *_ = fetched(("m", "t"), ("m", "u"))
    assert cells(data) == [("$VLBENCH_DATA/coco", "t, u"), ("$VLBENCH_DATA/boxes", "u")]


def test_the_command_runs_what_is_missing_of_models_that_can_be_had(fetched):
    *_, command = fetched(("m", "t"), ("lost", "u"), ("mine", "t"))
    assert command == "vlbench --model m --tasks t,u --output 'my boards'"


def test_a_summary_is_built_from_its_tasks(fetched):
    weights, data, _, run, build = fetched(("m (text)", "g"))
    assert cells(weights)[0] == ("m", "m.bin on the hub")
    assert cells(data)[0] == ("$VLBENCH_DATA/coco", "t, u")
    assert run.startswith("vlbench --model m --tasks g ")
    assert build == "vlbench leaderboard build --output 'my boards'"


def test_without_a_model_that_can_be_had_there_is_no_command(fetched):
    weights, data = fetched(("lost", "t"))
    assert (len(cells(weights)), len(cells(data))) == (2, 1)
