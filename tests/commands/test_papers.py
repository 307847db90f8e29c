import pytest
from sources import write

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.cli import main
from vlbench.code.functions import load_object
from vlbench.data.records import Data
from vlbench.report.papers import cells, rows_of, total
from vlbench.schema import hints

MINE = """\
paper: "arXiv:0000.00001"
title: Colours
question: Are means of colours told apart?
experiments:
  - {task: few_shot_colours, models: [mean-colour, fails]}
without:
  - {what: a camera, why: nobody has one, nearest: drawings}
findings:
  - finding: Means of colours tell colours apart.
    task: few_shot_colours
    metric: accuracy
    at: {shots: 1}
    greater: [{model: mean-colour}, {model: mean-colour, floor: chance}]
"""


@pytest.fixture
def mine(source):
    write(source / "tasks" / "findings" / "mine.yaml", MINE)
    return source


def run(mine, *words):
    boards = mine / "boards"
    return main(["papers", *words, f"--include-path={mine}", f"--output={boards}", "--no-cache"])


def test_the_dry_run_says_of_each_paper_what_its_rows_cost_and_runs_none(mine, capsys):
    assert run(mine, "mine", "--dry-run") == 0
    printed = capsys.readouterr().out
    assert "Colours, arXiv:0000.00001: 2 rows, 0.0 GB\nAre means of colours told apart?" in printed
    assert "without a camera: nobody has one; nearest: drawings" in printed
    assert not (mine / "boards").exists()


def test_only_the_first_rows_may_be_asked_for(mine, capsys):
    assert run(mine, "mine", "--dry-run", "--rows=1") == 0
    assert "1 row, 0.0 GB" in capsys.readouterr().out
    assert run(mine, "mine", "--rows=1") == 0
    assert "fails" not in capsys.readouterr().out


def test_the_rows_are_run_and_kept_and_what_fails_is_told(mine, capsys):
    assert run(mine, "mine") == 1
    printed = capsys.readouterr()
    assert "mean-colour · few_shot_colours: ok" in printed.out
    assert "fails · few_shot_colours: failed" in printed.out
    assert "Means of colours tell colours apart" in printed.out
    assert run(mine, "mine") == 1
    assert "kept" in capsys.readouterr().out


def test_what_several_rows_lack_is_told_once(mine, capsys):
    text = MINE.replace("[mean-colour, fails]", "[will-not-load, will-not-load]")
    write(mine / "tasks" / "findings" / "mine.yaml", text)
    assert run(mine, "mine") == 1
    told = capsys.readouterr().err
    assert told.count("no weights here") == told.count("nothing ran") == 1


def test_a_task_that_no_source_has_is_named(mine, capsys):
    text = MINE.replace("{task: few_shot_colours, models", "{task: few_shot_colour, models")
    write(mine / "tasks" / "findings" / "mine.yaml", text)
    assert run(mine, "mine", "--dry-run") == 2
    assert "did you mean few_shot_colours" in capsys.readouterr().err


CATALOG = load_catalog()
PAPERS = load_all_findings(CATALOG)


@pytest.mark.parametrize("name", PAPERS)
def test_each_shipped_paper_has_experiments_whose_sizes_are_known(name):
    rows = rows_of(PAPERS[name], CATALOG)
    assert rows
    assert all(row.data_gigabytes for row in rows)
    assert not any(CATALOG.model(row.model).unavailable for row in rows)
    assert PAPERS[name].question.endswith("?")


def test_a_data_set_and_weights_of_several_rows_are_fetched_once():
    rows = rows_of(PAPERS["generalization"], CATALOG)
    models = {row.model: row.weights_gigabytes for row in rows}
    whole = f"{len(rows)} rows, {0.17 + 6.74 + sum(models.values()):.1f} GB"
    assert total(rows) == whole


def test_hours_are_those_that_rows_of_boards_took(mine, capsys):
    assert run(mine, "mine") == 1
    capsys.readouterr()
    assert run(mine, "mine", "--dry-run") == 0
    assert "2 rows, 0.0 GB; 1 of them took 0.0 h" in capsys.readouterr().out


def test_published_values_of_other_sources_are_apart():
    rows = rows_of(PAPERS["generalization"], CATALOG)
    (row,) = [r for r in rows if (r.task, r.model) == ("robustness_imagenet_200", "rn50")]
    assert (row.published, cells(row)[2], row.hours) == (3, "-, 3 elsewhere", None)


def test_the_data_sets_are_those_of_loaders():
    assert {hints(load_object(name, []))["return"] for name in data_sets()} == {Data}
