"""Regions that are how a model sees an image: no part of what rows must share."""

import json
from collections import defaultdict

import numpy as np
import pytest
from PIL import Image
from runs import board, evaluate, planned
from sources import write

from vlbench.errors import SpecError
from vlbench.run.row import comparable_parts

SCORERS = """\
import torch
from vlbench.capabilities import ImageTextScorer
from vlbench.results import Outcome, Score

class Scorer:
    def __init__(self, *, device, dtype=torch.float32, factor: float = 1.0):
        self.factor = torch.tensor(factor)

    def score_pairs(self, pictures, texts):
        widths = [0 if p.regions is None else p.regions.vectors.shape[1] for p in pictures]
        return self.factor * torch.tensor(widths, dtype=torch.float32)

def likes(model: ImageTextScorer, data, engine, *, others: list[ImageTextScorer]):
    scores = []
    for place, one in enumerate([model, *others]):
        split = engine.read_by(one, data).splits["test"]
        pictures, texts = list(split["picture"]), list(split["caption"])
        value = float(one.score_pairs(pictures, texts).mean())
        scores.append(Score(metric="likes", value=value, n=2, unit="wide", at={"model": place}))
    scores.append(
        Score(metric="regions", value=float("regions" in data.splits["test"].columns), n=2)
    )
    return Outcome(scores=scores)
"""

TASK = """\
version: 1
probe: "scorers:likes"
data:
  loader: "vlbench.data.karpathy:karpathy"
  root: ../coco
  regions: {narrow: ../narrow, wide: ../wide}
params: {others: [OTHERS]}
primary: {metric: likes, at: {model: 0}}
"""

MODELS = """\
pixels: {adapter: "scorers:Scorer"}
narrow: {adapter: "scorers:Scorer", regions: {kind: narrow, width: 3}}
wide: {adapter: "scorers:Scorer", regions: {kind: wide, width: 5}}
odd: {adapter: "scorers:Scorer", regions: {kind: odd, width: 5}}
"""

TASKS = ("captions_alone", "captions_cross", "alignment_alone", "alignment_cross")

NUMBERS = (42, 139)


def put_coco(root):
    """Write two captioned images, each of one split, and one of train."""
    images = []
    for number, split in zip((*NUMBERS, 7, 9), ("test", "test", "val", "train"), strict=True):
        name = f"COCO_val2014_{number:012}.jpg"
        sentences = [{"raw": "A dog.", "tokens": ["a", "dog"]}] * 2
        where = {"filepath": "val2014", "filename": name, "cocoid": number, "split": split}
        images.append({**where, "sentences": sentences})
        (root / "val2014").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30)).save(root / "val2014" / name)
    (root / "dataset_coco.json").write_text(json.dumps({"images": images}))


def put_regions(root, width, value=1.0):
    root.mkdir(parents=True, exist_ok=True)
    boxes, size = np.array([[0, 0, 5, 5]], np.float32), {"image_w": 40, "image_h": 30}
    for number in (*NUMBERS, 7, 9):
        np.savez(root / f"{number}.npz", x=np.full((1, width), value), boxes=boxes, **size)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "ours"
    put_coco(folder / "coco")
    put_regions(folder / "narrow", 3)
    put_regions(folder / "wide", 5)
    write(folder / "model_adapters" / "scorers.py", SCORERS)
    write(folder / "tasks" / "scorers.py", SCORERS)
    write(folder / "model_adapters" / "models.yaml", MODELS)
    for others, kind in (("", "alone"), ("narrow, wide, pixels", "cross")):
        text = TASK.replace("OTHERS", others)
        write(folder / "tasks" / f"alignment_{kind}.yaml", text)
        write(folder / "tasks" / f"captions_{kind}.yaml", text + "compare_across_regions: true\n")
    return folder


def comparables(source, tasks="captions_alone,captions_cross"):
    """Return what the rows of all models say is comparable, by task."""
    found = defaultdict(set)
    for result in evaluate(source, ["pixels", "narrow", "wide"], tasks):
        found[result.task].add(result.comparable)
    return found


def test_scorers_of_all_kinds_are_comparable_where_regions_are_their_own(source):
    found = comparables(source, ",".join(TASKS))
    assert [len(found[task]) for task in TASKS] == [1, 1, 3, 3]


def test_each_reads_its_own_kind_and_the_row_says_which(source, tmp_path):
    evaluate(source, ["narrow", "wide", "pixels"], "captions_cross", output=tmp_path / "boards")
    rows = {row["model"]: row for row in board(tmp_path / "boards", "captions_cross")["rows"]}
    likes = {name: [s["value"] for s in row["scores"]][:4] for name, row in rows.items()}
    assert likes == {"narrow": [3, 3, 5, 3], "wide": [5, 3, 5, 5], "pixels": [0, 3, 5, 0]}
    notes = {n: [t for t in row["notes"] if "regions" in t] for n, row in rows.items()}
    assert notes == {"narrow": ["regions: narrow"], "wide": ["regions: wide"], "pixels": []}
    assert len({row["provenance"]["data"] for row in rows.values()}) == 3


def test_what_models_do_not_share_is_not_there_to_be_measured(source):
    found = evaluate(source, "wide", "captions_alone,alignment_alone")
    shown = {result.task: result.scores[-1].value for result in found}
    assert shown == {"captions_alone": 0, "alignment_alone": 1}


@pytest.mark.nightly
def test_other_regions_of_a_companion_make_rows_that_are_not_comparable(source):
    before = comparables(source)
    put_regions(source / "wide", 5, value=2.0)
    after = comparables(source)
    assert after["captions_alone"] == before["captions_alone"]
    assert len(after["captions_cross"]) == 1
    assert after["captions_cross"].isdisjoint(before["captions_cross"])


def test_other_images_make_rows_that_are_not_comparable(source):
    before = comparables(source)
    image = source / "coco" / "val2014" / f"COCO_val2014_{NUMBERS[0]:012}.jpg"
    Image.new("RGB", (40, 30), (9, 9, 9)).save(image)
    after = comparables(source)
    assert all(after[task].isdisjoint(keys) for task, keys in before.items())


def test_a_kind_that_the_task_lacks_is_skipped_all_the_same(source):
    (result,) = evaluate(source, "odd", "captions_alone")
    assert result.reason == "odd reads regions of kind odd; the task has narrow, wide"


def test_a_task_without_regions_has_none_of_its_models_own(source):
    text = TASK.replace("OTHERS", "").replace("  regions: {narrow: ../narrow, wide: ../wide}\n", "")
    write(source / "tasks" / "bare.yaml", text + "compare_across_regions: true\n")
    message = r"bare\.yaml:8: 'compare_across_regions' is for a task whose 'data' have"
    with pytest.raises(SpecError, match=message):
        evaluate(source, "pixels", "bare")


def test_the_rows_of_the_papers_square_are_comparable(tmp_path, monkeypatch):
    put_coco(tmp_path / "coco")
    (tmp_path / "coco" / "cocotalk_fc").mkdir()
    for value, kind in enumerate(("butd-36", "butd-adaptive", "detectron-fc6-100")):
        put_regions(tmp_path / "coco_regions" / kind, 2048, value)
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    names = ["uniter-base", "vilbert", "clip-vit-b-32", "rosita-base", "lxmert-base-uncased"]
    monkeypatch.setattr("vlbench.run.weights.Weights.missing", lambda *_: {})
    jobs = planned(names, ["caption_cross_coco"]).jobs
    assert [job.status for job in jobs] == ["run"] * len(names), [job.reason for job in jobs]
    seen = [comparable_parts(job) for job in jobs]
    assert all(one == seen[0] for one in seen)
    assert [bool(one) for one in seen[0].views["scorers"]] == [True, True, True, False, True]
    assert len({job.data.digest() for job in jobs}) == 4
