import pytest
from planted_boards import board, result, score, write
from planted_findings import catalog, findings, task

from vlbench.errors import UnknownNameError
from vlbench.report.reproduction import (
    COLUMNS,
    count_values,
    find_papers,
    grids,
    lines,
    reproduce,
    summary,
    tasks_of_paper,
)

CITED = [{"model": m, "metric": "accuracy", "at": {"shots": 5}, "value": 0.5, "where": "Table 1"}
         for m in "ab"]  # fmt: skip
TEXT = """\
paper: "arXiv:1"
title: A Paper
findings:
  - {finding: It sings., where: Table 1, needs: a microphone}
  - {finding: It is so., task: u, model: a, metric: accuracy, within: [0, 1]}
"""
TASKS = [
    task(paper="arXiv:1, section 2", reference=CITED),
    task("u"),
    task("v", paper="arXiv:12", reference=CITED),
    task("w", paper="arXiv:1"),
]

KNOWN = catalog(*TASKS)


@pytest.fixture
def paper(tmp_path):
    return findings(tmp_path, TEXT, "ours")


@pytest.mark.parametrize("name", ["ours", "arXiv:1", ""])
def test_a_paper_is_found_by_its_name_and_by_its_id_and_all_without_one(paper, name):
    assert find_papers({"ours": paper}, name) == [paper]


def test_an_unknown_paper_is_told_with_the_nearest(paper):
    with pytest.raises(UnknownNameError, match="no paper is named 'our'; did you mean ours"):
        find_papers({"ours": paper}, "our")


def test_the_tasks_of_a_paper_are_those_that_cite_it_and_those_of_its_findings(paper):
    assert [one.name for one in tasks_of_paper(paper, KNOWN)] == ["t", "u"]


def test_findings_without_a_paper_have_no_published_values(tmp_path):
    own = findings(tmp_path, "findings: [{finding: It sings., needs: a microphone}]\n", "mine")
    found = reproduce(own, KNOWN, tmp_path)
    assert (found.references, summary(found)) == ([], ["mine", "not measured: 1 finding"])


def test_published_values_stand_beside_ours_and_what_lacks_is_counted(paper, tmp_path):
    write(tmp_path, board(result("a", score(0.45, stderr=0.025))))
    found = reproduce(paper, KNOWN, tmp_path)
    (numbers,) = grids(found)
    (row,) = numbers.rows
    assert row[:6] == ["t", "a", "accuracy (shots 5)", "Table 1", "50.0 %", "45.0 %"]
    assert row[6] == "-5.0 points (-2.0 standard errors)"
    assert summary(found) == [
        "A Paper (arXiv:1)",
        "measured: 1 published value and 0 findings",
        "not measured: 1 published value and 2 findings",
    ]


ELSEWHERE = [{**one, "source": "Their README"} for one in CITED]


def test_values_of_other_sources_stand_apart_under_the_name_of_their_source(paper, tmp_path):
    write(tmp_path, board(result("a", score(0.45))))
    known = catalog(task(paper="arXiv:1", reference=[*CITED, *ELSEWHERE]), task("u"))
    found = reproduce(paper, known, tmp_path)
    assert [grid.title for grid in grids(found)] == [
        "A Paper (arXiv:1): numbers",
        "Their README: numbers",
    ]
    assert grids(found)[1].rows[0][3] == "Their README, Table 1"
    assert summary(found)[1:] == [
        "measured: 1 published value and 0 findings",
        "not measured: 1 published value and 2 findings",
        "Their README: 1 of 2 published values measured",
    ]
    assert [line.numbers["paper"] for line in lines(found)][:4] == ["arXiv:1"] * 2 + [
        "Their README"
    ] * 2


def test_a_value_that_two_tasks_repeat_is_counted_once(paper, tmp_path):
    write(tmp_path, board(result("a", score(0.45))))
    both = [task(name, paper="arXiv:1", reference=CITED) for name in "tu"]
    found = reproduce(paper, catalog(*both), tmp_path)
    assert (len(found.references), count_values(found.references)) == (4, (2, 1))


def test_the_values_that_an_experiment_of_another_paper_repeats_are_those_of_that_paper(tmp_path):
    text = "experiments: [{task: v, models: [a]}]\n" + TEXT
    found = reproduce(findings(tmp_path, text), KNOWN, tmp_path)
    assert [one.source for one in found.references if one.spec.name == "v"] == ["arXiv:12"] * 2


BASELINE = {**CITED[0], "floor": "raw_pixels", "value": 0.2}


def test_a_published_baseline_stands_beside_the_floor_of_our_score(paper, tmp_path):
    write(tmp_path, board(result("a", score(0.45, stderr=0.1, floors={"raw_pixels": 0.25}))))
    known = catalog(task(paper="arXiv:1", reference=[BASELINE]), task("u"))
    ((row,),) = (grid.rows for grid in grids(reproduce(paper, known, tmp_path)))
    assert row[2:] == [
        "accuracy (shots 5): raw pixels",
        "Table 1",
        "20.0 %",
        "25.0 %",
        "+5.0 points",
    ]


def test_a_baseline_that_our_score_lacks_is_not_measured(paper, tmp_path):
    write(tmp_path, board(result("a", score(0.45))))
    known = catalog(task(paper="arXiv:1", reference=[BASELINE]), task("u"))
    first, *_ = lines(reproduce(paper, known, tmp_path))
    assert first.numbers["why_not_measured"] == "no score accuracy (shots 5): raw_pixels"


def test_a_score_that_a_row_lacks_is_not_measured(paper, tmp_path):
    write(tmp_path, board(result("a", score(at={"shots": 1}))))
    first, *_ = lines(reproduce(paper, KNOWN, tmp_path))
    assert first.numbers["why_not_measured"] == "no score accuracy (shots 5)"


def judged(folder, entry, *rows, **about):
    """Return what a finding about accuracy at five shots, of planted rows, is told as."""
    base = "finding: It is so., task: t, metric: accuracy, at: {shots: 5}"
    spec = findings(folder / "own", f"findings: [{{{base}, {entry}}}]\n")
    write(folder, board(*rows))
    return reproduce(spec, catalog(task(**about)), folder)


def rows_of(folder, entry, *rows, **about):
    (grid,) = grids(judged(folder, entry, *rows, **about))
    return grid.rows


def test_a_finding_shows_its_verdict_its_numbers_and_how_they_were_compared(tmp_path):
    rows = [result(m, score(v, ci95=(v - 0.01, v + 0.01))) for m, v in [("a", 0.6), ("b", 0.5)]]
    (row,) = rows_of(tmp_path, "where: Table 9, greater: [{model: a}, {model: b}]", *rows)
    assert row[:3] == ["It is so. [Table 9, t]", "", "supported"]
    interval = "95 % +8.6 to +11.4 points, unpaired"
    assert row[3] == f"a 60.0 %, b 50.0 %; difference +10.0 points, {interval}"


def test_a_range_shows_the_interval_of_the_score(tmp_path):
    (row,) = rows_of(tmp_path, "model: a, within: [0, 1]", result("a", score(0.5, ci95=(0.4, 0.6))))
    assert row[3] == "a 50.0 %, 95 % 40.0 to 60.0 %"


def test_a_score_without_an_interval_is_told(tmp_path):
    (row,) = rows_of(tmp_path, "model: a, within: [0, 1]", result("a", score(0.5)))
    assert row[2:] == ["undecided", "a 50.0 %; a score has no interval"]


def test_of_several_comparisons_the_weakest_is_shown(tmp_path):
    values = zip("abcdef", (0.5, 0.4, 0.3, 0.2, 0.1, 0.9), strict=True)
    rows = [result(m, score(v, ci95=(v - 0.01, v + 0.01))) for m, v in values]
    entry = "each: {model: [b, c, d, e, f]}, greater: [{model: a}, {}]"
    (row,) = rows_of(tmp_path, entry, *rows)
    assert row[2] == "contradicted"
    assert row[3].startswith("weakest of 5: f: a 50.0 %, f 90.0 %; difference -40.0 points")


RANGED = "where: Table 9, for_each: {model: [a, b, c]}, greater: [{}, {floor: chance}]"


def ranging(*models, **about):
    return [result(m, score(v, ci95=(v - 0.01, v + 0.01), chance=0.5), **about) for m, v in models]


def test_a_finding_that_ranges_over_models_has_a_row_for_each(tmp_path):
    first, second = rows_of(tmp_path, RANGED, *ranging(("a", 0.6), ("b", 0.4)))
    assert first[:3] == ["It is so. [Table 9, t]", "a", "supported"]
    assert second[:3] == ["", "b", "contradicted"]


def test_a_line_of_csv_has_the_numbers_of_a_verdict_or_why_there_is_none(tmp_path):
    told = [one.numbers for one in lines(judged(tmp_path, RANGED, *ranging(("a", 0.6))))]
    found = {one["model"]: one for one in told}
    assert {key for one in found.values() for key in one} <= set(COLUMNS)
    a = found["a"]
    assert (a["verdict"], a["unit"]) == ("supported", "fraction")
    assert (a["value"], a["ci95_low"], a["ci95_high"]) == pytest.approx((0.1, 0.09, 0.11))
    assert found["c"]["why_not_measured"] == "c on t: no row"


def test_drawings_are_no_evidence(tmp_path):
    drawn = {"data": {"loader": "vlbench.data.scenes:objects"}}
    found = judged(tmp_path, RANGED, *ranging(("a", 0.6)), **drawn)
    assert grids(found) == []
    assert (
        next(lines(found))
        .numbers["why_not_measured"]
        .startswith("a on t: synthetic images are not evidence;")
    )


def test_a_group_with_drawings_in_it_is_no_evidence_either(tmp_path):
    spec = findings(tmp_path / "own", "findings: [{finding: x, task: g, model: a, "
                    "metric: rdm_correlation, within: [0, 1]}]\n")  # fmt: skip
    drawn = task(data={"loader": "vlbench.data.scenes:objects"})
    found = reproduce(spec, catalog(drawn, task("u"), task("g", group=["u", "t"])), tmp_path)
    assert "synthetic images are not evidence;" in next(lines(found)).numbers["why_not_measured"]


def test_a_collapsed_captioner_is_no_evidence(tmp_path):
    counts = {"n": 1, "expected": 1, "collapsed_runs": 1}
    found = judged(tmp_path, RANGED, *ranging(("a", 0.6), counts=counts))
    assert "collapsed" in next(lines(found)).numbers["why_not_measured"]
