import importlib.metadata
import sys

import pytest
from sources import write

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.catalog.sources import find_sources, shipped_source
from vlbench.errors import SpecError, UnknownNameError

TASK = """\
version: 1
probe: few_shot
tags: [{tag}]
data: {{loader: "a:b"}}
primary: {{metric: accuracy}}
"""


def task(source, name, tag="ours", text=None):
    file = source / "tasks" / "family" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(TASK.format(tag=tag) if text is None else text)
    return file


def models(source, text):
    file = source / "model_adapters" / "models.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def point_to(monkeypatch, value):
    points = {"vlbench.sources": [importlib.metadata.EntryPoint("theirs", value, "any")]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points[group])


@pytest.fixture
def source(tmp_path):
    task(tmp_path, "zz_one", "first")
    task(tmp_path, "zz_two", "second")
    task(tmp_path, "zz_both", text="group: [zz_one, zz_two]\ntags: [grouped]\n")
    models(tmp_path, "zz-model: {adapter: 'x:Y'}\n")
    return tmp_path


def test_the_shipped_source_has_tasks_that_need_no_download():
    catalog = load_catalog()
    assert (shipped_source() / "tasks").is_dir()
    assert {"few_shot_digits", "clustering_digits"} <= set(catalog.task_names(["embedded"]))


def test_every_shipped_task_has_a_paper_and_a_short_description():
    tasks = load_catalog().tasks.values()
    assert [(t.name, len(t.description)) for t in tasks if len(t.description) > 80] == []
    assert [t.name for t in tasks if not (t.group or (t.paper and t.description))] == []


def test_an_included_source_adds_its_tasks_and_models(source):
    catalog = load_catalog([source])
    assert catalog.tasks["zz_one"].source == source.resolve()
    assert catalog.model("zz-model").adapter == "x:Y"
    assert "few_shot_digits" in catalog.tasks


@pytest.mark.parametrize("word", ["first", "zz_o*", "zz_on?"])
def test_a_tag_and_a_glob_select_without_naming(source, word):
    assert load_catalog([source]).task_names([word]) == {"zz_one": False}


def test_a_name_is_named_by_the_user(source):
    assert load_catalog([source]).task_names(["zz_one"]) == {"zz_one": True}


def test_a_task_that_is_named_and_selected_is_named(source):
    catalog = load_catalog([source])
    assert catalog.task_names(["zz_*", "zz_two"]) == {"zz_one": False, "zz_two": True}
    assert catalog.task_names(["zz_two", "zz_*"]) == {"zz_one": False, "zz_two": True}


def test_a_group_stands_for_its_tasks(source):
    assert load_catalog([source]).task_names(["zz_both"]) == {"zz_one": True, "zz_two": True}


def test_all_selects_every_task_and_no_group(source):
    catalog = load_catalog([source])
    groups = {name for name, task in catalog.tasks.items() if task.group}
    assert "zz_both" in groups
    assert set(catalog.task_names(["all"])) == set(catalog.tasks) - groups


UNKNOWN = [
    ("task_names", ["zz_on"], "no task, tag or glob is named 'zz_on'; .*zz_one"),
    ("task_names", ["secnd"], r"named 'secnd'; did you mean second\?"),
    ("task_names", ["qqq", "www"], "(?s)qqq.*www"),
    ("model", "zz-modl", "no model is named 'zz-modl'; did you mean zz-mod"),
]


@pytest.mark.parametrize(("ask", "names", "message"), UNKNOWN)
def test_unknown_names_are_all_told_with_the_nearest(source, ask, names, message):
    catalog = load_catalog([source])
    with pytest.raises(UnknownNameError, match=message):
        getattr(catalog, ask)(names)


def test_the_tag_of_a_group_selects_its_tasks(source):
    assert load_catalog([source]).task_names(["grouped"]) == {"zz_one": False, "zz_two": False}


def test_a_tag_of_a_task_and_a_group_selects_all_of_both(source):
    task(source, "zz_three", "grouped")
    assert set(load_catalog([source]).task_names(["grouped"])) == {"zz_one", "zz_two", "zz_three"}


def test_a_tag_that_is_a_number_leaves_the_message_whole(tmp_path):
    task(tmp_path, "zz_one", "2021")
    with pytest.raises((SpecError, UnknownNameError), match=r"qqq|zz_one\.yaml:3"):
        load_catalog([tmp_path]).task_names(["qqq"])


def test_a_source_given_twice_counts_once(source):
    assert find_sources([source, source / ".." / source.name]) == find_sources([source])


@pytest.mark.parametrize("name", ["", "gone"])
def test_a_folder_that_is_no_source_is_refused(tmp_path, name):
    message = f"{tmp_path / name}: a source needs a folder tasks/ or model_ad"
    with pytest.raises(SpecError, match=message):
        load_catalog([tmp_path / name])


def test_a_model_whose_name_is_refused_is_left_out_alone_and_that_is_said_once(tmp_path, caplog):
    models(tmp_path, '"zz-\\u202eb": {adapter: "x:Y"}\nzz-good: {adapter: "x:Y"}\n')
    for _ in range(2):
        catalog = load_catalog([tmp_path])
    assert [name for name in catalog.models if name.startswith("zz-")] == ["zz-good"]
    (said,) = [one for one in caplog.messages if "left out" in one]
    assert r"models.yaml:1: 'zz-\u202eb' is not a name for a model; use" in said


def test_the_package_of_an_entry_point_is_a_source(tmp_path, monkeypatch):
    (tmp_path / "zz_theirs").mkdir()
    (tmp_path / "zz_theirs" / "__init__.py").write_text("raise RuntimeError('imported')")
    task(tmp_path / "zz_theirs", "zz_task")
    monkeypatch.syspath_prepend(tmp_path)
    point_to(monkeypatch, "zz_theirs")
    assert load_catalog().tasks["zz_task"].source == (tmp_path / "zz_theirs").resolve()


def test_an_installed_distribution_brings_its_source(tmp_path, monkeypatch):
    info = tmp_path / "zz_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vlbench.sources]\nzz = zz_dist\n")
    (tmp_path / "zz_dist").mkdir()
    (tmp_path / "zz_dist" / "__init__.py").touch()
    task(tmp_path / "zz_dist", "zz_installed")
    monkeypatch.syspath_prepend(tmp_path)
    assert "zz_installed" in load_catalog().tasks


@pytest.mark.parametrize("value", ["zz_nowhere", "bisect", "zz_nowhere.source"])
def test_an_entry_point_that_is_no_package_is_named(monkeypatch, value):
    point_to(monkeypatch, value)
    with pytest.raises(SpecError, match=f"entry point 'theirs': '{value}' is not a package"):
        load_catalog()


def test_listing_tasks_imports_nothing_that_they_name(source):
    load_catalog([source])
    assert not {"x", "vlbench.probes.zz"} & set(sys.modules)


CLAIMS = """\
findings:
  - {finding: It works., task: zz_one, model: m, metric: accuracy, within: [0.5, 1]}
"""


def test_an_included_source_adds_its_findings(source):
    write(source / "tasks" / "findings" / "zz_ours.yaml", CLAIMS)
    catalog = load_catalog([source])
    found = load_all_findings(catalog, [source])
    assert [finding.text for finding in found["zz_ours"].findings] == ["It works."]
    assert {"vsep", "zz_ours"} <= set(found)
    assert "zz_ours" not in catalog.tasks


RENAMED = "new: {adapter: 'x:Y', params: {k: 1}}\nold: {renamed: new}\n"


def test_an_old_name_stands_for_the_new_one_with_a_warning(source, caplog):
    models(source, RENAMED)
    catalog = load_catalog([source])
    assert "old" not in catalog.models
    assert catalog.model("old") is catalog.model("new")
    assert caplog.messages == ["model old is now new; the old name will go"]


OURS, MODEL, NEW = TASK.format(tag="ours"), "zz: {adapter: 'x:Y'}", "new: {adapter: 'x:Y'}\n"
MODELS, FINDINGS = "model_adapters/models.yaml", "findings/zz_ours.yaml"
BROKEN = {
    "two-tasks": (
        {"a/tasks/zz.yaml": OURS, "b/tasks/zz.yaml": OURS},
        r"task 'zz' is in /\S+/a/tasks/zz\.yaml and /\S+/b/tasks/zz\.yaml",
    ),
    "two-models": (
        {f"a/{MODELS}": MODEL, f"b/{MODELS}": MODEL},
        rf"model 'zz' is in /\S+/a/{MODELS} and /\S+/b/{MODELS}",
    ),
    "no-task": (
        {"a/tasks/zz.yaml": "tags: [x]\ngroup: [nowhere]"},
        r"zz\.yaml:2: no task 'nowhere'",
    ),
    "group": (
        {"a/tasks/b.yaml": "group: [few_shot_digits]", "a/tasks/zz.yaml": "group: [b]"},
        r"zz\.yaml:1: no task 'b'",
    ),
    "all": (
        {"a/tasks/a.yaml": "papr: x", "a/tasks/b.yaml": "a: 1\na: 2", f"a/{MODELS}": "m: {}"},
        r"(?s)a\.yaml:1: .*b\.yaml:2: .*models\.yaml:1: ",
    ),
    "no-finding": (
        {"a/tasks/zz_one.yaml": OURS, f"a/tasks/{FINDINGS}": CLAIMS.replace("zz_one", "zz_on")},
        r"zz_ours\.yaml:2: no task is named 'zz_on'; did you mean",
    ),
    "two-findings": (
        {"a/tasks/zz_one.yaml": OURS, **{f"a/tasks/{x}/{FINDINGS}": CLAIMS for x in "ab"}},
        r"findings 'zz_ours' is in .*a/findings.* and .*b/findings",
    ),
    "no-model": (
        {f"a/{MODELS}": NEW + "old: {renamed: nwe}"},
        r"models\.yaml:2: no model is named .nwe.; did you mean new",
    ),
    "two-old": ({f"a/{MODELS}": NEW + "tiny-clip: {renamed: new}"}, "model 'tiny-clip' is in "),
}


@pytest.mark.parametrize(("files", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_in_sources_is_told_with_its_files(tmp_path, files, message):
    for name, text in files.items():
        write(tmp_path / name, text)
    sources = sorted(tmp_path.iterdir())
    with pytest.raises(SpecError, match=message):
        load_all_findings(load_catalog(sources), sources)


@pytest.mark.parametrize("name", ["tiny-clip", "tiny-rn", "clip-rn50"])
def test_the_models_of_crops_have_the_names_of_their_encoders(name):
    assert load_catalog().model(f"{name}-crops").name == name


def test_a_glob_of_models_is_those_that_can_be_had(source):
    line = "{adapter: 'x:Y'}"
    models(source, f"zz-b: {line}\nzz-a: {line}\nzz-c: {{unavailable: lost}}\n")
    catalog = load_catalog([source])
    assert catalog.model_names(["zz-*", "hf:a/b*c", object]) == ["zz-a", "zz-b", "hf:a/b*c", object]
    with pytest.raises(UnknownNameError, match=r"no available model matches 'zz-\?c'"):
        catalog.model_names(["zz-?c"])


MEANT = [
    ("resnet50", "timm:resnet50 or torchvision:resnet50"),
    ("vit_base_patch16_224.augreg", "timm:vit_base_patch16_224.augreg"),
    ("my-vit", "hf:./my-vit"),
    ("./my-vit", "hf:./my-vit"),
]


@pytest.mark.parametrize(("name", "meant"), MEANT)
def test_a_bare_library_or_folder_is_told_as_a_model_of_it(tmp_path, monkeypatch, name, meant):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-vit").mkdir()
    with pytest.raises(UnknownNameError) as told:
        load_catalog().model(name)
    assert str(told.value) == f"no models.yaml lists '{name}'; did you mean {meant}?"


def test_all_names_that_name_nothing_are_told_at_once_with_the_nearest():
    with pytest.raises(UnknownNameError) as error:
        load_catalog().require(["raw-pixel", "tiny-*", "tiny-clop", "timm:x"], ["few_shot_digit"])
    task, model, another = str(error.value).splitlines()
    assert task.startswith(
        "no task, tag or glob is named 'few_shot_digit'; did you mean few_shot_d"
    )
    assert model == "no model is named 'raw-pixel'; did you mean raw-pixels?"
    assert another.startswith("no model is named 'tiny-clop'; did you mean tiny-clip")


def test_an_old_name_of_a_model_is_known_and_not_yet_told(source, caplog):
    models(source, "old: {renamed: raw-pixels}\n")
    load_catalog([source]).require(["old"])
    assert caplog.records == []
