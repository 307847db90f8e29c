import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from planted_boards import board, result, score, write
from planted_splits import (
    dealt,
    joined_at_once,
    joined_by_turns,
    put,
    ran,
    snapshot,
    universe,
    with_file,
    without,
)

from vlbench.boards.artifacts import read_bytes
from vlbench.boards.board import read_board, save_artifacts
from vlbench.boards.merging import Source, merge, newest_keepers, read_folder, union
from vlbench.errors import DataError, OutputError, SpecError, UnknownNameError
from vlbench.system import files

ROOT = Path(__file__).parents[2]
RNG = random.Random(0)  # noqa: S311 - orders of rows
NAMES = ["archive/t.v1.json", "t.json", "u.json"]

WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from planted_boards import result, score
from vlbench.boards.board import write_result
for i in range(20):
    write_result(Path(sys.argv[1]), result(f"w{i}", score()))
"""


def split(folder, seed):
    """Write the universe's rows to four folders at random, and return them in random order."""
    rng = random.Random(seed)  # noqa: S311 - a split
    hands = [[] for _ in range(4)]
    for row in universe():
        for hand in rng.sample(hands, rng.randint(1, 3)):
            hand.append(row)
    folders = [put(folder / f"{seed}-{i}", hand, rng) for i, hand in enumerate(hands)]
    return rng.sample(folders, len(folders))


def merged(folders, output):
    """Merge folders one by one where the first one's name is even, else at once."""
    turns = [[one] for one in folders] if int(folders[0].name[-1]) % 2 else [folders]
    assert [merge(turn, output).problems for turn in turns] == [[]] * len(turns)
    return tuple(sorted(snapshot(output).items()))


def models(folder):
    return [row.model for source in read_folder(folder) for row in source.board.results]


def altered(board_file, change):
    content = json.loads(board_file.read_text())
    change(content)
    board_file.write_text(json.dumps(content))


def test_twenty_splits_on_a_disk_give_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    (whole,) = {merged(split(tmp_path, i), tmp_path / f"out-{i}") for i in range(20)}
    names = [name for name, _ in whole]
    assert [name for name in names if "artifacts" not in name] == NAMES
    assert "artifacts/t/b/items" in names


def test_either_folder_merged_into_the_other_gives_the_same_bytes(tmp_path):
    one, other = put(tmp_path / "1", [ran("m", 1)], RNG), put(tmp_path / "2", [ran("n", 1)], RNG)
    merge([one], put(tmp_path / "3", [ran("n", 1)], RNG))
    merge([other], one)
    assert snapshot(one) == snapshot(tmp_path / "3") != snapshot(other)


def test_the_shipped_boards_merged_into_a_new_folder_are_themselves(tmp_path):
    merge([ROOT / "leaderboards"], tmp_path / "deep" / "new")
    shipped, merged_again = (
        {name: json.loads(x) if name.endswith(".json") else x for name, x in snapshot(one).items()}
        for one in (ROOT / "leaderboards", tmp_path / "deep" / "new")
    )
    assert merged_again.items() <= shipped.items()
    assert set(models(tmp_path / "deep" / "new")) == set(models(ROOT / "leaderboards"))


def test_what_is_no_board_stays_in_the_target(tmp_path):
    put(tmp_path / "1", [ran("m", 1)], RNG)
    target = put(tmp_path / "2", [ran("n", 1)], RNG)
    files.write_whole(target / "figures" / "t.svg", b"drawn")
    merge([tmp_path / "1"], target)
    assert snapshot(target)["figures/t.svg"] == b"drawn"
    assert models(target) == ["m", "n"]


def test_a_merge_without_news_writes_nothing(tmp_path):
    put(tmp_path / "1", [ran("m", 1)], RNG)
    merge([tmp_path / "1"], tmp_path / "2")
    before = inodes(tmp_path / "2")
    assert merge([tmp_path / "1"], tmp_path / "2") == ({}, [], [])
    assert inodes(tmp_path / "2") == before


def inodes(folder):
    return {file: file.stat().st_ino for file in folder.rglob("*") if file.name != ".lock"}


def test_a_newest_board_leaves_the_archive(tmp_path):
    put(tmp_path / "1", [ran("m", 1, version=2)], RNG)
    put(tmp_path / "2", [ran("m", 1)], RNG)
    (tmp_path / "2" / "archive").mkdir()
    (tmp_path / "1" / "t.json").rename(tmp_path / "2" / "archive" / "t.v2.json")
    merge([tmp_path / "2"], tmp_path / "2")
    assert [s.name for s in read_folder(tmp_path / "2")] == ["archive/t.v1.json", "t.json"]


def test_a_conflict_changes_nothing(tmp_path):
    write(tmp_path / "1", board(result("m", score(0.5)), result("n", score())))
    write(tmp_path / "2", board(result("m", score(0.6))))
    before = snapshot(tmp_path)
    (problem,) = merge([tmp_path / "1"], tmp_path / "2").problems
    assert f"{tmp_path}/1/t.json and {tmp_path}/2/t.json contradict each other in the" in problem
    assert merge([tmp_path / "1", tmp_path / "2"], tmp_path / "new").problems == [problem]
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("side", ["1", "2"])
def test_an_altered_artifact_changes_nothing(tmp_path, side):
    for name, model in (("1", "m"), ("2", "n")):
        put(tmp_path / name, [ran(model, 1)], RNG)
    file = next((tmp_path / side).rglob("items"))
    file.write_text("altered")
    (problem,) = merge([tmp_path / "1"], tmp_path / "2").problems
    assert problem.startswith(f"{tmp_path}/{side}: artifacts/t/")
    assert "items is not the file that was written with its row;" in problem
    assert models(tmp_path / "2") == ["n"]


def test_a_file_that_a_newer_version_took_over_is_not_missed(tmp_path):
    put(tmp_path / "1", [ran("m", 1)], RNG)
    merge([put(tmp_path / "2", [ran("m", 1, version=2)], RNG)], tmp_path / "1")
    altered(tmp_path / "1" / "archive" / "t.v1.json", older_file)
    assert merge([tmp_path / "1"], tmp_path / "3").problems == []


def older_file(content):
    content["rows"][0]["artifacts"]["items"]["sha256"] = "sha256:of-the-older-file"


def test_files_that_two_rows_of_one_model_dispute_are_refused(tmp_path):
    put(tmp_path / "1", [ran("m", 1)], RNG)
    put(tmp_path / "2", [replace(ran("m", 1), comparable="other")], RNG)
    altered(tmp_path / "2" / "t.json", older_file)
    problems = merge([tmp_path / "1"], tmp_path / "2").problems
    assert any("two rows of 'm' have different files at artifacts/t/m/items" in p for p in problems)


def test_a_malformed_board_is_named_and_nothing_is_written(tmp_path):
    write(tmp_path / "1", board(result("m", score())), board(result("m", score()), task="u"))
    altered(tmp_path / "1" / "u.json", lambda content: content["rows"][0].pop("scores"))
    with pytest.raises(SpecError, match=r"1/u\.json: 'rows\[0\]\.scores' is missing"):
        merge([tmp_path / "1"], tmp_path / "2")
    assert not (tmp_path / "2").exists()


def test_a_board_under_another_tasks_name_is_refused(tmp_path):
    write(tmp_path, board(result("m", score())))
    (tmp_path / "t.json").rename(tmp_path / "u.json")
    with pytest.raises(SpecError, match=r"u\.json: task: this board's file is .*t\.json"):
        read_folder(tmp_path)


@pytest.mark.parametrize("file", ["t.json", "artifacts/t/n/items", "artifacts/t/m", "figures/x"])
def test_a_row_keeps_no_files_outside_its_models_folder(tmp_path, file):
    kept = {"items": {"file": file, "sha256": "s"}}
    write(tmp_path, board(result("m", score(), artifacts=kept)))
    with pytest.raises(SpecError, match=r"rows\[0\]\.artifacts: only a row with .* artifacts/t/m/"):
        read_folder(tmp_path)


def test_a_row_without_scores_keeps_no_files(tmp_path):
    row = replace(with_file(tmp_path, result("m", score())), status="skipped", scores=[])
    write(tmp_path, board(row))
    with pytest.raises(SpecError, match="only a row with scores has files"):
        read_folder(tmp_path)


def test_a_board_that_is_a_link_out_of_its_folder_is_refused(tmp_path):
    write(tmp_path / "1", board(result("m", score())))
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "t.json").symlink_to(tmp_path / "1" / "t.json")
    with pytest.raises(SpecError, match=r"2/t\.json: is a link out of the boards' folder"):
        read_folder(tmp_path / "2")


def test_folders_without_boards_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="absent is not a folder"):
        merge([tmp_path / "absent"], tmp_path / "out")
    with pytest.raises(UnknownNameError, match=f"no boards in {tmp_path}"):
        merge([tmp_path], tmp_path / "out")


def test_a_link_out_of_the_target_is_not_written_through(tmp_path):
    put(tmp_path / "1", [ran("m", 1)], RNG)
    write(tmp_path / "2", board(without("n", "why")))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "2" / "artifacts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="artifacts/t/m/items: a link leads out of the boards'"):
        merge([tmp_path / "1"], tmp_path / "2")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("failing", range(5))
def test_a_write_that_fails_loses_nothing_and_is_made_up_for(tmp_path, monkeypatch, failing):
    source, target = newer_and_older(tmp_path)
    whole = shutil.copytree(target, tmp_path / "whole")
    merge([source], whole)
    before, after = snapshot(target), snapshot(whole)
    with monkeypatch.context() as patched:
        patched.setattr(files, "write_whole", failing_after(failing))
        with pytest.raises(OutputError, match="the disk is full"):
            merge([source], target)
    assert all(content in (before.get(n), after[n]) for n, content in snapshot(target).items())
    merge([source], target)
    assert snapshot(target) == after


def failing_after(count, write=files.write_whole):
    left = iter(range(count))

    def write_or_fail(file, content):
        if next(left, None) is None:
            raise OutputError("the disk is full")
        write(file, content)

    return write_or_fail


def newer_and_older(folder):
    """Return a source whose newer version has other files, in the places of the target's."""
    source = put(folder / "source", [ran("m", 1, version=2), ran("n", 1, task="u")], RNG)
    target = put(folder / "target", [ran("m", 1), ran("o", 1)], RNG)
    (content := folder / "content").write_text("of the newer version")
    saved = save_artifacts(source, "t", "m", {"items": content})
    altered(source / "t.json", lambda board: board["rows"][0].update(artifacts=saved))
    return source, target


def test_writes_come_in_the_order_artifacts_archive_boards(tmp_path, monkeypatch):
    source, target = newer_and_older(tmp_path)
    written = []
    monkeypatch.setattr(files, "write_whole", lambda file, _: written.append(file))
    merge([source], target)
    names = [file.relative_to(target).as_posix() for file in written]
    assert names == [
        *("artifacts/t/m/items", "artifacts/u/n/items"),
        *("archive/t.v1.json", "t.json", "u.json"),
    ]


def killed_after_an_artifact(tmp_path):
    source, target = newer_and_older(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "write_whole", failing_after(1))
        with pytest.raises(OutputError, match="full"):
            merge([source], target)
    return source, target


def test_an_artifact_whose_board_is_not_there_yet_is_no_altered_one(tmp_path):
    source, target = killed_after_an_artifact(tmp_path)
    (row,) = [r for r in read_board(target / "t.json").results if r.model == "m"]
    with pytest.raises(DataError, match="is not the file that was written with its row;"):
        read_bytes(target, row, "items")
    (problem,) = merge([target], tmp_path / "new").problems
    assert "is not the file that was written with its row;" in problem
    assert merge([source], target).problems == []


def test_an_older_file_in_the_place_of_a_newer_one_is_an_altered_one(tmp_path):
    source, target = newer_and_older(tmp_path)
    shutil.copy(target / "artifacts" / "t" / "m" / "items", source / "artifacts" / "t" / "m")
    (problem,) = merge([source], target).problems
    assert problem.startswith(f"{source}: artifacts/t/m/items is not the file")


def test_what_a_killed_writer_left_is_removed_though_nothing_is_new(tmp_path):
    target = put(tmp_path, [ran("m", 1), ran("m", 1, version=2)], RNG)
    before = snapshot(target)
    for folder in (target, target / "archive", target / "artifacts" / "t" / "m"):
        (folder / f"{files.PART}x").write_text("half")
    assert merge([target], target) == ({}, [], [])
    assert snapshot(target) == before


def test_a_merge_killed_at_any_step_loses_nothing_and_the_same_again_completes_it(tmp_path):
    newer_and_older(tmp_path)
    command = [sys.executable, ROOT / "tests" / "support" / "killed_merges.py", tmp_path]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=ENVIRONMENT)
    found = json.loads(done.stdout)
    assert found["steps"] > 40
    assert found["between"] > 10
    assert found["left parts"] > 5
    assert (found["torn"], found["lost"], found["not completed"]) == (0, 0, 0)


ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}"}


def test_a_run_that_writes_while_folders_merge_loses_no_row(tmp_path):
    target = put(tmp_path / "target", [ran("o", 1)], RNG)
    sources = [put(tmp_path / f"{i}", [result(f"m{i}", score())], RNG) for i in range(10)]
    command = [sys.executable, "-c", WRITER, target, ROOT / "tests" / "support"]
    writer = subprocess.Popen(command, env=ENVIRONMENT)
    while writer.poll() is None and len(models(target)) < 2:
        pass
    assert [merge([source], target).problems for source in sources] == [[]] * 10
    assert writer.wait(60) == 0
    assert len(models(target)) == 1 + 10 + 20


def sources(*boards):
    return [Source(Path(f"{i}"), Path(f"{i}/{b.task}.json"), b) for i, b in enumerate(boards)]


def rows(*boards, file="t.json"):
    return [
        (row.model, row.comparable, row.reason)
        for row in union(sources(*boards)).boards[file].results
    ]


def conflicts(*boards):
    return union(sources(*boards)).conflicts


def test_a_thousand_random_splits_in_random_order_give_the_same_bytes():
    rng, rows = random.Random(0), universe()  # noqa: S311 - splits
    splits = [dealt(rows, rng) for _ in range(1000)]
    (whole,) = {tuple(sorted(joined_at_once(one).items())) for one in splits}
    assert [name for name, _ in whole] == ["archive/t.v1.json", "t.json", "u.json"]
    assert {tuple(sorted(joined_by_turns(one).items())) for one in splits[:50]} == {whole}


def test_rows_are_sorted_by_model_and_comparable():
    ones = [result(m, score(), comparable=c) for m, c in ("by", "ay", "bx", "ax")]
    assert rows(*map(board, ones)) == [
        ("a", "x", ""),
        ("a", "y", ""),
        ("b", "x", ""),
        ("b", "y", ""),
    ]


def test_of_equal_rows_the_one_that_was_finished_first_stands():
    found = union(sources(*(board(ran("m", hour)) for hour in (2, 1, 3)))).boards["t.json"]
    assert [row.run["finished"][:13] for row in found.results] == ["2026-01-01T01"]
    assert found.results[0].provenance["libraries"] == {"torch": "2.8"}


def test_the_same_images_under_two_names_are_no_contradiction():
    one, other = (result("m", score(), provenance={"data_name": name}) for name in ("a", "b"))
    assert conflicts(board(one), board(other)) == []


def run(value, finished, **provenance):
    known = {"weights": "sha256:w", "data": "d", **provenance}
    return result("m", score(value, n=100), provenance=known, run={"finished": finished})


def test_of_two_runs_within_what_is_promised_the_first_is_kept_with_a_note(tmp_path):
    for name, row in {"a": run(0.5, "2"), "b": run(0.52, "1")}.items():
        write(tmp_path / name, board(row))
    merged_boards = merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert not merged_boards.problems
    (note,) = merged_boards.notes
    assert "2 runs of 'm' differ within what is promised, by 0.02 at most" in note
    (row,) = read_board(tmp_path / "both" / "t.json").results
    assert row.scores[0].value == 0.52


@pytest.mark.parametrize("other", [run(0.54, "2"), run(0.5, "2", weights="sha256:x")])
def test_runs_that_differ_by_more_or_of_other_weights_contradict_each_other(other):
    assert conflicts(board(run(0.5, "1")), board(other))


def test_a_row_without_scores_makes_room_for_any_with_them():
    assert rows(board(without("m", "why")), board(result("m", score()))) == [("m", "a", "")]


def test_of_two_reasons_the_same_one_stands_in_either_order():
    one, other = board(without("m", "one")), board(without("m", "other"))
    assert rows(one, other) == rows(other, one) == [("m", "", "one")]


def test_older_versions_go_to_the_archive():
    old, new = board(result("m", score(), version=1)), board(result("n", score()), version=2)
    assert rows(old, new, file="archive/t.v1.json") == [("m", "a", "")]
    assert rows(old, new) == [("n", "a", "")]


DIFFERENCES = [
    ({"scores": [score(0.6)]}, "scores"),
    ({"request": "r2"}, "request"),
    ({"notes": ["n"]}, "notes"),
    ({"artifacts": {"items": {"file": "f", "sha256": "s"}}}, "artifacts"),
    ({"provenance": {"weights": "sha256:other"}}, "provenance"),
]


@pytest.mark.parametrize(("other", "what"), DIFFERENCES)
def test_other_values_under_one_identity_name_both_files(other, what):
    one = result("{0}", score())
    (conflict,) = conflicts(board(one), board(replace(one, **other)))
    words = f"0/t.json and 1/t.json contradict each other in the {what} of"
    assert conflict.startswith(words + " '{0}'; ")
    assert conflict.endswith("keep one of the rows, or run one again under another --name")


def test_boards_of_one_version_with_other_heads_contradict_each_other():
    other = board(result("m", score()), primary={"metric": "recall", "at": {}})
    (conflict,) = conflicts(board(result("n", score())), other)
    assert "0/t.json and 1/t.json contradict each other in the primary of t (version 1)" in conflict
    assert conflict.endswith("raise the version in one of the files")


def kept(sha256, **rest):
    return result("m", score(), artifacts={"items": {"file": "f", "sha256": sha256}}, **rest)


def test_the_newest_version_has_the_files_that_an_older_one_kept():
    boards = [board(kept("2"), version=2), board(kept("1"), version=1)]
    keepers, disputed = newest_keepers(boards)
    assert (keepers["f"].sha256, disputed) == ("2", [])


def test_two_rows_of_a_version_that_keep_other_files_in_one_place_are_told():
    _, (disputed,) = newest_keepers([board(kept("1"), kept("2", comparable="b"))])
    assert disputed.startswith("t (version 1): two rows of 'm' have different files at f; keep one")
