import importlib
import random
from pathlib import Path

import pytest
from planted_boards import board, result, score, write
from planted_splits import put, ran, without

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts" / "publish"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(SCRIPTS))
    script = importlib.import_module("merged_changes")
changes, span = script.changes, script.span

RNG = random.Random(0)  # noqa: S311 - orders of rows


def proposed(folder, old, new):
    """Return what changes when boards take the place of published ones."""
    return changes([write(folder / "new", *new)], write(folder / "old", *old))


def problems(folder, old, new):
    found = proposed(folder, old, new)
    assert not found.are_fine
    _, _, rest = "\n".join(found.lines).partition("#### Problems\n\n")
    return rest.partition("\n\n")[0].splitlines()


def test_new_rows_are_listed_by_task_and_are_fine(tmp_path):
    rows = [result("m", score(0.5)), result("n", score(0.25)), without("o", "cannot")]
    found = proposed(tmp_path, [board(rows[0])], [board(*rows)])
    assert found == (
        [
            "**2 new rows; nothing changed or lost.**",
            "",
            "#### `t`, version 1",
            "",
            "- `n`: `accuracy, shots 5` 25.0 %, n 100",
            "- `o`: skipped, `cannot`",
        ],
        True,
    )


def test_new_rows_of_two_data_sets_have_their_names(tmp_path):
    made = [{"data": f"x:y sha256:{name}", "data_name": name} for name in ("cars", "dogs")]
    rows = [result("m", score(), comparable=one["data_name"], provenance=one) for one in made]
    lines = proposed(tmp_path, [board(rows[0])], [board(*rows)]).lines
    assert lines[-1].startswith("- `m` on `dogs`: ")


def test_the_first_boards_of_a_project_are_all_new(tmp_path):
    found = changes([write(tmp_path, board(result("m", score())))], tmp_path / "absent")
    assert (found.lines[0], found.are_fine) == ("**1 new row; nothing changed or lost.**", True)


def test_nothing_is_written(tmp_path):
    put(tmp_path / "old", [ran("m", 1)], RNG)
    put(tmp_path / "new", [ran("m", 1), ran("n", 1)], RNG)
    before = sorted(tmp_path.rglob("*"))
    assert changes([tmp_path / "new"], tmp_path / "old").are_fine
    assert sorted(tmp_path.rglob("*")) == before


def test_another_run_of_the_same_scores_is_no_change(tmp_path):
    found = proposed(tmp_path, [board(ran("m", 1))], [board(ran("m", 2))])
    assert found.lines == ["**0 new rows; nothing changed or lost.**"]


def test_a_changed_row_is_told_with_both_files(tmp_path):
    (told,) = problems(tmp_path, [board(result("m", score(0.5)))], [board(result("m", score(0.6)))])
    assert f"{tmp_path}/new/t.json and {tmp_path}/old/t.json contradict each other in" in told


@pytest.mark.parametrize("new", [board(result("n", score())), board(without("m", "broke"))])
def test_a_lost_row_is_told(tmp_path, new):
    assert problems(tmp_path, [board(result("m", score()))], [new]) == [
        "- `t.json: the row of 'm' is lost; put it back`"
    ]


def test_a_lost_row_without_scores_and_a_lost_board_are_told(tmp_path):
    old = [board(without("m", "why")), board(result("m", score()), task="u")]
    assert problems(tmp_path, old, [board(result("n", score()))]) == [
        "- `t.json: the row of 'm' is lost; put it back`",
        "- `u.json: the row of 'm' is lost; put it back`",
    ]


def test_a_row_with_scores_may_take_the_place_of_one_without(tmp_path):
    found = proposed(tmp_path, [board(without("m", "why"))], [board(result("m", score()))])
    assert (found.lines[0], found.are_fine) == ("**1 new row; nothing changed or lost.**", True)


def test_a_newer_version_keeps_the_older_rows_in_the_archive(tmp_path):
    put(tmp_path / "old", [ran("m", 1)], RNG)
    put(tmp_path / "new", [ran("m", 1, version=2), ran("m", 1)], RNG)
    found = changes([tmp_path / "new"], tmp_path / "old")
    assert [line for line in found.lines if "####" in line] == ["#### `t`, version 2"]
    assert found.are_fine


def test_a_newer_version_that_drops_the_older_rows_is_told(tmp_path):
    new = board(result("m", score()), version=2)
    (told,) = problems(tmp_path, [board(result("m", score()))], [new])
    assert "the row of 'm' is lost; put it back" in told


def test_a_board_hidden_in_the_archive_is_told(tmp_path):
    write(tmp_path / "old", board(result("m", score())))
    hidden = write(tmp_path / "new", board(result("m", score())), board(result("m"), task="u"))
    (hidden / "archive").mkdir()
    (hidden / "t.json").rename(hidden / "archive" / "t.v1.json")
    found = changes([hidden], tmp_path / "old")
    assert "- `t.json: version 1 stands in the archive alone; put it back`" in found.lines


def test_an_altered_artifact_is_told(tmp_path):
    put(tmp_path, [ran("m", 1)], RNG)
    (tmp_path / "artifacts" / "t" / "m" / "items").write_text("altered")
    found = changes([tmp_path], tmp_path / "absent")
    assert "items is not the file that was written with its row;" in "".join(found.lines)
    assert not found.are_fine


SHOWN = [
    ("@you <b>", "`@you <b>`"),
    ("a`b``c", "``` a`b``c ```"),
    ("one\n\n# two", "`one # two`"),
    ("", "`-`"),
    ("x" * 500, f"`{'x' * 399}…`"),
]


@pytest.mark.parametrize(("text", "shown"), SHOWN)
def test_a_text_of_strangers_stays_in_a_code_span(text, shown):
    assert span(text) == shown
