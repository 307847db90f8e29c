import io
from pathlib import Path

import pytest
from planted_boards import board, result, score
from planted_claims import catalog, claim, claims, model, task
from rich.console import Console

from vlbench.errors import UnknownNameError
from vlbench.leaderboard.claims import Evidence, Lack, judge
from vlbench.leaderboard.ranging import judge_range
from vlbench.leaderboard.reproduction import (
    claims_table,
    find_paper,
    reference_tables,
    references_of,
    summary,
    tasks_of_paper,
    to_fetch,
)

CITED = [{"model": m, "metric": "accuracy", "at": {"shots": 5}, "value": 0.5, "where": "Table 1"}
         for m in "ab"]  # fmt: skip
TEXT = """\
paper: "arXiv:1"
title: A Paper
claims:
  - {claim: It sings., where: Table 1, needs: a microphone}
  - {claim: It is so., task: u, model: a, metric: accuracy, within: [0, 1]}
"""
TASKS = [
    task(paper="arXiv:1, section 2", reference=CITED),
    task("u"),
    task("v", paper="arXiv:12", reference=CITED),
    task("w", paper="arXiv:1"),
]

KNOWN = catalog(*TASKS)


def rendered(*tables, width=200):
    console = Console(record=True, width=width, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


@pytest.fixture
def paper(tmp_path):
    return claims(tmp_path, TEXT, "ours")


@pytest.mark.parametrize("name", ["ours", "arXiv:1"])
def test_a_paper_is_found_by_its_name_and_by_its_id(paper, name):
    assert find_paper({"ours": paper}, name) is paper


def test_an_unknown_paper_is_told_with_the_nearest(paper):
    with pytest.raises(UnknownNameError, match="no paper is named 'our'; did you mean ours"):
        find_paper({"ours": paper}, "our")


def test_the_tasks_of_a_paper_are_those_it_is_cited_for_and_those_it_claims_about(paper):
    assert [one.name for one in tasks_of_paper(paper, KNOWN)] == ["t", "u"]


def test_claims_without_a_paper_have_no_published_values(tmp_path):
    paper = claims(tmp_path, "claims: [{claim: It sings., needs: a microphone}]\n", "mine")
    assert references_of(paper, TASKS, {"t": None, "u": None, "v": None, "w": None}) == []


def test_published_values_stand_beside_ours_or_are_missing(paper):
    boards = {"t": board(result("a", score(0.45, stderr=0.025))), "u": None}
    references = references_of(paper, tasks_of_paper(paper, KNOWN), boards)
    ours, missing = rendered(*reference_tables(references)).splitlines()[4:6]
    for text in ("a ", "accuracy (shots 5)", "Table 1", "50.0 %", "45.0 %", "-5.0 points (-2.0 st"):
        assert text in ours
    assert missing.split() == [
        "b",
        "accuracy",
        "(shots",
        "5)",
        "Table",
        "1",
        "50.0",
        "%",
        "missing",
    ]


def test_a_score_that_a_row_lacks_is_missing(paper):
    boards = {"t": board(result("a", score(at={"shots": 1}))), "u": None}
    first, _ = references_of(paper, tasks_of_paper(paper, KNOWN), boards)
    assert first.ours.why == "no score accuracy (shots 5)"


def test_the_summary_counts_values_and_verdicts(paper):
    boards = {"t": board(result("a", score(0.45))), "u": None}
    references = references_of(paper, tasks_of_paper(paper, KNOWN), boards)
    judgements = [judge(one, Evidence(boards, KNOWN, Path())) for one in paper.claims]
    assert summary(paper, references, judgements) == [
        "A Paper (arXiv:1)",
        "published values: 2, 1 of them measured",
        "claims about its models: 2, 2 missing",
    ]


def test_claims_of_no_paper_are_called_by_their_name(tmp_path):
    paper = claims(tmp_path, "claims: [{claim: It sings., needs: a microphone}]\n", "mine")
    judgements = [judge(one, Evidence({}, catalog(), Path())) for one in paper.claims]
    assert summary(paper, [], judgements) == ["mine", "claims about its models: 1, 1 missing"]


def shown(folder, entry, *rows, width=200):
    judged = judge(claim(folder, entry), Evidence({"t": board(*rows)}, catalog(task()), folder))
    return rendered(claims_table([judged]), width=width)


def test_a_claim_shows_its_verdict_its_numbers_and_how_they_were_compared(tmp_path):
    rows = [result(m, score(v, ci95=(v - 0.01, v + 0.01))) for m, v in [("a", 0.6), ("b", 0.5)]]
    text = shown(tmp_path, "where: Table 9, greater: [{model: a}, {model: b}]", *rows)
    assert "supported  It is so. [Table 9]" in text
    interval = "95 % +8.6 to +11.4 points, unpaired"
    assert f"a 60.0 %, b 50.0 %; difference +10.0 points, {interval}" in text


def test_a_range_shows_the_interval_of_the_score(tmp_path):
    text = shown(tmp_path, "model: a, within: [0, 1]", result("a", score(0.5, ci95=(0.4, 0.6))))
    assert "a 50.0 %, 95 % 40.0 to 60.0 %" in text
    assert "unpaired" not in text


def test_a_score_without_an_interval_is_told(tmp_path):
    text = shown(tmp_path, "model: a, within: [0, 1]", result("a", score(0.5)))
    assert "a 50.0 %; a score has no interval" in text


def test_what_speaks_against_a_claim_comes_first_and_the_rest_is_counted(tmp_path):
    rows = [
        result(m, score(v, ci95=(v, v))) for m, v in zip("abcdef", (5, 4, 3, 2, 1, 9), strict=True)
    ]
    text = shown(tmp_path, "each: {model: [b, c, d, e, f]}, greater: [{model: a}, {}]", *rows)
    first, *_, last = [line.strip() for line in text.splitlines()[4:] if line.strip()]
    assert first.startswith("contradicted: f: a 500.0 %, f 900.0 %; difference -400.0 points")
    assert last == "and 2 more"


def test_missing_rows_are_told_together(tmp_path):
    text = shown(tmp_path, "model: [a, b, c, d, e], within: [0, 1]")
    assert "a, b, c and 2 more on t: no row" in text


def test_what_vlbench_lacks_is_told(paper):
    judged = judge(paper.claims[0], Evidence({}, catalog(), Path()))
    assert "needs a microphone" in rendered(claims_table([judged]))


def test_texts_of_others_stay_texts(tmp_path):
    rows = [result("[red]a", status="failed", reason="\x1b[31m")]
    assert "[red]a on t: failed: \\x1b[31m" in shown(
        tmp_path, "model: '[red]a', within: [0, 1]", *rows
    )


def test_claims_fit_a_narrow_terminal(tmp_path):
    text = shown(tmp_path, "model: [a, b, c, d, e], within: [0, 1]", width=40)
    assert max(map(len, text.splitlines())) <= 40


TASK = task(data={"root": "$VLBENCH_DATA/coco/x", "loader": "a:b"}, params={"regions": "eyes"})
OTHER = task("u", data={"regions": {"k": "$VLBENCH_DATA/boxes"}, "pairs": ["$VLBENCH_DATA/coco"]})
MODELS = [
    model("m", weights="m.bin on the hub"),
    model("eyes", weights="eyes.bin"),
    model("lost", unavailable="it was withdrawn"),
]


@pytest.fixture
def fetched():
    def fetch(*lacks):
        known = catalog(TASK, OTHER, task("g", group=["t", "u"]), models=MODELS)
        return to_fetch([Lack(*one, "no board") for one in lacks], known, Path("my boards"))

    return fetch


def cells(table):
    return list(
        zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    )


def test_where_nothing_is_missing_there_is_nothing_to_fetch(fetched):
    assert fetched() == []


def test_weights_are_those_of_the_models_and_of_what_the_tasks_use(fetched):
    weights, *_ = fetched(("m", "t"), ("lost", "t"), ("mine", "t"))
    assert cells(weights) == [
        ("m", "m.bin on the hub"),
        ("lost", "unavailable: it was withdrawn"),
        ("mine", "no models.yaml lists this model"),
        ("eyes", "eyes.bin"),
    ]


def test_data_are_the_folders_that_the_tasks_name(fetched):
    _, data, *_ = fetched(("m", "t"), ("m", "u"))
    assert cells(data) == [("$VLBENCH_DATA/coco", "t, u"), ("$VLBENCH_DATA/boxes", "u")]


def test_the_command_runs_what_is_missing_of_models_that_can_be_had(fetched):
    *_, command = fetched(("m", "t"), ("lost", "u"), ("mine", "t"))
    assert command == "vlbench --model m --tasks t,u --output 'my boards'"


def test_a_summary_is_built_from_its_tasks(fetched):
    weights, data, _, run, build = fetched(("m (text)", "g"))
    assert cells(weights)[0] == ("m", "m.bin on the hub")
    assert cells(data)[0] == ("$VLBENCH_DATA/coco", "t, u")
    assert run.startswith("vlbench --model m --tasks g ")
    assert build == "vlbench leaderboard build --output 'my boards'"


def test_without_a_model_that_can_be_had_there_is_no_command(fetched):
    weights, data = fetched(("lost", "t"))
    assert (len(cells(weights)), len(cells(data))) == (2, 1)


def test_a_claim_that_ranges_over_models_shows_each_of_them(tmp_path):
    rows = [
        result(m, score(v, ci95=(v - 0.01, v + 0.01), chance=0.5))
        for m, v in {"a": 0.6, "b": 0.4}.items()
    ]
    entry = "where: Table 9, for_each: {model: [a, b, c]}, greater: [{}, {floor: chance}]"
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    judged = judge_range(claim(tmp_path, entry), known)
    text = rendered(claims_table([judged]))
    for part in (
        "by model",
        "It is so. [Table 9, t]",
        "1 supported, 1 contradicted, 1 not run",
        "a: supported, +10.0 points (+9.0 to +11.0)",
        "b: contradicted, -10.0 points (-11.0 to -9.0)",
    ):
        assert part in text
    assert summary(claims(tmp_path, TEXT, "ours"), [], [judged])[1:] == [
        "claims that range over models: 1, 1 of them judged",
    ]
