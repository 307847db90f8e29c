"""A recording needs no image, at any task whose items have names."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from vlbench.capabilities import Recording
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import find_sources
from vlbench.data.aro import visual_genome_attribution, visual_genome_relation
from vlbench.data.mmvp import mmvp
from vlbench.data.pope import NEGATIVES, pope
from vlbench.data.sugar_crepe import COUNTS, sugar_crepe
from vlbench.data.table import images, questions
from vlbench.data.whats_up import SUBSETS, whats_up
from vlbench.data.winoground import winoground
from vlbench.errors import DataAbsent
from vlbench.run.options import Options
from vlbench.run.task import resolve_task
from vlbench.schema import alternatives, parameters

# Loaders whose data have no images, or draw them.
WITHOUT = {"vlbench.data.blink:blink", "vlbench.data.recorded_items:recorded_items"}
# Recorded answers are scored by another task.
OTHERS = {"vlbench.data.blink:blink_images"}


def draw(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        Image.new("RGB", (20, 20), (10 * i, 0, 0)).save(folder / name)


def put(file, *lines):
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")


def of_pope(root):
    for name in NEGATIVES:
        asked = {"image": "a.jpg", "text": "Is there a dog?", "label": "yes"}
        put(root / f"coco_pope_{name}.json", asked, {**asked, "image": "b.jpg", "label": "no"})
    draw(root / "val", "a.jpg", "b.jpg")
    return partial(pope, root=root, images=root / "val")


def of_mmvp(root):
    with (root / "Questions.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["Index", "Question", "Options", "Correct Answer"])
        write.writerows([i, "Is it open?", "(a) Open (b) Closed", "(a)"] for i in (1, 2))
    draw(root / "MMVP Images", "1.jpg", "2.jpg")
    return partial(mmvp, root=root)


def of_winoground(root):
    entry = {"image_0": "a", "image_1": "b", "caption_0": "x y", "caption_1": "y x"}
    put(root / "examples.jsonl", {**entry, "collapsed_tag": "Object"})
    draw(root / "images", "a.png", "b.png")
    return partial(winoground, root=root)


def of_sugar_crepe(root):
    for name in COUNTS:
        item = {"filename": "a.jpg", "caption": f"a {name}", "negative_caption": "b"}
        put(root / f"{name}.json", {"0": item})
    draw(root / "val", "a.jpg")
    return partial(sugar_crepe, root=root, images=root / "val")


def of_aro(root, load=visual_genome_relation):
    box = {"bbox_x": 1, "bbox_y": 1, "bbox_w": 5, "bbox_h": 5}
    texts = {"true_caption": "x on y", "false_caption": "y on x"}
    kind = {"relation_name": "on", "attributes": ["red", "big"]}
    file = "relation" if load is visual_genome_relation else "attribution"
    entries = [{**box, **texts, **kind, "image_path": "a.jpg"}]
    put(root / f"visual_genome_{file}.json", entries)
    draw(root / "images", "a.jpg")
    return partial(load, root=root)


def of_whats_up(root, subset="coco_one"):
    options = ["on", "under", "left", "right"]
    entry = [1, "A dog on top", "A dog below"]
    if subset.startswith("controlled"):
        entry = {"image_path": "data/mug_on_table.jpeg", "caption_options": options}
        draw(root / SUBSETS[subset].folder, "mug_on_table.jpeg")
        if subset == "controlled_clevr":
            entry["image_path"] = "data/mug_behind_table.jpeg"
            draw(root / SUBSETS[subset].folder, "mug_behind_table.jpeg")
    draw(root / SUBSETS[subset].folder, "000000000001.jpg", "1.jpg")
    put(root / SUBSETS[subset].file, [entry])
    return partial(whats_up, root=root, subset=subset)


def of_questions(root):
    (root / "q.csv").write_text("image,question,answer\na.png,Is it red?,yes\nb.png,Is it?,no\n")
    draw(root, "a.png", "b.png")
    return partial(questions, root=root, test="q.csv")


def of_foils(root):
    (root / "f.csv").write_text("image,caption,foil\na.png,a cat,a dog\nb.png,a dog,a cat\n")
    draw(root, "a.png", "b.png")
    return partial(images, root=root, test="f.csv", label="", caption="caption", foil="foil")


SOURCES = [
    of_pope,
    of_mmvp,
    of_winoground,
    of_sugar_crepe,
    of_aro,
    partial(of_aro, load=visual_genome_attribution),
    *(partial(of_whats_up, subset=name) for name in SUBSETS),
    of_questions,
    of_foils,
]


@pytest.mark.parametrize("source", SOURCES)
def test_without_images_the_items_are_the_same(source, tmp_path):
    load = source(tmp_path)
    shown = load().splits["test"]
    for file in [*tmp_path.rglob("*.jpg"), *tmp_path.rglob("*.jpeg"), *tmp_path.rglob("*.png")]:
        file.unlink()
    for folder in [one for one in tmp_path.iterdir() if one.is_dir()]:
        folder.rmdir()
    data = load(pixels=False)
    looked_up = data.splits["test"]
    assert set(looked_up.columns) == set(shown.columns)
    assert looked_up["image"].examples().ids == shown["image"].examples().ids
    texts = {*shown.columns} - {"image", "picture", "image_2", "picture_2"}
    assert all([*looked_up[name]] == [*shown[name]] for name in texts)
    with pytest.raises(DataAbsent):
        looked_up["image"][0]


@pytest.mark.parametrize("source", [one for one in SOURCES if one not in (of_questions, of_foils)])
def test_rows_of_a_published_set_compare_with_and_without_images(source, tmp_path):
    load = source(tmp_path)
    assert load().compared_by() == load(pixels=False).compared_by()
    shown, looked_up = (
        one.splits["test"]["image"].examples() for one in (load(), load(pixels=False))
    )
    assert shown == looked_up


def test_every_task_of_recordings_reads_no_image_for_them():
    catalog = load_catalog(find_sources([]))
    read = {}
    for name, spec in catalog.tasks.items():
        if spec.group or "embedded" in spec.tags:
            continue
        task = resolve_task(catalog, name, True, Options(output=Path()))
        if Recording in alternatives(task.needs):
            read[spec.data["loader"]] = "pixels" in parameters(task.loader)
    assert len(read) > 8
    assert {loader for loader, can in read.items() if not can} == WITHOUT | OTHERS
