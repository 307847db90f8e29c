"""Boards of several versions split over folders at random, for the tests of merging."""

from dataclasses import replace
from pathlib import Path

from planted_boards import board, result, score

from vlbench.boards.board import board_bytes, save_artifacts
from vlbench.boards.merging import Source, board_name, union


def universe():
    """Return rows of two versions of a task and of another; some have other runs or reasons."""
    rows = [without("d", why) for why in ("one", "other")]
    rows += [result("a", score(), comparable=c, task="u") for c in ("x", "y")]
    for version in (1, 2):
        about = {"version": version}
        rows += [ran("b", hour, **about) for hour in (3, 1)]
        rows += [without("b", "an ok row takes its place", **about)]
    return rows


def ran(model, hour, **rest):
    """Return a row of a run that ended at this hour, by libraries that sort the other way."""
    installed = {"weights": "sha256:1", "libraries": {"torch": f"2.{9 - hour}"}}
    run = {"finished": f"2026-01-01T0{hour}:00:00+00:00"}
    return result(model, score(), comparable="z", run=run, **{"provenance": installed} | rest)


def without(model, reason, **rest):
    return result(model, status="skipped", comparable="", reason=reason, **rest)


def dealt(rows, rng, folders=4):
    """Return sources in random order: each row is in one to three folders at random."""
    hands = [[] for _ in range(folders)]
    for row in rows:
        for hand in rng.sample(hands, rng.randint(1, 3)):
            hand.append(row)
    sources = [one for i, hand in enumerate(hands) for one in sources_of(hand, Path(f"{i}"), rng)]
    rng.shuffle(sources)
    return sources


def sources_of(rows, folder, rng):
    """Return the boards of a folder that hold these rows in random order."""
    rows = rng.sample(rows, len(rows))
    kinds = {(row.task, row.version) for row in rows}
    boards = [
        board(*(r for r in rows if (r.task, r.version) == kind), task=kind[0], version=kind[1])
        for kind in kinds
    ]
    newest = {one.task: max(b.version for b in boards if b.task == one.task) for one in boards}
    names = [board_name(one, archived=one.version < newest[one.task]) for one in boards]
    return [Source(folder, folder / n, one) for n, one in zip(names, boards, strict=True)]


def joined_at_once(sources):
    found = union(sources)
    assert found.conflicts == []
    return {name: board_bytes(one) for name, one in found.boards.items()}


def joined_by_turns(sources):
    """Join boards one after the other, each with what was joined before."""
    folder, whole = Path("whole"), {}
    for source in sources:
        standing = [Source(folder, folder / name, one) for name, one in whole.items()]
        whole = union([source, *standing]).boards
    return joined_at_once([Source(folder, folder / name, one) for name, one in whole.items()])


def put(folder, rows, rng):
    """Write the boards of these rows to a folder, with an artifact for each row with scores."""
    for source in sources_of(rows, folder, rng):
        rows = [with_file(folder, row) for row in source.board.results]
        source.file.parent.mkdir(parents=True, exist_ok=True)
        source.file.write_bytes(board_bytes(replace(source.board, results=rows)))
    return folder


def with_file(folder, row):
    if row.status != "ok":
        return row
    content = folder / "content"
    folder.mkdir(parents=True, exist_ok=True)
    content.write_text(f"{row.task} {row.model}")
    saved = save_artifacts(folder, row.task, row.model, {"items": content})
    return replace(row, artifacts=saved)


def snapshot(folder):
    """Return the bytes of every file of a folder but its lock."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != ".lock"]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
