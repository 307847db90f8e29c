from dataclasses import replace
from pathlib import Path

import pytest
from runs import evaluate
from sources import TASK, write

from vlbench.catalog import task_files
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.specs import load_tasks
from vlbench.errors import SpecError
from vlbench.run.options import Options
from vlbench.run.task import resolve_task


def test_a_loader_or_probe_of_a_sources_own_is_found_beside_its_task(source):
    write(
        source / "tasks" / "mine.py",
        "from vlbench.results import Outcome, Score\n"
        "def half(model, data, engine, *, value: float = 0.5):\n"
        "    return Outcome(scores=[Score(metric='half', value=value, n=1, unit='words')])\n",
    )
    text = TASK.replace("probe: few_shot", 'probe: "mine:half"').replace(
        "{shots: [1], trials: 2}", "{value: 1}"
    )
    write(
        source / "tasks" / "b.yaml",
        text.replace("{metric: accuracy, at: {shots: 1}}", "{metric: half}"),
    )
    (result,) = evaluate(source, tasks="b")
    assert [score.value for score in result.scores] == [1.0]


PARTNERS = """\
from vlbench.capabilities import TextEncoder
from vlbench.results import Outcome, Score

def count(model, data, engine, *, one: TextEncoder, more: list[TextEncoder]) -> Outcome:
    made = [type(partner).__name__ for partner in (one, *more)]
    value = float(made.count("Words"))
    return Outcome(scores=[Score(metric="partners", value=value, n=3, unit="words")])
"""


PARTNER_TASK = """\
version: 1
probe: "partners:count"
data: {loader: "vlbench.data.image_folder:image_folder", root: ../images}
params: {one: words, more: [words, words]}
primary: {metric: partners}
"""


def test_companions_are_named_in_yaml_and_come_as_adapters(source):
    write(source / "tasks" / "partners.py", PARTNERS)
    write(source / "tasks" / "three.yaml", PARTNER_TASK)
    (result,) = evaluate(source, tasks="three")
    assert result.scores[0].value == 3.0
    assert list(result.provenance["companions"]) == ["words"]


def test_a_companion_of_other_arguments_is_not_comparable(source):
    write(source / "tasks" / "partners.py", PARTNERS.replace("TextEncoder", "ImageEncoder"))
    task = PARTNER_TASK.replace("one: words, more: [words, words]", "one: a, more: [a]")
    write(source / "tasks" / "three.yaml", task)
    found = []
    for shift in (1, 2):
        line = f"a: {{adapter: 'colours:MeanColour', params: {{shift: {shift}}}}}\n"
        write(source / "model_adapters" / "models.yaml", line)
        (result,) = evaluate(source, model="a", tasks="three")
        found.append(result.comparable)
    assert found[0] != found[1]


SLOTS = """\
from vlbench.capabilities import ImageEncoder, TextEncoder
from vlbench.results import Outcome, Score

def joined(words: TextEncoder, data, engine, *, images: list[ImageEncoder] | None = None):
    names = f"{type(words).__name__} {[type(one).__name__ for one in images]}"
    return Outcome(scores=[Score("names", 1.0, 3, {"of": names})])

def joined_images(model: ImageEncoder, data, engine, *, words: TextEncoder):
    return joined(words, data, engine, images=[model])
"""


def test_the_model_under_test_fills_the_parameter_that_the_task_names(source):
    write(source / "tasks" / "slots.py", SLOTS)
    at = "primary: {metric: names, at: {of: \"Words ['MeanColour']\"}}\n"
    text = f"{PARTNER_TASK.partition('params')[0]}params: {{words: words}}\n{at}"
    write(source / "tasks" / "twin.yaml", text.replace("partners:count", "slots:joined_images"))
    named = text.replace("partners:count", "slots:joined")
    write(source / "tasks" / "named.yaml", f"{named}under_test: images\n")
    write(source / "tasks" / "child.yaml", "version: 1\nextends: named\n")
    twin, *others = evaluate(source, model="mean-colour", tasks="twin,named,child")
    for row in others:
        assert (row.status, row.scores, row.counts) == ("ok", twin.scores, twin.counts)
        assert row.provenance["companions"] == twin.provenance["companions"]
    (row,) = evaluate(source, model="words", tasks="named")
    assert (row.status, row.reason) == ("skipped", "the model has no ImageEncoder")


@pytest.mark.parametrize("other", ["other", "pairwise"])
def test_a_bare_name_is_a_shipped_probe_unless_the_source_has_a_file_of_that_name(source, other):
    shipped = "vlbench.probes.captioning.noun_count"
    text = TASK.replace("few_shot", "noun_count").replace("{shots: [1], trials: 2}", "{}")
    write(source / "tasks" / "b.yaml", text)
    write(source / "tasks" / f"{other}.py", "def noun_count(model, data, engine): ...\n")
    assert probe_of(source).__module__ == shipped
    write(source / "tasks" / "noun_count.py", "def noun_count(model, data, engine): ...\n")
    assert probe_of(source).__module__ != shipped


def probe_of(source):
    return resolve_task(load_catalog([source]), "b", True, Options()).probe


@pytest.mark.parametrize(
    ("probe", "splits"), [("zero_shot", ["test"]), ("few_shot", ["train", "test"])]
)
def test_a_loader_is_told_which_splits_a_probe_reads(source, probe, splits):
    text = TASK.replace("few_shot", probe).replace("{shots: [1], trials: 2}", "{}")
    write(source / "tasks" / "b.yaml", text if probe == "zero_shot" else TASK)
    task = resolve_task(load_catalog([source]), "b", True, Options())
    assert task.loader_arguments["wanted_splits"] == splits


def test_a_relative_cache_folder_is_relative_to_where_the_run_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = Options(cache_dir=Path("cache"))
    task = resolve_task(load_catalog([]), "few_shot_scenes", True, options)
    assert task.loader_arguments["cache_dir"] == tmp_path / "cache"


DIGITS = "version: 1\nextends: few_shot_digits\nparams: {shots: [1], trials: 2}\n"
DIGITS += "primary: {metric: accuracy, at: {shots: 1}}\n"


def test_a_task_that_extends_a_shipped_one_runs_as_if_it_were_written_out(source):
    write(source / "tasks" / "short.yaml", DIGITS)
    text = TASK.partition("data:")[0] + 'data: {loader: "vlbench.data.digits:digits", '
    text += "test_share: 0.5, seed: 0}\nparams: {shots: [1], trials: 2, seed: 0}\n"
    write(source / "tasks" / "whole.yaml", text + DIGITS.splitlines()[-1])
    catalog = load_catalog([source])
    short, whole = (resolve_task(catalog, n, True, Options()) for n in ("short", "whole"))
    assert short.fixed | {"task": "whole"} == whole.fixed
    assert (short.probe, short.loader) == (whole.probe, whole.loader)
    (result,) = evaluate(source, tasks="short", limit=40)
    assert (result.status, result.scores[0].at) == ("ok", {"shots": 1})


OWN = TASK.replace("few_shot\n", '"mine:probe"\n').replace("{shots: [1], trials: 2}", "{}")
UNCOUNTED, NOT_TWO = ("trials: 2", "trials: two"), "'trials' must be a whole number, not 'two'"
UNDER_TEST = PARTNER_TASK.replace("partners:", "mine:").replace("one: words, ", "")
UNDER_TEST += "under_test: one\n"
ALLOWED = "6: 'under_test' must be a parameter of the probe that takes a model: one, more; not "
REFUSED = {
    "no slot": (UNDER_TEST.replace(": one", ": two"), PARTNERS, f"{ALLOWED}'two'"),
    "data under test": (UNDER_TEST.replace(": one", ": data"), PARTNERS, f"{ALLOWED}'data'"),
    "number under test": (
        UNDER_TEST.replace(": one", ": k"),
        PARTNERS.replace("*, one", "*, k: int = 1, one"),
        f"{ALLOWED}'k'",
    ),
    "filled twice": (
        UNDER_TEST.replace("{more", "{one: words, more"),
        PARTNERS,
        "4: 'params' cannot have 'one': the model under test fills it",
    ),
    "filled twice by default": (
        TASK.replace("{shots", "{model: words, shots"),
        "",
        "6: 'params' cannot have 'model': the model under test fills it",
    ),
    "companion left out": (
        UNDER_TEST.replace(": one", ": more").replace("{more: [words, words]}", "{}"),
        PARTNERS,
        "4: 'one' is missing",
    ),
    "type": (TASK.replace(*UNCOUNTED), "", f"6: {NOT_TWO}"),
    "extended": (DIGITS.replace(*UNCOUNTED), "", f"3: {NOT_TWO}"),
    "companion": (
        PARTNER_TASK.replace("one: words", "one: mean-colour").replace("partners:", "mine:"),
        PARTNERS,
        "4: mean-colour has no TextEncoder",
    ),
    "probe": (OWN, "def probe(data, engine): ...\n", "2: a probe must take model, data, engine"),
}


@pytest.mark.parametrize(("task", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_in_a_task_is_told_where_it_stands(source, task, code, message):
    write(source / "tasks" / "mine.py", code)
    write(source / "tasks" / "b.yaml", task)
    with pytest.raises(SpecError, match=rf"b\.yaml:{message}"):
        evaluate(source, tasks="b")


def test_a_probe_beside_a_shipped_task_is_found_by_what_extends_it(source, tmp_path, monkeypatch):
    shipped = tmp_path / "shipped"
    write(shipped / "tasks" / "zz_beside.py", "def zz_beside(model, data, engine): ...\n")
    write(shipped / "tasks" / "base.yaml", TASK.replace("few_shot\n", "zz_beside\n"))
    write(source / "tasks" / "mine.yaml", "version: 1\nextends: base\n")
    monkeypatch.setattr(task_files, "shipped_source", lambda: shipped)
    (spec,) = load_tasks(source / "tasks" / "mine.yaml", source)
    spec = replace(spec, params={})
    task = resolve_task(Catalog({"mine": spec}, {}), "mine", True, Options())
    assert task.probe.__name__ == "zz_beside"


def test_both_spellings_of_a_loader_give_the_same_row(source):
    full, folder = "vlbench.data.image_folder:image_folder", source / "images"
    rows = []
    for loader in (full, "image_folder"):
        write(source / "tasks" / "b.yaml", TASK.replace(f'"{full}"', loader))
        # The name of --data-dir is that of the loader, too.
        (row,) = evaluate(source, tasks="b", data_dir={"image_folder": folder})
        rows.append((row.status, row.comparable, row.request, row.provenance["data"]))
    assert rows[0] == rows[1]
    assert (rows[0][0], rows[0][3].split()[0]) == ("ok", full)
