import copy
import io
import json
import math
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from vlbench.boards.board import folder_boards, read_board, refuse_clash, write_result
from vlbench.errors import SpecError
from vlbench.report.building import build_summaries, mean_rows
from vlbench.report.figures.figures import board_panels
from vlbench.report.similarities import joined
from vlbench.report.terminal import board_tables
from vlbench.results import Result

LEADERBOARDS = Path(__file__).resolve().parents[2] / "leaderboards"
WHOLE = json.loads((LEADERBOARDS / "entity_grounding_scenes.json").read_text())
OK = next(i for i, row in enumerate(WHOLE["rows"]) if row["artifacts"])
GONE = object()
JUNK = [None, True, 0, -1, 1.5, 10**400, math.nan, math.inf, "", "x", "\ud800", [], [[]], {}]
JUNK += [[0.1, 0.2], [None, None], {"metric": 1}, {"": {}}, [{"file": "../up"}], GONE]


def changed(board, *key, value):
    """Return a copy of a board with the value at a key replaced, or gone."""
    content = part = copy.deepcopy(board)
    for name in key[:-1]:
        part = part[name]
    part[key[-1]] = value
    if value is GONE:
        del part[key[-1]]
    return content


def refusal(folder, content):
    (folder / "t.json").write_text(json.dumps(content))
    with pytest.raises(SpecError) as caught:
        read_board(folder / "t.json")
    return str(caught.value).removeprefix(f"{folder}/")


def test_rows_that_are_read_and_written_again_are_the_same_bytes():
    for file in sorted(LEADERBOARDS.glob("*.json")):
        rows = json.loads(file.read_text("utf-8"))["rows"]
        again = [row.row() for row in read_board(file).results]
        assert json.dumps(again) == json.dumps(rows), file


def test_a_board_is_what_its_file_says():
    board = read_board(LEADERBOARDS / "entity_grounding_scenes.json")
    assert (board.task, board.version, board.paper) == tuple(
        WHOLE[key] for key in ("task", "version", "paper")
    )
    assert board.primary == WHOLE["primary"]
    assert [row.model for row in board.results] == [row["model"] for row in WHOLE["rows"]]
    assert {(row.task, row.version, row.paper) for row in board.results} == {
        (board.task, board.version, board.paper)
    }


CONTROLS = {"constant", "random-scores", "random-scores-1", "random-scores-2"}


def test_a_summary_is_a_board_whose_rows_lack_what_a_mean_has_not(tmp_path):
    shutil.copy(LEADERBOARDS / "few_shot_scenes.json", tmp_path)
    boards = folder_boards(tmp_path)
    (file,) = build_summaries(tmp_path, boards, {"alone": ["few_shot_scenes"]}, {})
    board = read_board(file)
    expected = ("alone", boards["few_shot_scenes"].version, "")
    assert (board.task, board.version, board.paper) == expected
    assert {row.request for row in board.results} == {""}
    assert {row.model for row in board.results if row.provenance} == CONTROLS
    assert {tuple(row.provenance) for row in board.results} == {(), ("control",)}


REFUSED = [
    (("task",), GONE, "task' is missing"),
    (("task",), 5, "task' must be a text, not 5"),
    (("task",), "../../escaped", "task' must be a name without separators, not '../../escaped'"),
    (("task",), "", "task' must be a name without separators, not ''"),
    (("task",), "a\x1b", "task' must be a name without separators"),
    (("version",), "1", "version' must be a whole number, not '1'"),
    (("version",), True, "version' must be a whole number, not true"),
    (("paper",), None, "paper' must be a text, not null"),
    (("primary",), [], "primary' must be a mapping of metric, at, not a list"),
    (("primary", "at"), GONE, "primary.at' is missing"),
    (("primary", "at"), {"k": []}, "primary.at.k' must be a text or a number"),
    (("versions",), {"t": 1.5}, "versions.t' must be a whole number, not 1.5"),
    (("colour",), 1, "colour' is unknown; there are schema, task, "),
    (("rows",), GONE, "rows' must be a list, not null"),
    (("rows", 0), "x", "rows[0]' must be a mapping, not 'x'"),
    (("rows", 0, "model"), GONE, "rows[0].model' is missing"),
    (("rows", 0, "scores"), GONE, "rows[0].scores' is missing"),
    (("rows", 0, "colour"), 1, "rows[0].colour' is unknown; there are model, status, "),
    (("rows", 0, "status"), "fine", "rows[0].status' must be ok, skipped or failed, not 'fine'"),
    (("rows", 0, "counts"), {"n": 1.5}, "rows[0].counts.n' must be a whole number, not 1.5"),
    (("rows", 0, "counts"), {"n": 10**300}, "rows[0].counts.n' must be a whole number, not 1000"),
    (("rows", OK, "scores", 0, "n"), 2**63, f"rows[{OK}].scores[0].n' must be a whole number,"),
    (("rows", OK, "scores", 0, "value"), 53.1, f"t.json: 'rows[{OK}].scores[0]' "),
    (("rows", 0, "notes"), [1], "rows[0].notes[0]' must be a text, not 1"),
    (("rows", 0, "model"), "\ud800", r"rows[0].model' must be a text, not '\ud800'"),
    (("rows", 0, "run"), {"seconds": math.nan}, "rows[0].run.seconds' must be a number, not NaN"),
    (("rows", 0, "run"), {"\ud800": 1}, r"rows[0].run.'\ud800'' must be a text"),
    (("rows", OK, "scores", 0), [], f"rows[{OK}].scores[0]' must be a mapping of metric, value, "),
    (("rows", OK, "scores", 0, "n"), GONE, f"rows[{OK}].scores[0].n' is missing"),
    (("rows", OK, "scores", 0, "value"), 10**400, "scores[0].value' must be a number, not 10000"),
    (("rows", OK, "scores", 0, "ci95"), "x", "ci95' must be a list of 2 numbers or null, not 'x'"),
    (
        ("rows", OK, "scores", 0, "ci95"),
        [0.5],
        "ci95' must be a list of 2 numbers or null, not a list",
    ),
    (("rows", OK, "scores", 0, "draws"), [True], "draws[0]' must be a number, not true"),
    (("rows", OK, "provenance", "weights"), 5, "provenance.weights' must be a text, not 5"),
    (("rows", OK, "artifacts", "items"), {"file": "a"}, "artifacts.items.sha256' is missing"),
    (("rows", OK, "artifacts", "items", "file"), "a/../../b", "must be a path below the board's"),
    (("rows", OK, "artifacts", "items", "file"), "/etc/passwd", "must be a path below the board"),
    (("rows", OK, "artifacts", "items", "file"), "a\\..\\b", "must be a path below the board"),
    (("rows", OK, "artifacts", "items", "file"), "a\x00b", "must be a path below the board's"),
    (("rows", OK, "artifacts", "items", "file"), "", "must be a path below the board's folder"),
]


@pytest.mark.parametrize(("key", "value", "why"), REFUSED)
def test_what_does_not_fit_is_refused_by_file_and_key(tmp_path, key, value, why):
    told = refusal(tmp_path, changed(WHOLE, *key, value=value))
    assert re.match(r"t\.json: '[a-z]+", told)
    assert why in told


def test_what_is_nested_without_end_is_refused(tmp_path):
    nested = json.loads("[" * 200 + "]" * 200)
    told = refusal(tmp_path, changed(WHOLE, "rows", 0, "run", value={"deep": nested}))
    assert told.startswith("t.json: 'rows[0].run.deep[0][0]")
    assert told.endswith("must be something less deeply nested, not a list")
    (tmp_path / "t.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(SpecError, match=r"t\.json is not a board: maximum recursion"):
        read_board(tmp_path / "t.json")


def keys_of(part, key=()):
    """Return the key of every value in a board."""
    inner = part.items() if isinstance(part, dict) else enumerate(part)
    here = [(*key, name) for name, _ in inner]
    deeper = [(key, part) for key, part in zip(here, _values(part), strict=True)]
    more = [k for key, v in deeper if isinstance(v, dict | list) for k in keys_of(v, key)]
    return here + more


def _values(part):
    return part.values() if isinstance(part, dict) else part


@pytest.mark.parametrize("seed", range(8))
def test_a_board_changed_at_random_is_read_or_refused_by_name(tmp_path, seed):
    rng = np.random.default_rng(seed)
    small = WHOLE | {"rows": [WHOLE["rows"][0], WHOLE["rows"][OK]]}
    small = changed(small, "rows", 1, "scores", value=WHOLE["rows"][OK]["scores"][:2])
    keys, file = keys_of(small), tmp_path / "t.json"
    for _ in range(50):
        key, junk = keys[rng.integers(len(keys))], JUNK[rng.integers(len(JUNK))]
        content = changed(small, *key, value=junk)
        file.write_text(json.dumps(content))
        with suppress(SpecError):
            use(tmp_path, read_board(file))


def use(folder, board):
    """Do what is done with a board that fits: read and print it, and put a row on it."""
    assert isinstance(board_panels(board) + mean_rows([board]), list)
    assert joined(folder, [board])
    for table in board_tables(board, {}):
        Console(file=io.StringIO(), width=200).print(table)
    provenance = {"weights": "sha256:1", "adapter": "sha256:2"}
    head = {"task": "t", "version": board.version, "paper": "", "primary": board.primary}
    new = Result(**head, model="new", status="ok", provenance=provenance)
    refuse_clash(folder, new)
    write_result(folder, new)
    assert "new" in {row.model for row in read_board(folder / "t.json").results}
