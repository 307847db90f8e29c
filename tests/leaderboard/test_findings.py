import json

import pytest
from planted_boards import board, result, score, write
from planted_claims import catalog, claims, task

from vlbench.catalog.catalog import load_all_claims, load_catalog
from vlbench.catalog.sources import shipped_source
from vlbench.errors import SpecError
from vlbench.leaderboard.findings import (
    COLUMNS,
    NOT_RUN,
    cells,
    finding_name,
    lines,
    read_findings,
    read_rates,
)

TEXT = """\
paper: "arXiv:1"
claims:
  - {claim: It beats guessing., where: Table 1, metric: accuracy, at: {shots: 5},
     for_each: {model: [a, b, c, d], task: [t, u]}, greater: [{}, {floor: chance}]}
  - {claim: A beats b., task: t, metric: accuracy, at: {shots: 5},
     greater: [{model: a}, {model: b}]}
  - {claim: It sings., needs: a microphone}
"""


def sure(model, value, **rest):
    return result(model, score(value, ci95=(value - 0.02, value + 0.02), chance=0.5), **rest)


@pytest.fixture
def output(tmp_path):
    rows = [sure("a", 0.6), sure("b", 0.5), result("c", status="skipped", reason="no eyes")]
    return write(tmp_path / "boards", board(*rows))


@pytest.fixture
def rows(tmp_path, output):
    spec = claims(tmp_path / "claims", TEXT)
    return read_findings(output, catalog(task(), task("u")), {"ours": spec})


def test_each_task_of_a_claim_is_a_finding_with_a_cell_for_each_model(rows):
    assert [row.name for row in rows] == [
        "It beats guessing. [Table 1, t]",
        "It beats guessing. [Table 1, u]",
        "A beats b. [t]",
        "It sings.",
    ]
    assert {model: cell.verdict for model, cell in rows[0].cells.items()} == {
        "a": "supported",
        "b": "undecided",
        "c": NOT_RUN,
        "d": NOT_RUN,
    }


def test_a_cell_has_its_comparison_and_where_its_row_is(rows):
    cell = rows[0].cells["a"]
    assert cell.text == "+10.0 points (+8.0 to +12.0)"
    assert [*cell.place] == ["t", "a"]
    assert cell.p_for < 0.001 < cell.p_against


def test_a_model_that_was_not_run_has_the_reason(rows):
    assert rows[0].cells["c"].text == "c on t: skipped: no eyes"
    assert rows[0].cells["d"].text == "d on t: no row"
    assert rows[1].cells["a"].text == "a on u: no board"
    assert rows[3].cells[""].text == "needs a microphone"


def test_a_claim_about_named_models_has_one_verdict(rows):
    assert list(rows[2].cells) == [""]
    assert rows[2].cells[""].verdict == "supported"


def test_a_finding_adds_up_its_models_and_what_they_would_have_shown(rows):
    counts, detectable, differ = rows[0].tally
    assert counts == "1 supported, 1 undecided, 2 not run"
    # Two models: (2.241 + 0.842) standard errors of 0.02 / 1.96.
    assert detectable == "detectable: 3.1 points"
    assert differ == "models differ by Q(1) 48.0, p <0.001, I2 98 %"


def test_a_finding_without_any_verdict_is_known(rows):
    assert [row.is_judged for row in rows] == [True, False, True, False]


def test_the_table_has_a_column_for_each_model_that_was_run(rows):
    head, first, second, third, _ = cells(rows)
    assert head == ["finding", "verdict", "a", "b"]
    assert first[2:] == [
        "supported +10.0 points (+8.0 to +12.0)",
        "undecided +0.0 points (-2.0 to +2.0)",
    ]
    assert second[2:] == ["not run", "not run"]
    assert third[1:] == ["supported +10.0 points (+7.2 to +12.8)", "", ""]


def test_every_cell_is_a_line_of_numbers(rows):
    found = list(lines(rows))
    assert len(found) == 4 + 4 + 1 + 1
    assert {key for line in found for key in line} == set(COLUMNS[:-5])
    assert found[0]["value"] == pytest.approx(0.1)
    assert (found[0]["ci95_low"], found[0]["ci95_high"]) == pytest.approx((0.08, 0.12))
    assert found[2]["why_not_run"] == "c on t: skipped: no eyes"


def test_a_board_that_changed_changes_the_verdict(tmp_path, output):
    write(output, board(sure("a", 0.4), sure("b", 0.6)))
    spec = claims(tmp_path / "claims", TEXT)
    again = read_findings(output, catalog(task(), task("u")), {"ours": spec})
    assert again[0].cells["a"].verdict == "contradicted"
    assert again[2].cells[""].verdict == "contradicted"


def test_boards_that_have_not_changed_are_not_read_again(tmp_path, output, rows, monkeypatch):
    spec = claims(tmp_path / "claims", TEXT)
    known = catalog(task(), task("u"))
    monkeypatch.setattr("vlbench.leaderboard.findings.read_boards", None)
    assert read_findings(output, known, {"ours": spec})[0].cells == rows[0].cells
    write(output, board(sure("a", 0.4)))
    with pytest.raises(TypeError):
        read_findings(output, known, {"ours": spec})


PLANTED = {
    "planted": "items",
    "seeds": 200,
    "knows": {"supported": 1.0},
    "half": {"supported": 0.8, "undecided": 0.2},
    "blind": {"contradicted": 0.015, "undecided": 0.985},
}


def with_rates(folder, output, **about):
    spec = claims(folder / "claims", TEXT)
    name = "It beats guessing. [Table 1, t]"
    rates = {name: {"versions": {"t": 1}, **PLANTED}} | about
    content = {"vlbench": "1", "made": "2026-01-01", "rates": rates}
    place = folder / "claims" / "tasks" / "claims" / "error_rates.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(content))
    return read_findings(output, catalog(task(), task("u")), {"ours": spec})


def test_error_rates_stand_beside_the_finding_they_are_of(tmp_path, output):
    first, second, *_ = with_rates(tmp_path, output)
    assert (
        first.tally[-1] == "planted items: 100 % found, 80 % of half, 1.5 % of nothing (200 draws)"
    )
    assert second.rates is None
    line = next(lines([first]))
    assert [line[name] for name in COLUMNS[-3:]] == [1.0, 0.8, pytest.approx(0.015)]


def test_error_rates_of_another_version_of_the_task_are_left_out(tmp_path, output):
    other = {"It beats guessing. [Table 1, t]": {"versions": {"t": 2}, **PLANTED}}
    assert with_rates(tmp_path, output, **other)[0].rates is None


def test_malformed_error_rates_are_named(tmp_path, output):
    with pytest.raises(SpecError, match=r"error_rates\.json: .*; run benchmarks/error_rates\.py"):
        with_rates(tmp_path, output, other={"versions": {}})


def test_the_shipped_error_rates_are_of_shipped_findings():
    # Run benchmarks/error_rates.py where a claim is worded anew.
    found = load_all_claims(load_catalog()).values()
    names = {finding_name(claim) for spec in found for claim in spec.claims}
    rates = read_rates(shipped_source())
    assert len(rates) >= 12
    assert set(rates) <= names
