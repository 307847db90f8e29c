import base64
import os
import re
import shutil
from argparse import Namespace
from io import BytesIO

import pytest
from PIL import Image
from planted_boards import board, result, score, write
from sources import make_images, make_source

from vlbench.catalog.catalog import load_catalog
from vlbench.cli import main
from vlbench.commands.leaderboard.page import answer
from vlbench.report.building import build


def test_the_page_is_one_file_whose_place_is_said(tmp_path):
    write(tmp_path, board(result("a", score())))
    out = tmp_path / "site"
    *_, line = answer(Namespace(output=tmp_path, folder=out, include_path=[], images=False)).shown
    assert [file.name for file in out.iterdir()] == ["index.html"]
    assert line.startswith(f"wrote {out}/index.html (0.")


def test_a_figure_that_is_out_of_date_is_named_and_left_out(tmp_path):
    write(tmp_path, board(result("a", score())))
    build(tmp_path, load_catalog([]))
    os.utime(tmp_path / "figures" / "t.svg", ns=(0, 0))
    found = answer(
        Namespace(output=tmp_path, folder=tmp_path / "site", include_path=[], images=False)
    )
    assert found.problems[0].startswith("t: its figure is left out because the board has changed;")


def test_boards_that_were_never_built_are_built_as_build_does(tmp_path):
    for folder in (tmp_path / "1", tmp_path / "2"):
        scores = [score(at={"k": k}) for k in (1, 2)]
        write(folder, board(result("a", *scores), primary={"metric": "accuracy", "at": {"k": 1}}))
    build(tmp_path / "1", load_catalog([]))
    pages = [
        answer(
            Namespace(
                output=tmp_path / name,
                folder=tmp_path / "site" / name,
                include_path=[],
                images=False,
            )
        )
        for name in "12"
    ]
    assert [page.problems for page in pages] == [[], []]
    assert [len(page.shown) for page in pages] == [1, 2]
    assert pages[1].shown[0] == f"built 3 files in {tmp_path / '2'}"
    first, second = (tmp_path / "site" / name / "index.html" for name in "12")
    assert first.read_bytes() == second.read_bytes()
    assert b"data:image/svg+xml" in first.read_bytes()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A source and the boards of a model that is always wrong, of images that are there."""
    folder = tmp_path_factory.mktemp("page")
    source = make_source(folder / "ours")
    with (source / "model_adapters" / "models.yaml").open("a") as lines:
        lines.write('blind: {adapter: "colours:MeanColour", params: {weights: "0"}}\n')
    words = ["--model", "blind", "--tasks", "few_shot_colours", "--include-path", str(source)]
    assert main([*words, "--output", str(folder / "boards"), "--no-cache"]) == 0
    return source, folder / "boards"


def test_images_stand_beside_the_items_that_are_wrong_most_often(run, tmp_path):
    source, boards = run
    words = ["leaderboard", "page", str(tmp_path), "--images", "--include-path", str(source)]
    assert main([*words, "--output", str(boards)]) == 0
    page = (tmp_path / "index.html").read_text()
    pictures = re.findall(r'<img class="item" src="data:image/png;base64,([^"]+)"', page)
    assert (len(pictures), len({*pictures})) == (6 + 9, 9)  # six below the title, all in the table
    with Image.open(BytesIO(base64.b64decode(pictures[0]))) as shown:
        assert max(shown.size) <= 96
    assert main([*words[:3], "--output", str(boards)]) == 0
    assert '<img class="item"' not in (tmp_path / "index.html").read_text()


def test_images_without_a_folder_are_those_of_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("VLBENCH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path, 12)
    assert main(["--model", "constant", "--images", ".", "--tasks", "few_shot_images"]) == 0
    assert main(["leaderboard", "page", "--images"]) == 0
    assert "few_shot_images: no images: image folder not found" in capsys.readouterr().err
    assert main(["leaderboard", "page", "--images", "."]) == 0
    assert "no images" not in capsys.readouterr().err


def test_drawings_stand_there_without_being_asked_for_and_other_images_do_not(run, tmp_path):
    source, boards = run
    for name in ("few_shot_colours.json", "artifacts"):
        copy = shutil.copytree if name == "artifacts" else shutil.copy
        copy(boards / name, tmp_path / name)
    words = ["--model", "constant", "--tasks", "few_shot_scenes", "--output", str(tmp_path)]
    assert main(words) == 0
    page = ["leaderboard", "page", "--output", str(tmp_path), "--include-path", str(source)]
    assert main(page) == 0
    html = (tmp_path / "page" / "index.html").read_text()
    assert 'alt="item ' in html.partition('id="task-few_shot_scenes"')[2].partition("<section")[0]
    assert (
        'alt="item ' not in html.partition('id="task-few_shot_colours"')[2].partition("<section")[0]
    )


def test_where_the_data_are_others_the_page_has_no_images_and_says_why(run, tmp_path, capsys):
    source, boards = run
    make_images(tmp_path / "others", 1)
    words = ["leaderboard", "page", str(tmp_path), "--images", "--include-path", str(source)]
    elsewhere = ["--data-dir", f"few_shot_colours={tmp_path / 'others'}"]
    assert main([*words, "--output", str(boards), *elsewhere]) == 0
    assert "few_shot_colours: no images: few_shot_colours: 6 of 9" in capsys.readouterr().err
    assert '<img class="item"' not in (tmp_path / "index.html").read_text()


def test_items_that_are_gone_leave_the_page_without_images(run, tmp_path):
    source, boards = run
    shutil.copytree(boards, tmp_path / "boards")
    build(tmp_path / "boards", load_catalog([source]))
    for file in (tmp_path / "boards").rglob("items.parquet"):
        file.unlink()
    words = ["leaderboard", "page", str(tmp_path), "--images", "--include-path", str(source)]
    assert main([*words, "--output", str(tmp_path / "boards")]) == 0
    assert '<img class="item"' not in (tmp_path / "index.html").read_text()
