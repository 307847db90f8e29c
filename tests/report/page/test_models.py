from planted_boards import board, result, score

from vlbench.catalog.catalog import load_catalog
from vlbench.report.page.models import facts_of, model_rows, models_of, overridden
from vlbench.report.page.tables import Shelf

CATALOG = load_catalog()


def pages(*rows, brief=False):
    found = model_rows(Shelf("t", board(*rows), {}, is_summary=False))
    return models_of(found, sorted({row.model for row in rows}), CATALOG, brief=brief)


def facts(model):
    return {fact.label: fact.text for fact in model.facts}


def test_a_model_of_the_catalog_says_what_it_is():
    (model,) = pages(result("tiny-clip", score()))
    assert facts(model)["weights"] == "trained by scripts/train_tiny.py; Apache-2.0"
    assert "ImageEncoder" in model.capabilities


def test_whether_a_model_has_seen_the_data_is_unknown_unless_its_line_says_so():
    (model,) = pages(result("clip-rn50", score()))
    assert facts(model)["seen in training"] == "unknown"


def test_a_model_that_no_catalog_lists_says_so_and_what_was_overridden():
    (model,) = pages(result("mine[size=8]", score()))
    assert facts(model)["overridden"] == "size=8"
    assert facts(model)["catalog"].startswith("not listed")


def test_a_page_has_all_scores_of_a_model():
    (model,) = pages(result("a", score(0.5), score(0.4, metric="other", at={"shots": 1})))
    (group,) = model.groups
    assert (group.label, group.scores[0].score) == ("accuracy (shots 5), %", "50.0")
    assert [(o.metric, o.at, o.value) for o in group.scores[0].others] == [
        ("other", "shots 1", "40.0 %")
    ]


def test_a_brief_page_has_the_primary_scores_alone():
    (model,) = pages(result("a", score(), score(metric="other")), brief=True)
    assert [len(one.others) for group in model.groups for one in group.scores] == [0]


def test_a_page_says_what_a_model_cannot_do_and_why():
    (model,) = pages(result("a", status="skipped", reason="no eyes"))
    assert [tuple(one) for one in model.reasons] == [("skipped", "no eyes", ["t"])]


def told_of(**provenances):
    """Return the facts of a model that has a row with such provenance on each task."""
    rows = {task: result("m", provenance=given) for task, given in provenances.items()}
    shelves = [Shelf(task, board(row), {}, is_summary=False) for task, row in rows.items()]
    return facts_of([row for shelf in shelves for row in model_rows(shelf)])


def test_what_holds_for_every_task_is_said_once_and_the_rest_names_its_tasks():
    both = {"t": {"weights": "w", "dtype": "float32"}, "u": {"weights": "w", "dtype": "float16"}}
    told = [("weights", "w", ""), ("dtype", "float32", "t"), ("dtype", "float16", "u")]
    assert [tuple(fact) for fact in told_of(**both)] == told


def test_libraries_of_the_same_tasks_stand_together():
    libraries = {"torch": "2.0", "numpy": "2.4"}
    more = {**libraries, "scipy": "1"}
    told = [("libraries", "numpy 2.4, torch 2.0", ""), ("libraries", "scipy 1", "u")]
    found = told_of(t={"libraries": libraries}, u={"libraries": more})
    assert [tuple(fact) for fact in found] == told


def test_arguments_are_written_as_on_the_command_line():
    (fact,) = told_of(t={"params": {"size": 8, "name": "x", "flip": True}})
    assert fact.text == "size=8, name=x, flip=true"


def test_provenance_of_another_shape_is_shown_as_text():
    assert [fact.text for fact in told_of(t={"params": ["<b>"], "libraries": 3})] == ["['<b>']"]


def test_what_was_overridden_stands_in_brackets():
    assert overridden("clip-rn50[weights=random]") == "weights=random"
    assert (overridden("clip-rn50"), overridden("[x]")) == ("", "")
