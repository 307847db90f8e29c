from planted_boards import board, result, score, write

from vlbench.catalog.catalog import load_catalog
from vlbench.report.page.page import read_page

CATALOG = load_catalog()


def models(folder, *rows, **more):
    """The models of a page of rows of one task, and of more tasks with rows of their own."""
    others = [board(*own, task=task) for task, own in more.items()]
    return read_page(write(folder, board(*rows), *others), CATALOG).models


def test_a_model_of_the_catalog_says_what_it_is(tmp_path):
    (model,) = models(tmp_path, result("tiny-clip", score()))
    assert model.facts["weights"] == "trained by scripts/train_tiny.py; Apache-2.0"
    assert "ImageEncoder" in model.capabilities


def test_whether_a_model_has_seen_the_data_is_unknown_unless_its_line_says_so(tmp_path):
    (model,) = models(tmp_path, result("clip-rn50", score()))
    assert model.facts["seen in training"] == "unknown"


def test_a_model_that_no_catalog_lists_says_so_and_what_was_overridden(tmp_path):
    plain, changed = models(tmp_path, result("mine[size=8]", score()), result("[x]", score()))
    assert "overridden" not in plain.facts
    assert changed.facts["overridden"] == "size=8"
    assert changed.facts["catalog"].startswith("not listed")


def test_a_page_has_all_scores_of_a_model_and_none_of_a_summary(tmp_path):
    write(tmp_path / "summaries", board(result("a", score(), task="g"), task="g"))
    found = result("a", score(0.5), score(0.4, metric="other", at={"shots": 1}))
    (model,) = models(tmp_path, found)
    ((section, entry),) = model.entries
    assert (section.name, entry.primary.value, len(entry.row.scores)) == ("t", 0.5, 2)


def test_a_page_says_what_a_model_cannot_do_and_why(tmp_path):
    (model,) = models(tmp_path, result("a", status="skipped", reason="no eyes"))
    assert model.reasons == {("skipped", "no eyes"): ["t"]}


def told_of(folder, t, u=None):
    """Return the provenance of a model that has a row with such provenance on each task."""
    rows = {task: result("m", task=task, provenance=p) for task, p in (("t", t), ("u", u)) if p}
    first, *others = rows.values()
    (model,) = models(folder, first, **{row.task: [row] for row in others})
    return model.provenance


def test_what_holds_for_every_task_is_said_once_and_the_rest_names_its_tasks(tmp_path):
    found = told_of(tmp_path, *({"weights": "w", "dtype": kind} for kind in ("float32", "float16")))
    told = [("weights", "w", ""), ("dtype", "float32", "t"), ("dtype", "float16", "u")]
    assert found == told


def test_libraries_of_the_same_tasks_stand_together(tmp_path):
    libraries = {"torch": "2.0", "numpy": "2.4"}
    more = {**libraries, "scipy": "1"}
    told = [("libraries", "numpy 2.4, torch 2.0", ""), ("libraries", "scipy 1", "u")]
    assert told_of(tmp_path, {"libraries": libraries}, {"libraries": more}) == told


def test_arguments_are_written_as_on_the_command_line(tmp_path):
    ((_, text, _),) = told_of(tmp_path, {"params": {"size": 8, "name": "x", "flip": True}})
    assert text == "size=8, name=x, flip=true"


def test_provenance_of_another_shape_is_shown_as_text(tmp_path):
    found = told_of(tmp_path, {"params": ["<b>"], "libraries": 3})
    assert [text for _, text, _ in found] == ["['<b>']"]
