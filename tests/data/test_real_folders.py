"""Each folder of real records passes through a task, and n is what the original files hold."""

import csv
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from runs import evaluate
from scipy.io import loadmat
from sources import write

# Finds a fixed grid of boxes in every image, so that no weights are needed.
GRID = """\
import torch

from vlbench.capabilities import Regions

class Grid:
    def __init__(self, *, device, dtype=torch.float32):
        pass

    def detect(self, pictures):
        return [self._one(*picture.image.size) for picture in pictures]

    def _one(self, width, height):
        places = torch.cartesian_prod(torch.arange(4.0), torch.arange(4.0))
        boxes = torch.cat([places, places + 1], 1) / 4 * torch.tensor([width, height] * 2)
        return Regions(boxes, torch.eye(16), torch.ones(16), None, (width, height))
"""

# Finds the second question of each image by the first, among the second questions of all images.
ALIKE = """\
import torch

from vlbench.capabilities import TextEncoder
from vlbench.data.records import Data, value_column
from vlbench.results import Outcome, Score

def alike(model: TextEncoder, data: Data, engine) -> Outcome:
    \"\"\"Return how often the first question of an image is nearest to its second.\"\"\"
    several = [texts for texts in data.splits["test"]["questions"] if len(texts) > 1]
    columns = (value_column([texts[k] for texts in several], "text") for k in range(2))
    first, second = (engine.features(model.encode_texts, column).double() for column in columns)
    nearest = (first @ second.T).argmax(1)
    found = (nearest == torch.arange(len(several))).double().mean()
    return Outcome(scores=[Score("found", float(found), len(several), chance=1 / len(several))])
"""

VQA_FILES = {"train": "vqa_questions_valid.gzip", "test": "vqa_questions_test.gzip"}

FLICKR = """\
extends: entity_grounding_flickr30k
version: 1
data: {splits: [train], regions: {none: null}}
params: {split: train, detector: grid, examples: 0}
"""
COCO = """\
extends: object_label_alignment_regions_coco
version: 1
params: {words: tiny-bert, objects: [2], training: {epochs: 5, batch_size: 512, seed: 0}}
"""
IMAGENET = """\
extends: zero_shot_imagenet
version: 1
params: {prompts: "a photo of a {}."}
"""
ASKED = """\
version: 1
probe: "alike:alike"
data: {{loader: "vlbench.data.{loader}", root: $VLBENCH_DATA/{options}}}
primary: {{metric: found}}
"""
VQG = ASKED.format(loader="vqg:vqg", options="vqg")
VQA = ASKED.format(
    loader="vqa:vqa",
    options="vqa, version: 2, parts: {train: train2014, test: train2014}, files: "
    + json.dumps(VQA_FILES),
)


@pytest.fixture
def source(tmp_path) -> Path:
    tasks = {"flickr": FLICKR, "coco": COCO, "imagenet": IMAGENET, "vqg": VQG, "vqa": VQA}
    for name, text in tasks.items():
        write(tmp_path / f"tasks/real_{name}.yaml", text)
    write(tmp_path / "tasks/alike.py", ALIKE)
    write(tmp_path / "model_adapters/grid.py", GRID)
    write(tmp_path / "model_adapters/models.yaml", 'grid: {adapter: "grid:Grid"}\n')
    return tmp_path


@pytest.fixture
def run(real_data, source):
    """Return the row of a model on a task that reads a folder of real records."""

    def result(model, task, folder):
        root = real_data / folder
        if not root.is_dir():
            pytest.skip(f"{root} is not here")
        (row,) = evaluate(source, model, task, data_dir={task: root})
        assert (row.status, row.reason) == ("ok", "")
        return row

    return result


def test_coco_tells_its_crowds_and_aligns_two_things_an_image(run, real_data):
    row = run("tiny-vlm", "real_coco", "coco_mini")
    crowds, several, lacks = 0, 0, 118_287 + 5_000
    for part in ("train", "val"):
        content = json.loads(
            (real_data / f"coco_mini/annotations/instances_{part}2017.json").read_text()
        )
        crowds += sum(one["iscrowd"] for one in content["annotations"])
        single = {
            (a["image_id"], a["category_id"]) for a in content["annotations"] if not a["iscrowd"]
        }
        several += sum(n > 1 for n in Counter(image for image, _ in single).values())
        lacks -= len(content["images"])
    assert row.counts["dropped"] == crowds
    assert f"left out: {crowds} annotations of crowds, or without area" in row.notes
    assert row.counts["expected"] - row.counts["n"] == lacks
    assert row.counts["n"] == 2 * row.counts["images_2"]
    assert several / 2 < row.counts["images_2"] <= several


def test_flickr30k_asks_for_every_phrase_with_a_box_and_tells_the_others(run, real_data):
    row = run("tiny-vlm", "real_flickr", "flickr30k_entities/sample")
    folder = real_data / "flickr30k_entities/sample"
    has_box = Counter()
    for image in (folder / "train.txt").read_text().split():
        things = ET.parse(folder / f"Annotations/{image}.xml").iter("object")  # noqa: S314
        boxed = {
            n.text for one in things if one.find("bndbox") is not None for n in one.iter("name")
        }
        sentences = (folder / f"Sentences/{image}.txt").read_text(encoding="utf-8")
        has_box.update(chain in boxed for chain in re.findall(r"\[/EN#(\d+)/", sentences))
    assert row.counts["n"] == has_box[True]
    assert row.counts["phrases_without_boxes"] == has_box[False]


def test_cub_tests_the_birds_that_its_split_names(run, real_data):
    row = run("tiny-clip", "zero_shot_cub", "cub_200_2011_sample")
    lines = (
        (real_data / "cub_200_2011_sample/CUB_200_2011/train_test_split.txt")
        .read_text()
        .splitlines()
    )
    flags = Counter(line.split()[1] for line in lines)
    assert row.counts["n"] == flags["0"]
    assert f"partial: test lacks {5_794 - flags['0']} of 5794 rows" in row.notes
    assert f"partial: train lacks {5_994 - flags['1']} of 5994 rows" in row.notes


def test_svhn_clusters_every_digit(run, real_data):
    row = run("raw-pixels", "clustering_svhn", "svhn/derived_format2")
    digits = Counter(
        loadmat(real_data / "svhn/derived_format2/test_32x32.mat")["y"].ravel().tolist()
    )
    assert row.counts["n"] == digits.total()
    score = next(score for score in row.scores if score.metric == "accuracy")
    most = max(digits.values()) / digits.total()
    assert score.floors["majority_class"] == pytest.approx(most)


def test_imagenet_names_every_image(run, real_data):
    row = run("tiny-clip", "real_imagenet", "imagenet_sample")
    wnids = {file.name[:9] for file in (real_data / "imagenet_sample/images").glob("*.JPEG")}
    assert row.counts["n"] == len(wnids)
    assert f"partial: test lacks {50_000 - len(wnids)} of 50000 rows" in row.notes


def test_vqg_reads_every_image_and_tells_those_not_rated(run, real_data):
    row = run("tiny-bert", "real_vqg", "vqg")
    with (real_data / "vqg/coco_test_all_clean.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cells = [[one[name].split("---") for name in ("questions", "ratings")] for one in rows]
    unrated = sum(len(questions) != len(ratings) for questions, ratings in cells)
    assert row.counts["n"] == sum(len(questions) > 1 for questions, _ in cells)
    assert f"partial: test lacks {1_250 - len(rows)} of 1250 rows" in row.notes
    assert f"not rated: the questions of {unrated} image of test" in row.notes


def test_vqa_reads_every_question_and_tells_the_images_of_both_splits(run, real_data):
    row = run("tiny-bert", "real_vqa", "vqa_v2")
    images = {}
    for split, file in VQA_FILES.items():
        content = json.loads(gzip.decompress((real_data / "vqa_v2" / file).read_bytes()))
        images[split] = Counter(one["image_id"] for one in content["questions"])
    shared = images["train"].keys() & images["test"].keys()
    assert row.counts["n"] == sum(n > 1 for n in images["test"].values())
    assert f"partial: test lacks {82_783 - len(images['test'])} of 82783 rows" in row.notes
    assert f"both in train and in test: {len(shared)} images" in row.notes
