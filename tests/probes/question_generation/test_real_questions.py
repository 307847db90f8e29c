"""The whole probe on real questions and captions of VQG, with region vectors that are made up here.

The images of bing, which have captions in VQG's own file, stand as if they were COCO's.
"""

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_boards import result
from question_fakes import Speaks, masked_lm, tokenizer

from vlbench.boards.artifacts import read_table
from vlbench.boards.board import save_artifacts
from vlbench.data.vqg import vqg
from vlbench.engine import Engine
from vlbench.probes.question_generation.question_generation import question_generation
from vlbench.probes.question_generation.rating.sheets import COLUMNS, QUESTIONS, sample_questions
from vlbench.probes.question_generation.training import BertGenTraining

COUNTS = {"train": 24, "test": 8}
REGIONS, WIDTH = 36, 16

# What needs no Java.
METRICS = ("bleu_1", "bleu_4", "rouge_l", "cider")


def put_made_up_regions(folder, images):
    """36 random regions for each image, as npz."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for image in images:
        corner = rng.uniform(0, 300, (REGIONS, 2))
        boxes = np.concatenate([corner, corner + rng.uniform(5, 100, (REGIONS, 2))], 1)
        arrays = {"x": rng.normal(size=(REGIONS, WIDTH)), "boxes": boxes}
        np.savez(folder / f"{image}.npz", **arrays, image_w=400, image_h=400)
    return folder


@pytest.fixture(scope="module")
def real_questions(tmp_path_factory):
    """Real questions and captions of 32 images, numbered, with made-up regions."""
    if "VLBENCH_DATA" not in os.environ:
        pytest.skip("VLBENCH_DATA is not set: real records are not here")
    root, number, annotations = tmp_path_factory.mktemp("vqg"), 0, []
    for split, count in COUNTS.items():
        own = Path(os.environ["VLBENCH_DATA"], "vqg", f"bing_{split}_all_clean.csv")
        with own.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))[:count]
        with (root / f"coco_{split}_all.csv").open("w", newline="", encoding="utf-8") as lines:
            writer = csv.writer(lines)
            writer.writerow(["image_id", "questions"])
            for row in rows:
                number += 1
                writer.writerow([number, row["questions"]])
                for caption in row["captions"].split("---"):
                    entry = {"id": len(annotations), "image_id": number, "caption": caption}
                    annotations.append(entry)
    (root / "annotations").mkdir()
    for part in ("train2014", "val2014"):
        file = root / f"annotations/captions_{part}.json"
        file.write_text(json.dumps({"annotations": annotations}))
    features = put_made_up_regions(root / "butd", range(1, number + 1))
    return vqg(root=root, coco=root, features=features, splits=list(COUNTS))


@pytest.fixture(scope="module")
def outcome(real_questions):
    """What an untaught little BERT makes of them, with a tokenizer of all their words."""
    splits = real_questions.splits.values()
    columns = [split[name] for split in splits for name in ("captions", "questions")]
    texts = [text for column in columns for of_image in column for text in of_image]
    words = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]+", text)})
    network = masked_lm(vocabulary=len(words) + 5, max_position_embeddings=128)
    given = Speaks(tokenizer(words), network), real_questions, Engine.for_tests()
    training = BertGenTraining(epochs=1, batch_size=32)
    return question_generation(*given, regions=REGIONS, training=training, metrics=METRICS)


@pytest.mark.nightly
def test_every_step_is_scored_on_every_real_image(outcome, real_questions):
    scores = {(s.metric, s.at["step"]): s for s in outcome.scores if s.metric in METRICS}
    steps = ["1", "2", "2 unfrozen", "3", "3 from scratch"]
    for metric in METRICS:
        assert [scores[metric, step].n for step in steps] == [COUNTS["test"]] * 5
    assert {s.n for s in outcome.scores} == {COUNTS["test"]}
    asked = sum(map(len, real_questions.splits["train"]["questions"]))
    assert outcome.counts["train_images"] == COUNTS["train"]
    assert outcome.counts["train_questions"] == asked
    # So little teaches nothing, and the questions of five people are like each other.
    compared = {s.at["step"]: s for s in outcome.scores if s.metric == "cider_leave_one_out"}
    assert [*compared] == ["people", *steps]
    assert len(compared["people"].draws) == 5
    assert max(compared[step].value for step in steps) < compared["people"].value
    assert ("cider", "people") not in scores


@pytest.mark.nightly
def test_the_references_are_the_images_real_questions(outcome, real_questions):
    rows = outcome.artifacts["questions"].to_pylist()
    by_id = {row["id"]: row["references"] for row in rows}
    asked = real_questions.splits["test"]["questions"]
    assert [len(references) for references in by_id.values()] == [len(five) for five in asked]
    first = {re.sub(r"\W", "", text).lower() for text in asked[0]}
    assert {re.sub(r"\W", "", text).lower() for text in next(iter(by_id.values()))} == first


@pytest.mark.nightly
def test_people_can_judge_the_questions(outcome, tmp_path):
    saved = save_artifacts(tmp_path, "t", "m", {"questions": outcome.artifacts["questions"]})
    row = replace(result("m"), artifacts=saved)
    table = read_table(tmp_path, row, QUESTIONS, COLUMNS)
    shown = sample_questions(row, table, ["1", "2", "3"], images=5, seed=0)
    assert [len(one.questions) for one in shown] == [4] * 5
    items = outcome.items.to_pylist()
    assert {one.digest for one in shown} <= {item["digest"] for item in items}
