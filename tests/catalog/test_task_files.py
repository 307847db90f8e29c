"""Files of several tasks: sets, their data sets, and what a broken set says."""

import pytest
from sources import write

from vlbench.catalog.catalog import load_catalog, read_catalog
from vlbench.catalog.specs import load_tasks
from vlbench.commands.validate import validate
from vlbench.errors import SpecError

SETS = """\
version: 1
title: "Few shots, {data}"
description: "Few shots of {data}"
probe: few_shot
model: {resize: 32}
params: {shots: [1], trials: 2, seed: 0}
primary: {metric: accuracy, at: {shots: 1}}
sets:
  mine: {}
  small:
    version: 2
    data_set: mine
    data: {halves: 1}
    model: null
    params: {trials: 3}
  digits: {title: Digits}
"""
DATA_SETS = """\
mine:
  title: my images
  description: a folder of mine
  data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
"""


@pytest.fixture
def ours(tmp_path):
    write(tmp_path / "tasks" / "data_sets.yaml", DATA_SETS)
    write(tmp_path / "tasks" / "family" / "zz.yaml", SETS)
    return tmp_path


@pytest.fixture
def tasks(ours):
    return load_catalog([ours]).tasks


def test_each_set_of_a_file_is_a_task_of_both_names(tasks, ours):
    assert {"zz_mine", "zz_small", "zz_digits"} <= {*tasks}
    assert "zz" not in tasks
    assert {tasks["zz_mine"].file, tasks["zz_small"].file} == {ours / "tasks/family/zz.yaml"}


def test_a_set_takes_over_the_keys_of_its_file_and_its_data_set(tasks):
    mine = tasks["zz_mine"]
    assert (mine.version, mine.model, mine.primary["metric"]) == (1, {"resize": 32}, "accuracy")
    loader = "vlbench.data.image_folder:image_folder"
    assert mine.data == {"loader": loader, "root": "../images"}


def test_a_set_changes_adds_and_leaves_out_keys(tasks):
    small = tasks["zz_small"]
    assert (small.version, small.data["halves"], small.model) == (2, 1, {})
    assert small.params == {"shots": [1], "trials": 3, "seed": 0}


def test_the_words_of_a_data_set_stand_in_title_and_description(tasks):
    texts = [(tasks[name].title, tasks[name].description) for name in ("zz_mine", "zz_digits")]
    assert texts == [
        ("Few shots, my images", "Few shots of a folder of mine"),
        ("Digits", "Few shots of handwritten digits"),
    ]


def test_a_path_of_a_data_set_lies_beside_the_list_of_data_sets(tasks, ours):
    document = tasks["zz_small"].document
    assert document.file_of("data", "root") == ours / "tasks" / "data_sets.yaml"
    assert document.where("data", "root") == f"{ours}/tasks/data_sets.yaml:4 (zz_small)"
    assert document.where("data", "halves") == f"{ours}/tasks/family/zz.yaml:13 (zz_small)"


@pytest.mark.parametrize("base", ["zz_small", "few_shot_cifar10"])
def test_a_set_can_be_extended_from_another_file(ours, tasks, base):
    text = f"version: 7\nextends: {base}\nparams: {{shots: [5]}}\n"
    (spec,) = load_tasks(write(ours / "tasks" / "other" / "child.yaml", text), ours)
    assert (spec.version, spec.title, spec.data) == (7, "", tasks[base].data)
    assert spec.params == {**tasks[base].params, "shots": [5]}


def test_a_set_may_extend_another_set_of_its_file(ours):
    text = SETS + "  next: {extends: zz_small, params: {shots: [9]}, data_set: mine}\n"
    write(ours / "tasks" / "family" / "zz.yaml", text)
    spec = load_catalog([ours]).tasks["zz_next"]
    assert (spec.data["halves"], spec.params["shots"], spec.title) == (
        1,
        [9],
        "Few shots, my images",
    )


def test_a_task_without_sets_may_name_a_data_set(ours):
    text = SETS.partition("sets:")[0] + "data_set: mine\ndata: {halves: 2}\n"
    (spec,) = load_tasks(write(ours / "tasks" / "plain.yaml", text), ours)
    assert (spec.name, spec.title, spec.data["halves"]) == ("plain", "Few shots, my images", 2)


def test_a_folder_with_sets_is_validated(ours):
    (ours / "images").mkdir()
    assert [*validate([ours / "tasks"]).values()] == ["", ""]


BROKEN_SETS = [
    ("  mine: {}", "  mine: 3", r"zz.yaml:9: the set of zz_mine must be a mapping of keys"),
    ("  mine: {}", "  a/b: {}", r"zz.yaml:9: 'a/b' is not a name for a set"),
    ("  mine: {}", "  7: {}", r"zz.yaml:9: 7 is not a name for a set"),
    ("  mine: {}", "  mine: {papr: x}", r"zz.yaml:9 \(zz_mine\): 'papr' is unknown; did you"),
    ("  mine: {}", "  mne: {}", r"zz.yaml:9 \(zz_mne\): no data set is named 'mne'; did .* mine"),
    ("halves: 1}", "halves: 1, loader: 5}", r"zz.yaml:13 \(zz_small\): 'data.loader' must be"),
    ("data_set: mine", "data_set: [x]", r"zz.yaml:12 \(zz_small\): no data set is named"),
    ("Digits", '"{set} {data}"', r"zz.yaml:16 \(zz_digits\): \{set\} in 'title' is not"),
    ("version: 2", "version: null", r"zz.yaml:11 \(zz_small\): 'version' is missing"),
    ("version: 1\n", "", r"zz.yaml:8 \(zz_mine\): 'version' is missing"),
    (
        "{title: Digits}",
        "{extends: zz_digits}",
        r"zz.yaml:16 \(zz_digits\): circular 'extends': \S*zz.yaml extends \S*zz.yaml$",
    ),
    (SETS[SETS.index("  mine") :], "  3\n", "zz.yaml:8: 'sets' must be a mapping of"),
    (SETS[SETS.index("\n  mine") :], " {}\n", "zz.yaml:8: 'sets' must be a mapping of"),
]


@pytest.mark.parametrize(("old", "new", "message"), BROKEN_SETS)
def test_a_broken_set_is_told_with_its_line_and_task(ours, old, new, message):
    file = write(ours / "tasks" / "family" / "zz.yaml", SETS.replace(old, new, 1))
    with pytest.raises(SpecError, match=message):
        load_tasks(file, ours)


def test_a_broken_set_leaves_the_other_sets_of_its_file(ours):
    write(ours / "tasks" / "family" / "zz.yaml", SETS.replace("mine: {}", "mine: {papr: x}"))
    catalog, problems = read_catalog([ours])
    assert ([*catalog.broken], problems, "zz_small" in catalog.tasks) == (["zz_mine"], [], True)


def test_a_set_and_a_file_of_one_name_are_refused(ours):
    single = "version: 1\nextends: few_shot_digits\n"
    write(ours / "tasks" / "family" / "zz_mine.yaml", single)
    with pytest.raises(SpecError, match=r"task 'zz_mine' is in \S*zz.yaml and \S*zz_mine.yaml"):
        load_catalog([ours])


BROKEN_DATA = [
    (DATA_SETS.replace("title", "titel"), "data_sets.yaml:2: 'titel' is unknown"),
    (DATA_SETS.replace("{loader", "[{loader").replace("images}", "images}]"), "4: 'data' must"),
    ("mine: 3\n", "data_sets.yaml:1: must be a mapping of title, data, description"),
    (
        DATA_SETS.replace("vlbench.data.image_folder:image_folder", "image_foldr"),
        "data_sets.yaml:4: no loader is named 'image_foldr'; did you mean image_folder",
    ),
]


@pytest.mark.parametrize(("text", "problem"), BROKEN_DATA)
def test_a_broken_data_set_is_told_with_its_line(ours, text, problem):
    file = write(ours / "tasks" / "data_sets.yaml", text)
    assert problem in validate([file])[file]
