"""Image encoders that encode regions, by crops or by their grid, where a probe asks for that."""

import re

import pytest
from runs import board, evaluate, planned
from sources import ADAPTER, make_source, write
from torchvision.transforms.functional import to_tensor

from vlbench.errors import SpecError, UnknownNameError
from vlbench.run import job as jobs

PROBE = """
import torch
from vlbench.capabilities import Detector, Picture, RegionEncoder
from vlbench.results import Outcome, Score

def colour(model, data):
    pictures = [Picture(image, None) for image in data.splits["test"]["image"]]
    boxes = [torch.tensor([[0.0, 0, 2, 4]])] * len(pictures)
    value = torch.cat(model.encode_regions(pictures, boxes)).mean().item()
    return Outcome(scores=[Score("colour", value, len(pictures))])

def under_test(model: Detector | RegionEncoder, data, engine) -> Outcome:
    return colour(model, data)

def beside(model: Detector | RegionEncoder, data, engine, *, other: RegionEncoder) -> Outcome:
    return colour(other, data)
"""

IMPORT = "from vlbench.capabilities import RegionEncoder\n"

# Its grid is of the left and of the right half, and each of its vectors is a half of the image's.
GRIDDED = """

class Gridded(MeanColour):
    def encode_grid(self, pixels):
        halves = pixels.unflatten(3, (2, -1)).mean((2, 4))
        return halves[:, :, None] * self.scale / 2

class Ragged(MeanColour):
    ragged = True

class Twice:
    def __init__(self, *, device, dtype=torch.float32, one: RegionEncoder):
        self.one = one

    def encode_regions(self, pictures, boxes):
        return [2 * vectors for vectors in self.one.encode_regions(pictures, boxes)]

class OfItsOwn(MeanColour):
    def encode_regions(self, pictures, boxes):
        return [torch.full((1, 1), 0.25) for _ in pictures]
"""

LINES = """
gridded: {adapter: "colours:Gridded"}
by-grid: {adapter: "colours:Gridded", params: {encode_by: grid}}
cut: {adapter: "crops:Crops", params: {encoder: mean-colour}}
ragged: {adapter: "colours:Ragged"}
own: {adapter: "colours:OfItsOwn"}
twice: {adapter: "colours:Twice", params: {one: by-grid}}
withheld: {adapter: "colours:MeanColour", without: [RegionEncoder]}
"""

TASK = """\
version: 1
probe: "regions:{probe}"
data: {{loader: "vlbench.data.image_folder:image_folder", root: ../images}}
{more}
primary: {{metric: colour}}
"""


@pytest.fixture
def source(tmp_path):
    tasks = {
        "alone": TASK.format(probe="under_test", more=""),
        "asks_grid": TASK.format(probe="under_test", more="model: {encode_by: grid}"),
        "with_crops": TASK.format(probe="beside", more="params: {other: gridded}"),
        "with_grid": TASK.format(probe="beside", more="params: {other: by-grid}"),
    }
    folder = make_source(tmp_path / "ours", **tasks)
    write(folder / "probes" / "regions.py", PROBE)
    write(folder / "model_adapters" / "colours.py", f"{IMPORT}{ADAPTER}{GRIDDED}")
    lines = folder / "model_adapters" / "models.yaml"
    lines.write_text(lines.read_text() + LINES)
    return folder


def run(source, model, task="alone", **options):
    (result,) = evaluate(source, model, task, **options)
    return result


def colour(result):
    assert result.status == "ok", result.reason
    return result.primary_score.value


CUT = "regions are encoded by crops: each box is cropped and encoded as an image"
AVERAGED = (
    "regions are encoded by grid: each vector is the mean of the grid cells that its box covers"
)


def test_an_image_encoder_encodes_regions_by_crops_under_its_own_name(source):
    result, declared = run(source, "mean-colour"), run(source, "cut")
    assert result.model == "mean-colour"
    assert result.notes == [CUT]
    assert colour(result) == colour(declared)
    made = result.provenance
    assert made["params"] == {"weights": "1.0", "shift": 0.0, "encode_by": "crops"}
    assert re.fullmatch(r"Crops sha256:\w+ of MeanColour sha256:\w+", made["adapter"])
    same = ("adapter", "weights")
    assert [made[key] for key in same] == [declared.provenance[key] for key in same]
    assert made["weights"].startswith("sha256:")


def test_it_does_so_by_its_grid_where_the_user_says_so_and_its_name_shows_it(source):
    result = run(source, "gridded", model_args={"encode_by": "grid"})
    assert result.model == "gridded[encode_by=grid]"
    assert result.notes == [AVERAGED]
    assert result.provenance["params"]["encode_by"] == "grid"
    assert colour(result) == pytest.approx(colour(run(source, "gridded")) / 2, abs=0.02)


WAYS = [
    ("by-grid", "alone", {}, "grid"),
    ("gridded", "asks_grid", {}, "grid"),
    ("by-grid", "asks_grid", {"encode_by": "crops"}, "crops"),
    ("by-grid", "alone", {"encode_by": "crops"}, "crops"),
]


@pytest.mark.parametrize(("model", "task", "given", "manner"), WAYS)
def test_the_users_word_comes_before_the_tasks_and_the_lines(source, model, task, given, manner):
    assert run(source, model, task, model_args=given).provenance["params"]["encode_by"] == manner


def test_a_grid_that_the_model_has_not_is_skipped_with_the_reason(source):
    result = run(source, "mean-colour", model_args={"encode_by": "grid"})
    reason = "the model has no GridEncoder, which encode_by=grid needs"
    assert (result.status, result.reason) == ("skipped", reason)


def test_another_way_to_encode_regions_is_refused(source):
    with pytest.raises(SpecError, match="gridded: 'encode_by' must be 'crops' or 'grid', not"):
        run(source, "gridded", model_args={"encode_by": "mesh"})


@pytest.mark.parametrize("model", ["words", "own", "withheld"])
def test_a_model_that_does_not_encode_images_alone_has_no_such_argument(source, model):
    with pytest.raises(SpecError, match="'encode_by' is unknown"):
        run(source, model, model_args={"encode_by": "grid"})


def test_a_model_that_encodes_regions_itself_stays_as_it_is(source):
    result = run(source, "own", "asks_grid")
    assert colour(result) == 0.25
    assert result.notes == [
        "the adapter has no argument `encode_by`: its own preprocessing is used"
    ]
    assert "encode_by" not in result.provenance["params"]


def test_a_line_may_withhold_regions(source):
    assert run(source, "withheld").reason == "the model has no Detector or RegionEncoder"


def test_a_companion_encodes_regions_likewise_and_rows_of_two_ways_are_not_comparable(source):
    crops, grid = run(source, "own", "with_crops"), run(source, "own", "with_grid")
    assert crops.notes == [CUT.replace("regions", "regions of gridded", 1)]
    assert grid.notes == [AVERAGED.replace("regions", "regions of by-grid", 1)]
    assert colour(grid) == pytest.approx(colour(crops) / 2, abs=0.02)
    assert crops.comparable != grid.comparable


def test_a_model_that_a_model_is_made_from_encodes_regions_likewise(source):
    assert colour(run(source, "twice")) == pytest.approx(2 * colour(run(source, "by-grid")))


def test_a_companion_that_encodes_no_images_is_an_error_of_the_file(source):
    task = source / "tasks" / "with_crops.yaml"
    task.write_text(task.read_text().replace("gridded", "words"))
    with pytest.raises(SpecError, match=r"with_crops\.yaml:\d: words has no RegionEncoder"):
        run(source, "own", "with_crops")


def test_a_class_in_a_file_encodes_regions(source):
    file = source / "model_adapters" / "colours.py"
    result = run(source, f"{file}:Gridded", model_args={"encode_by": "grid"})
    assert (result.model, result.notes) == ("Gridded[encode_by=grid]", [AVERAGED])


class Mean:
    """Encodes an image as the mean of each colour."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def preprocess(self, image):
        return to_tensor(image)

    def encode_images(self, pixels):
        return self.scale * pixels.mean((2, 3))

    def encode_grid(self, pixels):
        return self.encode_images(pixels)[..., None, None]


def test_an_adapter_object_encodes_regions(source):
    assert colour(run(source, Mean())) == colour(run(source, "mean-colour"))
    result = run(source, Mean(), model_args={"encode_by": "grid"})
    assert (result.model, result.notes) == ("Mean[encode_by=grid]", [AVERAGED])
    assert run(source, Mean(), "asks_grid").notes == [AVERAGED]
    with pytest.raises(UnknownNameError, match="or an object"):
        run(source, Mean(), model_args={"encode_by": "grid", "scale": 2})


def test_a_row_is_kept_for_the_same_way_and_the_same_encoder_alone(source, tmp_path):
    where = {"include_path": [source], "output": tmp_path / "b", "name": "m"}
    run(source, Mean(), output=tmp_path / "b", name="m")

    def status(model, **options):
        return planned([model], ["alone"], **where, **options).jobs[0].status

    assert [status(Mean()), status(Mean(2.0))] == ["kept", "run"]
    assert status(Mean(), model_args={"encode_by": "grid"}) == "run"
    unknown = Mean()
    unknown.clean = lambda text: text
    run(source, unknown, output=tmp_path / "b", name="m", overwrite=True)
    assert status(unknown) == "run"


def test_requests_of_named_models_cover_the_way_and_the_code_of_it(source, monkeypatch):
    options = {"include_path": [source], "model_args": {"encode_by": "grid"}}
    requests = [
        planned(["gridded"], ["alone"], **options).jobs[0].request,
        planned(["gridded"], ["alone"], include_path=[source]).jobs[0].request,
    ]
    digests = jobs.code_digest
    monkeypatch.setattr(
        jobs,
        "code_digest",
        lambda thing: digests(thing) + ("!" if thing.__name__ == "Grid" else ""),
    )
    requests.append(planned(["gridded"], ["alone"], **options).jobs[0].request)
    assert len(set(requests)) == 3


def test_a_model_of_many_sizes_is_skipped_where_regions_are_asked_alone(source):
    write(source / "tasks" / "few_shot_ours.yaml", FEW_SHOT)
    results = evaluate(source, "ragged", "alone,few_shot_ours")
    assert {result.task: (result.status, result.reason) for result in results} == {
        "alone": ("skipped", "the image encoder keeps each picture's size; crops need one size"),
        "few_shot_ours": ("ok", ""),
    }


FEW_SHOT = """\
version: 1
probe: few_shot
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
params: {shots: [1], trials: 2}
primary: {metric: accuracy, at: {shots: 1}}
"""


def test_a_model_is_loaded_once_for_tasks_with_and_without_regions(source):
    write(source / "tasks" / "few_shot_ours.yaml", FEW_SHOT)
    write(source / "model_adapters" / "colours.py", ADAPTER.replace("append(weights)", "append(1)"))
    results = evaluate(source, "mean-colour", "alone,few_shot_ours")
    assert [result.status for result in results] == ["ok", "ok"]
    job = planned(["mean-colour"], ["alone"], include_path=[source]).jobs[0]
    assert job.model.base.adapter.__init__.__globals__["LOADED"] == [1]


def test_boards_hold_both_ways_beside_each_other(source, tmp_path):
    for given in ({}, {"encode_by": "grid"}):
        run(source, "gridded", model_args=given, output=tmp_path / "b")
    rows = board(tmp_path / "b", "alone")["rows"]
    assert [row["model"] for row in rows] == ["gridded", "gridded[encode_by=grid]"]
    assert len({row["comparable"] for row in rows}) == 1
