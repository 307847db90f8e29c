import hashlib
import json
import os
from pathlib import Path

import pytest
from sources import write

from vlbench import capabilities
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import load_models, load_tasks
from vlbench.errors import SpecError

TASK = """\
version: 2
probe: few_shot
paper: "arXiv:0000.00000"
description: words
tags: [one, two]
data: {loader: "a:b", root: x}
model: {resize: 8}
params: {shots: [1]}
primary: {metric: accuracy, at: {shots: 1}}
reference: [{model: m, metric: accuracy, value: 0.5, where: "Table 1"}]
x-note: {any: thing}
"""


@pytest.fixture
def task(tmp_path):
    def load(text):
        file = tmp_path / "few_shot_x.yaml"
        file.write_text(text)
        (spec,) = load_tasks(file, tmp_path)
        return spec

    return load


@pytest.fixture
def models(tmp_path):
    def load(text):
        file = tmp_path / "models.yaml"
        file.write_text(text)
        return load_models(file, tmp_path)

    return load


def test_a_task_has_the_name_of_its_file_and_what_the_file_says(task, tmp_path):
    spec = task(TASK)
    assert (spec.name, spec.file, spec.source) == (
        "few_shot_x",
        tmp_path / "few_shot_x.yaml",
        tmp_path,
    )
    assert (spec.version, spec.probe, spec.tags) == (2, "few_shot", ["one", "two"])
    assert spec.primary == {"metric": "accuracy", "at": {"shots": 1}}


def test_a_task_looks_beside_its_file_first(task, tmp_path):
    assert task(TASK).folders[0] == tmp_path
    assert set(task(TASK).folders) >= {tmp_path / "probes", tmp_path / "data"}


WORDS_OF_PRIMARY = r"yaml:9: 'primary\.(metric|shots)' (is missing|is unknown|must be a text)"
# What a task says, what a wrong task says instead, and the message.
REFUSED = [
    ("paper:", "papr:", r"few_shot_x\.yaml:3: 'papr' is unknown; did you mean 'paper'"),
    ("paper:", "zzz:", r"few_shot_x\.yaml:3: 'zzz' is unknown; there are version, "),
    # A misspelt key is not missing, too.
    ("primary:", "primry:", r"^\S+:9: 'primry' is unknown; did you mean 'primary'\?$"),
    (
        "version: 2\nprobe: few_shot\npaper:",
        "version: two\nprobe: few_shot\npapr:",
        r"(?s):3: 'papr' is unknown.*:1: 'version' must be a whole number",
    ),
    ("version: 2", "version: true", r"yaml:1: 'version' must be a whole number, not true"),
    ("version: 2", "version: 2.0", r"yaml:1: 'version' must be a whole number, not 2\.0"),
    ("version: 2", "version: '2'", r"yaml:1: 'version' must be a whole number, not '2'"),
    ("version: 2", "version: -3", r"yaml:1: 'version' must be 1 or more, not -3"),
    ("version: 2", "version: 0", r"yaml:1: 'version' must be 1 or more, not 0"),
    ("version: 2", "version: " + "9" * 5000, r"yaml:1: no number: 9{20}\.\.\. is too large"),
    ("description: words", "description: 5", r"yaml:4: 'description' must be a text, not 5"),
    ("tags: [one, two]", "tags: one", r"yaml:5: 'tags' must be a list of texts, not 'one'"),
    ("[one, two]", "5", r"yaml:5: 'tags' must be a list of texts, not 5"),
    ("[one, two]", "[2021, two]", r"yaml:5: "),
    ("[one, two]", "[one, all]", r"yaml:5: 'all' selects every task, so it cannot be a tag"),
    ('loader: "a:b", ', "", r"yaml:6: 'data.loader' is missing"),
    ('"a:b"', "5", r"yaml:6: 'data.loader' must be a text"),
    ("model: {resize: 8}", "model: [8]", r"yaml:7: 'model' must be a mapping, not a list"),
    ("params: {shots: [1]}", "params:", r"yaml:8: 'params' must be a mapping, not null"),
    *(
        ("{metric: accuracy, at: {shots: 1}}", primary, WORDS_OF_PRIMARY)
        for primary in ("{}", "{metric: 5}", "{metric: a, shots: 1}", "{at: {k: 1}}")
    ),
    *(
        ("at: {shots: 1}", f"at: {at}", "yaml:9: ")
        for at in ("5", "[shots]", "", "{shots: [1]}", "{shots: ~}", "{1: 2}")
    ),
    ("reference: [", "reference: [5, ", r"yaml:10: 'reference\[0\]' must be a mapping of model"),
    ("value: 0.5", "value: high", r"yaml:10: 'reference\[0\].value' must be a number, not"),
    ("value: 0.5, ", "", r"yaml:10: 'reference\[0\].value' is missing"),
    ("value: 0.5", "value: 0.5, at: 3", r"yaml:10: 'reference\[0\].at' must be a mapping"),
    ("value: 0.5", "value: 0.5, page: 3", r"yaml:10: 'reference\[0\].page' is unknown; there "),
    # Whole files, with all their problems in one message.
    (TASK, "probe: few_shot\n", r"(?s)'version' is missing.*'data' is missing.*'primary'"),
    (
        TASK,
        "version: 1\nprob: few_shot\ndata: {loader: 'a:b'}\n",
        "(?s)'prob' is unknown.*'primary' is missing",
    ),
    (TASK, "group: []\n", "group"),
    (TASK, "group: [[a]]\n", r":1: 'group\[0\]' must be a text, not "),
    (TASK, "group: [7]\n", r":1: 'group\[0\]' must be a text, not "),
    (TASK, "group: [a]\n" + TASK, "a 'group' of tasks cannot have 'probe'"),
    (TASK, "group: [a]\nfigures: [f:bars]\n", ":1: a 'group' of tasks cannot have 'figures'"),
    (TASK, "findings: []\n", "few_shot_x.yaml:1: findings belong in a folder named findings"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_what_no_task_may_say_is_told_with_its_line(task, old, new, message):
    assert old in TASK
    with pytest.raises(SpecError, match=message):
        task(TASK.replace(old, new, 1))


@pytest.mark.parametrize("key", ["version", "probe", "data", "primary"])
def test_a_missing_key_is_named(task, key):
    lines = [line for line in TASK.splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(SpecError, match=rf"few_shot_x\.yaml: '{key}' is missing"):
        task("\n".join(lines))


def test_a_group_needs_no_probe(task):
    assert task("group: [a, b]\ntags: [x]\n").group == ["a", "b"]


def test_a_models_file_lists_its_models_in_order(models):
    one, two = models("a: {adapter: 'x:Y', params: {k: 1}}\nb: {unavailable: withdrawn}\n")
    assert (one.name, one.adapter, one.params) == ("a", "x:Y", {"k": 1})
    assert (two.name, two.unavailable) == ("b", "withdrawn")


def test_a_model_may_be_without_a_capability(models):
    (model,) = models("a: {adapter: 'x:Y', without: [Classifier]}\n")
    assert model.without == ["Classifier"]


def test_notes_on_a_model_are_of_a_capability_or_of_all(models):
    (model,) = models("a: {adapter: 'x:Y', notes: {Classifier: it guesses, all: it is small}}\n")
    assert model.notes == {"Classifier": "it guesses", "all": "it is small"}
    with pytest.raises(SpecError, match="no capability is named 'Clasifier'"):
        models("a: {adapter: 'x:Y', notes: {Clasifier: it guesses}}\n")


REFUSED_MODELS = [
    (
        "a: {adapter: 'x:Y', without: [Clasifier]}",
        "1: no capability is named 'Clasifier'; did you mean Classifier\\?",
    ),
    *(
        (f"a: {{adapter: 'x:Y', released: '{date}'}}", rf"1: 'released' must be .*, not '{date}'")
        for date in ("January 2021", "2021-13", "2021-1", "21")
    ),
    ("a: {adapter: 'x:Y', released: 2021}", "1: 'released' must be a text, not 2021"),
    *(
        (f"a: {{adapter: 'x:Y'}}\nb: {entry}", "2: 'b' needs an adapter")
        for entry in ("{paper: p}", "5", "", "[adapter]")
    ),
    ('"a\\e": {adapter: "x:Y"}', r"1: 'a\\x1b' is not a name for a model; use"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED_MODELS)
def test_what_no_models_file_may_say_is_told_with_its_line(models, text, message):
    with pytest.raises(SpecError, match=rf"models\.yaml:{message}"):
        models(f"{text}\n")


def test_an_old_name_has_no_key_but_the_new_one(models):
    (old,) = models("old: {renamed: new}\n")
    assert old.renamed == "new"
    message = r"models.yaml:1: 'old' is renamed, so it cannot have other"
    with pytest.raises(SpecError, match=message):
        models("old: {renamed: new, paper: none}\n")


def test_every_capability_may_be_lacking(models):
    names = [one.__name__ for one in capabilities.capabilities_in(capabilities)]
    (model,) = models(f"a: {{adapter: 'x:Y', without: [{', '.join(names)}]}}\n")
    assert model.without == names


def test_a_capability_of_the_sources_own_files_may_be_lacking(tmp_path, models):
    text = "from typing import Protocol\nclass Captioner(Protocol):\n    def caption(self): ...\n"
    write(tmp_path / "probes" / "captions.py", text)
    (model,) = models("a: {adapter: 'x:Y', without: [Captioner]}\n")
    assert model.without == ["Captioner"]


@pytest.mark.parametrize("date", ["2021", "2021-01", "2021-01-05"])
def test_a_model_was_released_in_a_year_a_month_or_on_a_day(models, date):
    (model,) = models(f"a: {{adapter: 'x:Y', released: '{date}'}}\n")
    assert model.released == date


def test_training_images_may_be_written_as_1_2e6(models):
    (model,) = models("a: {adapter: 'x:Y', training_images: 1.2e6}\n")
    assert model.training_images == 1_200_000


def test_a_model_may_carry_keys_of_its_own(models):
    (model,) = models("a: {adapter: 'x:Y', x-owner: us}\n")
    assert model.adapter == "x:Y"


def test_no_models_file_lists_no_models(tmp_path):
    assert load_models(tmp_path / "models.yaml", tmp_path) == []


def test_all_problems_of_a_models_file_stand_in_one_message(models):
    text = "a: {adapter: 5}\nb: {}\nc:\n  adapter: x:Y\n  parms: {}\n  training_images: true\n"
    with pytest.raises(SpecError) as caught:
        models(text)
    first, second, third, fourth = str(caught.value).splitlines()
    assert first.endswith("models.yaml:1: 'adapter' must be a text, not 5")
    assert second.endswith("models.yaml:2: 'b' needs an adapter")
    assert third.endswith("models.yaml:5: 'parms' is unknown; did you mean 'params'?")
    assert fourth.endswith("models.yaml:6: 'training_images' must be a number or null, not true")


@pytest.mark.parametrize("name", ["all", ".hidden", "a\\b", "a\x1bb"])
def test_a_task_has_a_name_that_a_board_can_have(tmp_path, name):
    file = write(tmp_path / f"{name}.yaml", TASK)
    with pytest.raises(SpecError, match="is not a name for a task; rename the file"):
        load_tasks(file, tmp_path)


BASE = """\
version: 3
description: a base
tags: [base]
probe: few_shot
paper: "arXiv:1"
data: {loader: "m:f", root: here, most: 5}
params: {shots: [1], seed: 0}
primary: {metric: accuracy, at: {shots: 1}}
reference: [{model: m, metric: accuracy, value: 0.5, where: Table 1}]
"""
CHILD = """\
version: 1
extends: base
data: {root: there}
params: {seed: 1}
"""


@pytest.fixture
def child(tmp_path):
    def load(text, base=BASE):
        folder = tmp_path / "tasks" / "family"
        write(folder / "base.yaml", base)
        write(folder / "child.yaml", text)
        (spec,) = load_tasks(folder / "child.yaml", tmp_path)
        return spec

    return load


def test_a_task_takes_over_what_it_does_not_say_itself(child):
    spec = child(CHILD)
    assert (spec.version, spec.probe, spec.paper) == (1, "few_shot", "arXiv:1")
    assert spec.data == {"loader": "m:f", "root": "there", "most": 5}
    assert spec.params == {"shots": [1], "seed": 1}
    assert spec.primary == {"metric": "accuracy", "at": {"shots": 1}}


def test_figures_are_taken_over_as_the_probe_is(child):
    base = BASE + "figures: [f:bars]\n"
    assert child(CHILD, base).figures == ["f:bars"]
    assert child(CHILD, base).document.where("figures", "0").endswith("base.yaml:10")
    assert child(CHILD + "figures: [f:lines]\n", base).figures == ["f:lines"]


def test_reference_description_tags_and_version_are_not_taken_over(child):
    spec = child(CHILD)
    assert (list(spec.reference), spec.description, list(spec.tags)) == ([], "", [])
    with pytest.raises(SpecError, match=r"child.yaml: 'version' is missing"):
        child(CHILD.replace("version: 1", ""))


def test_an_error_and_a_path_are_of_the_file_where_the_key_stands(child):
    document = child(CHILD).document
    assert document.where("data", "root").endswith("child.yaml:3")
    assert document.where("data", "most").endswith("base.yaml:6")
    assert document.where("primary", "at").endswith("base.yaml:8")
    with pytest.raises(SpecError, match=r"base.yaml:6: 'data.loader' must be a text, not 7"):
        child(CHILD, BASE.replace('"m:f"', "7"))
    assert document.file_of("data", "root").name == "child.yaml"
    assert document.file_of("data", "most").name == "base.yaml"


def test_a_task_of_another_folder_of_the_source_can_be_extended(child, tmp_path):
    child(CHILD)
    file = write(tmp_path / "tasks" / "other" / "third.yaml", CHILD)
    assert load_tasks(file, tmp_path)[0].probe == "few_shot"


NOT_EXTENDED = [
    (CHILD.replace("extends: base", "extends: bass"), BASE, r":2: no task .* did you mean base"),
    (CHILD.replace("extends: base", "extends: ../base"), BASE, r":2: no task is named '../base'"),
    (
        CHILD.replace("extends: base", "extends: child"),
        BASE,
        r"child.yaml:2: circular 'extends': \S*/child.yaml extends \S*/child.yaml$",
    ),
    (
        CHILD,
        BASE + "extends: child\n",
        (
            r"base.yaml:10: circular 'extends': \S*child.yaml extends "
            r"\S*base.yaml extends \S*child.yaml$"
        ),
    ),
    (CHILD + "group: [base]\n", BASE, "child.yaml:2: .extends. is for tasks with a probe"),
    (CHILD, "version: 1\ngroup: [child]\n", "child.yaml:2: .extends. is for tasks with a"),
    (CHILD.replace("{root: there}", "7"), BASE, "child.yaml:3: 'data' must be a mapping"),
]


@pytest.mark.parametrize(("text", "base", "message"), NOT_EXTENDED)
def test_what_cannot_be_extended_is_told(child, text, base, message):
    with pytest.raises(SpecError, match=message):
        child(text, base)


GRANDCHILD = "version: 2\nextends: child\nparams: {shots: [7]}\n"


def test_a_task_that_itself_extends_counts_as_merged(child, tmp_path):
    child(CHILD)
    file = write(tmp_path / "tasks" / "family" / "grandchild.yaml", GRANDCHILD)
    (spec,) = load_tasks(file, tmp_path)
    assert spec.data == {"loader": "m:f", "root": "there", "most": 5}
    assert (spec.params, spec.probe) == ({"shots": [7], "seed": 1}, "few_shot")
    keys = [("params", "shots"), ("params", "seed"), ("data", "most"), ("primary", "metric")]
    places = ["grandchild.yaml:3", "child.yaml:4", "base.yaml:6", "base.yaml:8"]
    assert [spec.document.where(*key).rpartition("/")[2] for key in keys] == places
    assert spec.document.file_of("data", "root").name == "child.yaml"


def test_whether_regions_count_is_taken_over_with_the_probe(child):
    regions = BASE.replace("most: 5}", "most: 5, regions: {k: there}}")
    assert child(CHILD, regions + "compare_across_regions: true\n").compare_across_regions


def test_a_task_of_a_source_extends_a_shipped_one(tmp_path):
    text = "version: 1\nextends: transfer_fashion_mnist\nparams: {seed: 7}\n"
    file = write(tmp_path / "tasks" / "mine.yaml", text)
    (spec,), theirs = load_tasks(file, tmp_path), load_catalog().tasks["transfer_fashion_mnist"]
    assert (spec.probe, spec.data, spec.primary) == (theirs.probe, theirs.data, theirs.primary)
    assert spec.params == {**theirs.params, "seed": 7}
    assert spec.document.where("params", "seed") == f"{file}:3"
    assert spec.document.where("data", "root").startswith(f"{DATA_SETS}:")
    assert spec.document.where("probe").startswith(f"{theirs.file}:")


def test_of_two_tasks_to_extend_the_sources_own_wins(tmp_path):
    write(tmp_path / "tasks" / "elsewhere" / "few_shot_digits.yaml", BASE)
    text = CHILD.replace("extends: base", "extends: few_shot_digits")
    file = write(tmp_path / "tasks" / "mine.yaml", text)
    assert load_tasks(file, tmp_path)[0].paper == "arXiv:1"


def test_a_name_that_two_files_of_a_source_have_is_extended_by_none(tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / "tasks" / folder / "base.yaml", BASE)
    file = write(tmp_path / "tasks" / "mine.yaml", CHILD)
    with pytest.raises(SpecError, match=r"mine.yaml:2: 'base' is in \S*a/base.yaml and \S*b/base"):
        load_tasks(file, tmp_path)


def test_functions_are_looked_up_beside_the_task_that_is_extended_after_ones_own(tmp_path):
    write(tmp_path / "tasks" / "far" / "base.yaml", BASE)
    file = write(tmp_path / "tasks" / "near" / "mine.yaml", CHILD)
    assert load_tasks(file, tmp_path)[0].folders == [
        *(tmp_path / "tasks" / "near", tmp_path / "probes", tmp_path / "data"),
        *(tmp_path, tmp_path / "tasks" / "far"),
    ]


DATA_SETS = shipped_source() / "tasks" / "data_sets.yaml"
PINNED = Path(__file__).with_name("pinned_tasks.json")


def shipped_digests():
    """Return version and digest of each shipped task as merged with what it extends."""
    keys = ("probe", "data", "model", "params", "primary", "compare_across_regions")
    found = {}
    for name, spec in sorted(load_catalog().tasks.items()):
        values = [*(getattr(spec, key) for key in keys), *filter(None, [spec.under_test])]
        text = json.dumps(values, sort_keys=True)
        if not spec.group:
            found[name] = [spec.version, hashlib.sha256(text.encode()).hexdigest()[:16]]
    return found


def test_a_shipped_task_that_changed_has_another_version():
    found, pinned = shipped_digests(), json.loads(PINNED.read_text("utf-8"))
    same_version = {name for name in found if found[name][0] == pinned.get(name, [0])[0]}
    assert [name for name in same_version if found[name] != pinned[name]] == []
    if os.environ.get("VLBENCH_PIN"):
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
        PINNED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    assert found == json.loads(PINNED.read_text("utf-8")), "write it again with VLBENCH_PIN=1"
