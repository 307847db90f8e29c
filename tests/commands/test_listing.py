import sys
from pathlib import Path

import pytest
from planted_boards import board, result, score
from planted_boards import write as write_boards
from sources import TASK, make_source, write

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.listing import list_things, show_thing
from vlbench.errors import SpecError, UnknownNameError

ALIGNMENT = "object_label_alignment_coco"

PROBE = '''\
"""A probe of ours."""
import zz_nowhere

def look(model, data, engine, *, shots: list[int] = [1]) -> "Outcome":
    """Return how well it looks.

    More words."""

def helper(a, b): ...

def _hidden(model, data, engine): ...

def part(model, data, engine) -> "Tensor": ...

def unsaid(model, data, engine): ...
'''
LOADER = '''\
import zz_nowhere
def shapes(*, root: "Path") -> Data:
    """Return shapes."""
def count() -> int: ...
def joined(data) -> Data: ...
'''


@pytest.fixture
def source(tmp_path):
    folder = make_source(tmp_path / "ours")
    write(folder / "probes" / "zz_look.py", PROBE)
    write(folder / "data" / "zz_shapes.py", LOADER)
    return folder


def by_name(kind, source):
    return {row["name"]: row for row in list_things(kind, [source])}


def test_every_row_has_name_tags_and_file(source):
    rows = [
        row for kind in ("tasks", "models", "probes", "data") for row in list_things(kind, [source])
    ]
    assert [row for row in rows if not {"name", "tags", "file", "about"} <= set(row)] == []


def test_tasks_are_listed_with_their_probe(source):
    row = by_name("tasks", source)["few_shot_colours"]
    assert row == {
        "name": "few_shot_colours",
        "tags": ["ours"],
        "file": str(source / "tasks" / "few_shot_colours.yaml"),
        "probe": "few_shot",
        "needs": "ImageEncoder",
        "about": "a paper",
    }


def test_tasks_are_sorted_by_name(source):
    names = [row["name"] for row in list_things("tasks", [source])]
    assert names == sorted(names)
    assert "few_shot_digits" in names


def test_a_group_says_what_it_stands_for(source):
    write(source / "tasks" / "zz_group.yaml", "group: [few_shot_colours, few_shot_digits]\n")
    about = by_name("tasks", source)["zz_group"]["about"]
    assert about == "group of few_shot_colours, few_shot_digits"


def test_models_are_listed_and_unavailable_ones_say_so(source):
    rows = by_name("models", source)
    assert rows["mean-colour"]["adapter"] == "colours:MeanColour"
    assert rows["gone"]["about"] == "unavailable: its weights were withdrawn"


def test_the_probes_that_are_shipped_are_listed():
    rows = {row["name"]: row for row in list_things("probes", [])}
    assert rows["vlbench.probes.generalization.few_shot:few_shot"]["file"].endswith(
        "probes/generalization/few_shot.py"
    )
    assert rows["vlbench.probes.generalization.few_shot:few_shot"]["about"].endswith(".")


def test_the_loaders_that_are_shipped_are_listed():
    assert "vlbench.data.digits:digits" in {row["name"] for row in list_things("data", [])}


def test_probes_and_loaders_of_a_source_are_listed_without_importing_them(source):
    before = set(sys.modules)
    probes, loaders = by_name("probes", source), by_name("data", source)
    assert probes["zz_look:look"]["about"] == "Return how well it looks."
    assert loaders["zz_shapes:shapes"]["about"] == "Return shapes."
    ours = [name for name in (*probes, *loaders) if name.startswith("zz_")]
    assert ours == ["zz_look:look", "zz_look:unsaid", "zz_shapes:shapes"]
    assert not [name for name in set(sys.modules) - before if "zz_" in name]


def test_nothing_is_listed_twice():
    names = [row["name"] for kind in ("probes", "data") for row in list_things(kind, [])]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("content", [b"def look(:", b"# \xff\n"])
def test_a_file_that_is_no_python_is_named(source, content):
    (source / "probes" / "zz_broken.py").write_bytes(content)
    with pytest.raises(SpecError, match=r"zz_broken\.py"):
        list_things("probes", [source])


@pytest.mark.parametrize("annotation", ["records.Data", "'Data'"])
def test_a_loader_is_known_however_its_annotation_is_written(source, annotation):
    write(source / "data" / "zz_more.py", f"def more() -> {annotation}: ...\n")
    assert "zz_more:more" in by_name("data", source)


def test_a_task_is_shown_as_its_file_says(source):
    shown = show_thing(load_catalog([source]), "few_shot_colours", Path())
    assert list(shown)[:2] == ["name", "file"]
    assert shown["params"] == {"shots": [1], "trials": 2}
    assert shown["file"] == str(source / "tasks" / "few_shot_colours.yaml")


def test_keys_of_ones_own_are_shown_too(source):
    write(source / "tasks" / "zz.yaml", TASK + "x-owner: us\n")
    assert show_thing(load_catalog([source]), "zz", Path())["x-owner"] == "us"


def test_a_model_is_shown_as_its_line_says(source):
    shown = show_thing(load_catalog([source]), "mean-colour", Path())
    assert (shown["adapter"], shown["paper"]) == ("colours:MeanColour", "none")


def test_what_is_neither_suggests_the_nearest_of_both(source):
    catalog = load_catalog([source])
    with pytest.raises(
        UnknownNameError, match=r"no task or model is named 'mean-color'; .*mean-colour"
    ):
        show_thing(catalog, "mean-color", Path())
    with pytest.raises(UnknownNameError, match="did you mean few_shot_digits"):
        show_thing(catalog, "few_shot_digit", Path())


def test_a_model_whose_name_is_a_number_is_shown(source):
    write(source / "model_adapters" / "models.yaml", "7: {adapter: 'colours:Words'}\n")
    assert show_thing(load_catalog([source]), "7", Path())["adapter"] == "colours:Words"


def test_our_value_stands_beside_a_published_one(tmp_path):
    at = {"objects": 2}
    row = result("bert-base-uncased", score(0.98, at=at, stderr=0.002), task=ALIGNMENT, version=2)
    write_boards(tmp_path, board(row, task=ALIGNMENT, version=2))
    found = show_thing(load_catalog(), ALIGNMENT, tmp_path)["reference"]
    (ours,) = [one for one in found if "ours" in one]
    assert (ours["where"], ours["value"], ours["ours"]) == ("Table 1", 0.9872, 0.98)
    assert ours["difference"] == pytest.approx(-0.0072)
    assert ours["in_standard_errors"] == pytest.approx(-3.6)


def test_our_value_without_a_standard_error_has_the_difference_alone(tmp_path):
    row = result("bert-base-uncased", score(0.98, at={"objects": 2}), task=ALIGNMENT, version=2)
    write_boards(tmp_path, board(row, task=ALIGNMENT, version=2))
    found = show_thing(load_catalog(), ALIGNMENT, tmp_path)["reference"]
    assert "in_standard_errors" not in next(one for one in found if "ours" in one)


def test_without_a_board_the_published_values_stand_alone(tmp_path):
    shown = show_thing(load_catalog(), ALIGNMENT, tmp_path)
    assert not [one for one in shown["reference"] if "ours" in one]
