import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sources import write

from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.commands.data import list_data
from vlbench.run.options import Options


def run(source, *words):
    return main(["data", *words, "--include-path", str(source)])


def test_splits_classes_sizes_and_examples_are_shown(source, capsys):
    assert run(source, "few_shot_colours") == 0
    told = capsys.readouterr().out
    assert "few_shot_colours: 3 classes" in told
    assert ["train", "9", "0", "0", "3", "8x8"] in [line.split() for line in told.splitlines()]
    assert told.count("train: ") == 5
    assert "in test," not in told


def test_duplicates_and_what_two_splits_share_are_counted_by_content(source, capsys):
    images = source / "images"
    shutil.copy(images / "train/red/0.png", images / "train/red/again.png")
    shutil.copy(images / "train/red/1.png", images / "test/red/other.png")
    assert run(source, "few_shot_colours", "--json") == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert (splits["train"]["rows"], splits["train"]["duplicates"]) == (10, 1)
    assert splits["train"]["overlap"] == {"test": 1}
    assert splits["test"]["overlap"] == {"train": 1}
    assert splits["train"]["per_class"] == {"blue": 3, "green": 3, "red": 4}


def test_each_column_that_a_probe_sees_has_an_example(source, capsys):
    rows = "image,first,second,label\n"
    for file in sorted((source / "images").rglob("*.png")):
        rows += f"{file.relative_to(source / 'images')},a cat,its second caption,x\n"
    (source / "images" / "all.csv").write_text(rows)
    table = '{loader: "vlbench.data.table:images", root: ../images, test: all.csv, label: label,'
    spec = (source / "tasks/few_shot_colours.yaml").read_text()
    spec = re.sub(r"data: .*", f"data: {table} caption: [first, second]}}", spec)
    (source / "tasks/captioned.yaml").write_text(spec)
    assert run(source, "captioned") == 0
    told = capsys.readouterr().out
    assert "  caption: 'a cat'\n  captions: ['a cat', 'its second caption']\n" in told
    assert "  image: an image of 8x8\n  label: 0\n" in told


def test_what_is_left_out_is_said(source, capsys):
    (source / "images/train/red/0.heic").touch()
    assert run(source, "few_shot_colours") == 0
    said = "left out: 1 files (.heic) that are not images of a class"
    assert said in capsys.readouterr().out.splitlines()


def test_images_that_two_splits_share_are_told_without_the_images(source, capsys):
    asked = {"questions": [{"question_id": 72, "image_id": 7, "question": "Who?"}]}
    (source / "images/asked.json").write_text(json.dumps(asked))
    parts = "parts: {train: a, test: b}, files: {train: asked.json, test: asked.json}"
    data = f'data: {{loader: "vlbench.data.vqa:vqa", root: ../images, {parts}}}'
    primary = "primary: {metric: cider}"
    spec = f"version: 1\nprobe: question_generation\n{data}\n{primary}\n"
    (source / "tasks/asked.yaml").write_text(spec)
    assert run(source, "asked") == 0
    assert "both in train and in test: 1 image" in capsys.readouterr().out.splitlines()


def test_absent_data_say_what_to_fetch_with_exit_code_2(source, capsys):
    shutil.rmtree(source / "images")
    assert run(source, "few_shot_colours") == 2
    assert "absent" in capsys.readouterr().err


def test_a_group_lists_its_members(source, capsys):
    assert run(source, "few_shot_six") == 0
    assert "few_shot_six is a group of" in capsys.readouterr().out


def test_a_data_dir_of_no_such_name_is_refused(source, capsys):
    assert run(source, "few_shot_colours", "--data-dir", "few_shot_color=x") == 2
    assert "did you mean few_shot_colours" in capsys.readouterr().err


def listed(capsys, *words):
    assert main(["data", "--all", *words]) == 0
    return capsys.readouterr().out


def put(folder, *files):
    for file in files:
        Path(folder, file).parent.mkdir(parents=True, exist_ok=True)
        Path(folder, file).touch()


def test_the_data_of_all_tasks_are_found_or_what_to_get_and_none_are_read(tmp_path, capsys):
    before = listed(capsys, "--data-dir", str(tmp_path))
    assert "missing  cub: CUB-200-2011; get it from vision.caltech.edu" in before
    archive = "CUB_200_2011.tgz"
    assert f"({archive}); put it at $VLBENCH_DATA/cub/CUB_200_2011/" in " ".join(before.split())
    lists = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
    put(tmp_path / "cub" / "CUB_200_2011", *lists)
    put(tmp_path / "coco_regions" / "butd-36", "a.tsv")
    after = listed(capsys, "--data-dir", str(tmp_path)).splitlines()
    found = [line for line in after if line.startswith("found")]
    drawn = ("foils", "foils_and_phrases", "objects", "pair_questions", "scenes", "twins")
    named = sorted([*drawn, "coco_regions/butd-36", "cub", "digits", "gensim_word_pairs"])
    assert found == [f"found    {name}" for name in named]
    assert not (tmp_path / "cache" / "vlbench").exists()


def test_a_line_fits_80_columns_but_for_a_word_that_is_longer(tmp_path, capsys):
    lines = listed(capsys, "--data-dir", str(tmp_path)).splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line.strip()] == []


def test_data_dirs_and_sources_of_ones_own_count(source, capsys):
    own = ["--include-path", str(source), "--data-dir", "vlbench.data.cub:cub=birds"]
    rows = json.loads(listed(capsys, *own, "--json"))
    cub = next(row for row in rows if row["name"] == "cub")
    assert (cub["found"], cub["put"].startswith(str(Path("birds").absolute()))) == (False, True)
    assert "few_shot_cub" in cub["tasks"]
    mine = next(row for row in rows if row["name"] == "image_folder")
    assert (mine["found"], mine["tasks"], mine["tags"]) == (True, ["few_shot_colours"], [])
    with pytest.raises(KeyError):
        mine["get"]


@pytest.mark.parametrize("words", [[], ["few_shot_digits", "--all"]])
def test_a_task_or_all_is_wanted(words, capsys):
    assert main(["data", *words]) == 2
    assert "name a task, or pass --all" in capsys.readouterr().err


def test_files_that_are_shipped_with_an_extended_task_are_not_listed(source):
    write(source / "tasks" / "mine.yaml", "version: 1\nextends: caption_patterns_scenes\n")
    catalog = load_catalog([source])
    catalog = replace(catalog, tasks={"mine": catalog.tasks["mine"]})
    rows = list_data(catalog, Options(include_path=[source]))
    assert [row["name"] for row in rows] == ["scenes"]
