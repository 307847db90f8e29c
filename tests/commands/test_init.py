import runpy
import shlex

import pytest
from PIL import Image

from vlbench.cli import main
from vlbench.commands.init import init


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_every_command_that_is_advised_works_as_typed(here, capsys):
    assert main(["init", "my source"]) == 0
    _, _, advised = capsys.readouterr().out.partition("next:\n")
    commands = [shlex.split(line) for line in advised.splitlines()]
    assert [words[:2] for words in commands] == [
        ["vlbench", "check"],
        ["vlbench", "validate"],
        ["vlbench", "--model"],
    ]
    assert [main(words[1:]) for words in commands] == [0, 0, 0]
    assert "mean-colour" in (here / "results" / "few_shot_mine.json").read_text()


def test_what_was_written_is_told(here, capsys):
    main(["init", "mine"])
    told = capsys.readouterr().out
    files = [str(file.relative_to(here)) for file in (here / "mine").rglob("*") if file.is_file()]
    texts = [file for file in files if not file.endswith(".png")]
    assert [f"wrote {file}\n" in told for file in texts] == [True] * 4
    assert (len(files), "wrote 12 images below mine/images\n" in told) == (16, True)


def test_images_are_twelve_different_ones_of_three_classes(tmp_path):
    files = [file for file in init(tmp_path / "mine") if file.suffix == ".png"]
    assert len({Image.open(file).tobytes() for file in files}) == 12
    places = {file.relative_to(tmp_path / "mine" / "images").parent.as_posix() for file in files}
    classes = ("circle", "square", "triangle")
    assert places == {f"{split}/{name}" for split in ("train", "test") for name in classes}


def test_the_test_that_was_written_passes(tmp_path):
    init(tmp_path)
    (test,) = (
        function
        for name, function in runpy.run_path(str(tmp_path / "tests" / "test_mine.py")).items()
        if name.startswith("test_")
    )
    test()


def test_a_folder_that_holds_something_and_a_file_are_refused(here, capsys):
    (here / "full").mkdir()
    (here / "full" / "mine.txt").write_text("mine")
    assert (main(["init", "full"]), main(["init", "full/mine.txt"])) == (2, 2)
    assert capsys.readouterr().err == (
        "vlbench: full is not empty; name a new folder, or an empty one\n"
        "vlbench: full/mine.txt is a file; name a new folder, or an empty one\n"
    )
    assert [file.name for file in (here / "full").iterdir()] == ["mine.txt"]


def test_what_python_compiled_of_the_template_is_not_copied(tmp_path):
    assert {file.suffix for file in init(tmp_path)} == {".py", ".yaml", ".png"}
