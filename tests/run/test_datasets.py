import shutil
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import pytest
from runs import evaluate
from sources import TASK, make_source, write

from vlbench.data.records import Data, TrainAndTestRows
from vlbench.errors import DataError, SpecError
from vlbench.run.task import splits_read


def test_a_split_that_the_probe_reads_is_missed_before_anything_runs(source):
    shutil.rmtree(source / "images" / "train")
    message = r"_colours: the split 'train' \(the data have test\) not found"
    with pytest.raises(DataError, match=message):
        evaluate(source)


EMPTY = """\
from pathlib import Path
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Data

def load(*, root: Path) -> Data:
    data = image_folder(root=root)
    return Data(splits={**data.splits, "train": data.splits["train"].select([])})
"""


def test_a_split_without_rows_fails_before_anything_runs(source):
    write(source / "tasks" / "theirs.py", EMPTY)
    loader = f'"theirs:load", root: {source / "images"}'
    write(source / "tasks" / "b.yaml", TASK.replace(LOADER, loader))
    (result,) = evaluate(source, tasks="b")
    assert result.status == "failed"
    assert "the split 'train' of theirs:load has no rows" in result.reason


class Parts(NamedTuple):
    train: Sequence[str] = ("train",)


PARTS = Parts()


def named(model, data: TrainAndTestRows, engine): ...


def by_an_argument(model, data: Annotated[Data, "split", "test"], engine, *, split="val"): ...


def by_a_field(model, data: Annotated[Data, "parts.train", ...], engine, *, parts=PARTS): ...


def of_odd_names(model, data: Annotated[Data, "model", "my.split"], engine): ...


def unsaid(model, data, engine): ...


SPLITS_READ = [
    (named, {}, ["train", "test"]),
    (by_an_argument, {}, ["val", "test"]),
    (by_an_argument, {"split": "b"}, ["b", "test"]),
    (by_a_field, {}, ["train", ...]),
    (by_a_field, {"parts": Parts(["a", "b"])}, ["a", "b", ...]),
    (of_odd_names, {}, ["model", "my.split"]),
    (unsaid, {}, [...]),
]


@pytest.mark.parametrize(("probe", "arguments", "splits"), SPLITS_READ)
def test_the_annotation_of_data_names_the_splits_that_a_probe_reads(probe, arguments, splits):
    assert splits_read(probe, arguments) == splits


REGIONS = """\
import torch
from vlbench.capabilities import Picture, Regions, TextEncoder
from vlbench.data.records import Column, Data, Split, value_column

def load(*, regions: str | None = None) -> Data:
    boxes = torch.zeros(1, 4)
    known = Regions(boxes, torch.zeros(1, int(regions or 0)), None, None, (8, 8))
    pictures = Column(f"pictures {regions}", "picture", [Picture(None, known)] * 2, range(2))
    return Data(splits={"test": Split({"picture": pictures, "label": value_column([0, 1])})})

def width(model, data, engine):
    from vlbench.results import Outcome, Score
    seen = data.splits["test"]["picture"][0].regions.vectors.shape[1]
    return Outcome(scores=[Score(metric="width", value=float(seen), n=2, unit="wide")])

def widths(model: TextEncoder, data, engine, *, others: list[TextEncoder]):
    from vlbench.results import Outcome, Score
    each = [data, *(engine.read_by(other, data) for other in others)]
    seen = [one.splits["test"]["picture"][0].regions.vectors.shape[1] for one in each]
    scores = [
        Score(metric="width", value=float(width), n=2, unit="wide", at={"model": place})
        for place, width in enumerate(seen)
    ]
    return Outcome(scores=scores)
"""


REGION_TASK = """\
version: 1
probe: "theirs:width"
data: {loader: "theirs:load", regions: {narrow: "3", wide: "5"}}
primary: {metric: width}
"""


@pytest.fixture
def regional(tmp_path):
    folder = make_source(tmp_path / "regional", widths=REGION_TASK)
    write(folder / "tasks" / "theirs.py", REGIONS)
    lines = {"a": "narrow, width: 3", "b": "wide, width: 5", "c": "wide, width: 7", "d": "odd"}
    models = [
        f"{k}: {{adapter: 'colours:Words', regions: {{kind: {v}}}}}" for k, v in lines.items()
    ]
    write(folder / "model_adapters" / "models.yaml", "\n".join(models))
    return folder


def test_a_model_gets_the_regions_of_its_kind(regional):
    found = [evaluate(regional, model, "widths")[0] for model in ("a", "b")]
    assert [result.scores[0].value for result in found] == [3.0, 5.0]
    assert found[0].comparable != found[1].comparable


def test_a_model_whose_kind_of_regions_a_task_lacks_is_skipped(regional):
    (result,) = evaluate(regional, "d", "widths")
    assert result.status == "skipped"
    assert result.reason == "d reads regions of kind odd; the task has narrow, wide"


def all_widths(regional, model, others, **options):
    task = REGION_TASK.replace("theirs:width", "theirs:widths").replace(
        "primary: {metric: width}",
        f"params: {{others: [{others}]}}\nprimary: {{metric: width, at: {{model: 0}}}}",
    )
    write(regional / "tasks" / "several.yaml", task)
    return evaluate(regional, model, "several", **options)[0]


def test_a_companion_gets_the_regions_of_its_own_kind(regional):
    assert [score.value for score in all_widths(regional, "a", "b, a").scores] == [3.0, 5.0, 3.0]


def test_a_companion_whose_kind_of_regions_a_task_lacks_is_named(regional):
    result = all_widths(regional, "a", "d")
    assert result.status == "skipped"
    assert result.reason == "d reads regions of kind odd; the task has narrow, wide"


def test_a_companion_of_another_width_is_an_error_that_names_both(regional):
    with pytest.raises(SpecError, match="region vectors are 5 wide, c reads 7"):
        all_widths(regional, "a", "c")


def test_regions_of_another_width_are_an_error_that_names_both(regional):
    with pytest.raises(SpecError, match="region vectors are 5 wide, c reads 7"):
        evaluate(regional, "c", "widths")


def test_a_loader_that_raises_fails_its_own_tasks_alone(source):
    write(source / "tasks" / "theirs.py", "def load():\n    raise ValueError('no such year')\n")
    write(source / "tasks" / "b.yaml", TASK.replace(LOADER, '"theirs:load"'))
    results = evaluate(source, tasks="few_shot_colours,b")
    assert {r.task: r.status for r in results} == {"few_shot_colours": "ok", "b": "failed"}


def test_a_loader_that_returns_no_data_is_an_error_of_the_file(source):
    write(source / "tasks" / "theirs.py", "def load():\n    return {}\n")
    write(source / "tasks" / "b.yaml", TASK.replace(LOADER, '"theirs:load"'))
    with pytest.raises(SpecError, match="theirs:load returned a dict, not Data"):
        evaluate(source, tasks="b")


LOADER = '"vlbench.data.image_folder:image_folder", root: ../images'
