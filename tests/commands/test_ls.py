import json
import sys

import pytest
from sources import make_source, write

from vlbench.cli import main
from vlbench.commands.ls import list_things
from vlbench.errors import SpecError, UnknownNameError

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
    assert about == "2 tasks: few_shot_colours, few_shot_digits"


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


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    return str(make_source(tmp_path_factory.mktemp("theirs") / "ours"))


def listed(theirs, capsys, *words):
    assert main(["ls", *words, "--include-path", theirs, "--json"]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_a_filter_is_a_tag_or_a_part_of_the_name(theirs, capsys):
    assert listed(theirs, capsys, "tasks", "ours").keys() == {"few_shot_colours"}
    named = listed(theirs, capsys, "tasks", "few_*_c")
    assert {"few_shot_colours", "few_shot_cifar10", "few_shot_cub"} <= named.keys()
    assert all(name.startswith("few_shot_c") for name in named)


def test_a_filter_is_a_capability_that_models_have_and_tasks_need(theirs, capsys):
    models = listed(theirs, capsys, "models", "ImageEncoder")
    assert "mean-colour" in models
    assert all("ImageEncoder" in row["capabilities"] for row in models.values())
    assert "few_shot_colours" in listed(theirs, capsys, "tasks", "ImageEncoder")


def test_models_are_listed_with_what_they_can_do_and_tasks_with_what_they_need(theirs, capsys):
    models = listed(theirs, capsys, "models")
    assert models["mean-colour"]["capabilities"] == ["ImageEncoder"]
    assert models["gone"]["capabilities"] is None
    assert listed(theirs, capsys, "tasks", "ours")["few_shot_colours"]["needs"] == "ImageEncoder"


COSTLY = """\
zebra:
  adapter: "colours:MeanColour"
  paper: p
  parameters: 1000000000
  training_data: [CIFAR-10, Flowers]
  released: "2021-01"
  cost: {flops: 2.e10, image: 224, licence: MIT}
ant: {adapter: "colours:MeanColour"}
"""


def test_models_whose_cost_is_known_stand_first_and_say_it(source):
    write(source / "model_adapters" / "models.yaml", COSTLY)
    rows = list_things("models", [source])
    known = [row["cost"] is not None for row in rows]
    assert known == sorted(known, reverse=True)
    (zebra,) = (row for row in rows if row["name"] == "zebra")
    assert zebra["about"] == (
        "p; 4 GB as float32, 20 GFLOP for an image of 224 x 224 (estimate: 2 ms at 10 TFLOP/s); MIT"
    )
    assert next(row for row in rows if row["name"] == "ant")["about"] == ""


def test_a_model_is_listed_with_its_size_its_training_data_and_its_date(source, capsys):
    write(source / "model_adapters" / "models.yaml", COSTLY)
    (zebra,) = (row for row in list_things("models", [source], "zebra"))
    assert (zebra["parameters"], zebra["released"]) == (1_000_000_000, "2021-01")
    assert zebra["training_data"] == ["CIFAR-10", "Flowers"]
    assert main(["ls", "models", "zebra", "--include-path", str(source)]) == 0
    told = capsys.readouterr().out
    assert "training data" in told
    assert "1,000.0 million" in told
    assert "CIFAR-10, Flowers" in told


def test_a_model_without_them_has_empty_cells(source, capsys):
    write(source / "model_adapters" / "models.yaml", "zz-ant: {adapter: 'colours:MeanColour'}\n")
    (ant,) = list_things("models", [source], "zz-ant")
    assert (ant["parameters"], ant["training_data"], ant["released"]) == (None, [], "")
    assert main(["ls", "models", "zz-ant", "--include-path", str(source)]) == 0
    (line,) = (one for one in capsys.readouterr().out.splitlines() if "zz-ant" in one)
    assert line.split() == ["zz-ant", "ImageEncoder"]


def test_a_cost_that_lacks_a_number_is_an_error_with_its_line(source):
    write(source / "model_adapters" / "models.yaml", COSTLY.replace("flops: 2.e10, ", ""))
    with pytest.raises(SpecError, match=r"models.yaml:7: 'cost"):
        list_things("models", [source])


def test_a_misspelt_loader_is_told_with_its_bare_name():
    with pytest.raises(UnknownNameError, match=r"'imag_folder'; did you mean image_folder"):
        list_things("data", [], "imag_folder")
