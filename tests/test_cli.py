import json
import logging
import re
import shutil
import subprocess
import sys

import pytest
from PIL import Image
from planted_boards import board, result, score
from planted_boards import write as write_boards
from sources import TASK, make_images, make_source, write

import vlbench
from vlbench.cli import main


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_source(tmp_path / "ours")


def run(source, *words, model="mean-colour", tasks="few_shot_colours"):
    return main(["--model", model, "--tasks", tasks, "--include-path", str(source), *words])


def test_the_flat_form_and_underscores_are_the_same_as_run(source, tmp_path):
    common = ["--tasks", "few_shot_colours", "--include_path", str(source)]
    assert main(["--model", "mean-colour", "--model_args", "shift=1", *common]) == 0
    assert main(["run", "--model=mean-colour", "--model-args=shift=1", *common]) == 0
    rows = json.loads((tmp_path / "results" / "few_shot_colours.json").read_text())["rows"]
    assert [row["model"] for row in rows] == ["mean-colour[shift=1]"]


def test_a_broken_task_that_was_not_named_is_told_and_the_others_run(source, capsys):
    write(source / "tasks" / "b.yaml", TASK.replace("paper:", "papr:"))
    write(source / "tasks" / "c.yaml", TASK.replace("few_shot\n", "fewshot\n"))
    assert run(source, tasks="ours") == 1
    printed = capsys.readouterr()
    assert "100.0 %" in printed.out
    assert "vlbench: 2 tasks left out because the file is broken:\n" in printed.err
    assert "b.yaml:3: 'papr' is unknown" in printed.err
    assert "c.yaml:2: no module is named" in printed.err
    for word in ("b", "c"):
        assert run(source, tasks=f"few_shot_colours,{word}") == 2
    assert run(source, tasks="few_shot_colours") == 0


def test_images_of_ones_own_need_no_file_of_a_task(source, tmp_path, capsys):
    for i in range(10):
        for name, colour in (("red", (200, i, 0)), ("blue", (0, i, 200))):
            file = tmp_path / "mine" / name / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), colour).save(file)
    words = ["-m", "mean-colour", "--include-path", str(source), "--images"]
    assert main([*words, str(tmp_path / "mine"), "-v"]) == 0
    printed = capsys.readouterr().out
    assert "skipped: the model has no TextEncoder" in printed
    assert "\n  mean-colour: zero_shot_images\n" in printed
    row = json.loads((tmp_path / "results" / "few_shot_images.json").read_text())["rows"][0]
    assert [one["value"] for one in row["scores"] if one["metric"] == "accuracy"] == [1.0, 1.0]
    assert "data: half of each class is train" in row["notes"][0]
    assert main([*words, str(tmp_path / "gone")]) == 2
    assert "--images: there is no folder" in capsys.readouterr().err


def test_images_of_ones_own_are_read_by_the_tasks_that_are_named(source, tmp_path, capsys):
    make_images(tmp_path / "mine", count=10)
    words = ["-m", "mean-colour", "--include-path", str(source), "--dry-run"]
    words += ["--images", str(tmp_path / "mine")]
    assert main([*words, "--tasks", "knn_images,few_shot_images"]) == 0
    assert "run\n  mean-colour: knn_images, few_shot_images\n" in capsys.readouterr().out
    assert main([*words, "--tasks", "retrieval_images"]) == 2
    told = capsys.readouterr().err
    assert "--images: no task here reads one folder per class, as clustering_images," in told
    assert "--data-dir TASK=DIR" in told
    words += ["--tasks", "knn_images", "--data-dir", f"knn_images={tmp_path}"]
    assert main(words) == 2
    assert "knn_images: two folders of images" in capsys.readouterr().err


@pytest.mark.usefixtures("source")
def test_questions_of_ones_own_are_asked_in_one_command(tmp_path, capsys):
    (tmp_path / "seen").mkdir()
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        Image.new("RGB", (8, 8), colour).save(tmp_path / "seen" / f"{name}.png")
    file = tmp_path / "mine.csv"
    rows = ["red.png,which ?,red,blue,A", "blue.png,which ?,red,blue,blue"]
    file.write_text("\n".join(["image,question,A,B,answer", *rows]))
    adapter = tmp_path / "answers.py"
    adapter.write_text(ANSWERS)
    words = ["-m", f"{adapter}:Reddish", "--trust", "--questions", str(file)]
    assert main([*words, "--images", str(tmp_path / "seen")]) == 0
    assert "(by letter)" in capsys.readouterr().out
    row = json.loads((tmp_path / "results" / "questions_table.json").read_text())["rows"][0]
    told = {one["metric"]: one["value"] for one in row["scores"] if not one["at"]}
    assert (told["accuracy"], row["provenance"]["asked_by"]) == (1.0, "letter")
    assert row["provenance"]["data_name"] == "seen/mine.csv"
    assert main(words) != 0  # the images are not beside the file
    capsys.readouterr()
    assert main([*words[:-1], str(tmp_path / "gone.csv")]) == 2
    assert "--questions: there is no file" in capsys.readouterr().err


ANSWERS = """
import numpy as np


class Reddish:
    def __init__(self, *, device):
        self.device = device

    def answer(self, pictures, questions):
        return [self._say(p.image, q) for p, q in zip(pictures, questions)]

    def _say(self, image, question):
        seen = "red" if np.asarray(image)[0, 0, 0] > 100 else "blue"
        return next(line[0] for line in question.split(chr(10)) if line[3:] == seen)
"""


def test_short_options_and_globs_say_the_same(source, capsys):
    words = ["-m", "mean-*", "-t", "few_shot_colours", "--include-path", str(source), "--dry-run"]
    assert main(words) == 0
    assert "run\n  mean-colour: few_shot_colours\n" in capsys.readouterr().out


def test_a_run_prints_plan_progress_and_scores_as_plain_lines_off_a_terminal(source, capsys):
    assert run(source) == 0
    printed = capsys.readouterr().out
    assert "mean-colour · few_shot_colours: ok in" in printed
    assert "accuracy (shots 1)" in printed
    assert "100.0 %" in printed
    assert "\x1b" not in printed


def test_a_kept_row_is_printed_with_its_scores(source, capsys):
    run(source)
    capsys.readouterr()
    assert run(source) == 0
    printed = capsys.readouterr().out
    assert "kept" in printed
    assert "100.0 %" in printed


def test_a_dry_run_loads_and_writes_nothing(source, tmp_path, capsys):
    assert run(source, "--dry-run", model="will-not-load") == 0
    assert "run" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_absent_data_of_a_named_task_exit_with_2(source, capsys):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../nowhere"))
    write(source / "tasks" / "c.yaml", TASK.replace("../images", "../neither"))
    assert run(source, tasks="b,c") == 2
    message = capsys.readouterr().err
    assert "b: " in message
    assert "c: " in message


def test_absent_data_of_a_selected_task_are_listed_and_exit_with_0_or_1_if_strict(source, capsys):
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../nowhere"))
    assert run(source, tasks="ours") == 0
    assert "plan: 1 run, 1 missing data; -v says why" in capsys.readouterr().out
    for words, code in (["-v"], 0), (["--strict"], 1):
        assert run(source, *words, tasks="ours") == code
        assert "put it at" in capsys.readouterr().out


def test_a_skipped_task_exits_with_0_beside_others_or_1_if_strict(source):
    assert run(source, model="words,mean-colour") == 0
    assert run(source, "--strict", model="words,mean-colour") == 1


@pytest.mark.parametrize(
    ("model", "out", "err"),
    [
        (
            "fails,mean-colour",
            ["RuntimeError: the model broke", "mean-colour · few_shot_colours: ok"],
            "",
        ),
        ("will-not-load,mean-colour", ["mean-colour · few_shot_colours: ok"], "no weights here"),
        ("words", [], "nothing ran"),
    ],
)
def test_what_does_not_run_exits_with_1_after_the_others(source, capsys, model, out, err):
    assert run(source, model=model) == 1
    printed = capsys.readouterr()
    assert [part in printed.out for part in out] == [True] * len(out)
    assert err == "" or printed.err.count(err) == 1


def test_an_output_that_cannot_be_written_exits_with_1(source, tmp_path, capsys):
    write(tmp_path / "file", "")
    assert run(source, "--output", str(tmp_path / "file")) == 1
    assert "cannot write boards" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model-args", "shift"], "'shift' has no '='"),
        (["--model-args", "shft=1"], "did you mean 'shift'"),
        (["--device", "gpu"], "no device 'gpu' here"),
    ],
)
def test_an_error_in_the_command_exits_with_2_and_a_hint(source, capsys, words, message):
    assert run(source, *words) == 2
    assert message in capsys.readouterr().err


def test_arguments_in_brackets_are_those_of_one_model(source, tmp_path):
    words = ["--model", "mean-colour[shift=0.25],mean-colour", "--tasks", "few_shot_colours"]
    words += ["--include-path", str(source), "--output", str(tmp_path), "--no-cache"]
    assert main(words) == 0
    rows = vlbench.load(tmp_path).rows
    assert [row.model for row in rows] == ["mean-colour", "mean-colour[shift=0.25]"]
    assert rows[1].provenance["params"]["shift"] == 0.25


def test_a_file_that_is_not_there_exits_with_2(source, capsys):
    words = ["--model", "nowhere.py:Model", "--tasks", "few_shot_colours"]
    assert main([*words, "--include-path", str(source)]) == 2
    assert "no file nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--batch-size", "0"], ["--limit", "-1"], ["--nonsense"]])
def test_an_option_that_argparse_refuses_exits_with_2(source, words):
    with pytest.raises(SystemExit) as ended:
        run(source, *words)
    assert ended.value.code == 2


def test_validate_says_ok_or_what_is_wrong(source, capsys):
    assert main(["validate", str(source)]) == 0
    write(source / "tasks" / "b.yaml", TASK.replace("paper", "papr"))
    assert main(["validate", str(source / "tasks")]) == 2
    printed = capsys.readouterr()
    assert "few_shot_colours.yaml: ok" in printed.out
    assert "b.yaml:3: 'papr' is unknown; did you mean 'paper'?" in printed.err


def test_a_name_with_control_characters_is_spelled_out(tmp_path, capsys):
    assert main(["validate", str(write(tmp_path / "\x1b[31m.yaml", "name"))]) == 2
    with pytest.raises(SystemExit):
        main(["ls", "tasks", "--\x9b31m"])
    told = capsys.readouterr().err
    assert "\\x1b[31m.yaml" in told
    assert told.replace("\n", "").isprintable()


READS_REGIONS = """
import torch


class ReadsRegions:
    def __init__(self, *, device, dtype=torch.float32):
        self.weights = torch.ones(7)

    def score_pairs(self, pictures, texts):
        return torch.stack([picture.regions.vectors @ self.weights for picture in pictures]).sum(1)
"""


def test_check_shows_regions_as_wide_as_the_models_line_says(source, capsys):
    folder = source / "model_adapters"
    (folder / "reader.py").write_text(READS_REGIONS)
    with (folder / "models.yaml").open("a") as lines:
        lines.write('reader: {adapter: "reader:ReadsRegions", regions: {kind: ours, width: 7}}\n')
    assert main(["check", "reader", "--include-path", str(source)]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_of_two_folders_of_boards_results_are_read_and_it_is_said(source, tmp_path, capsys):
    write_boards(tmp_path / "leaderboards", board(result("m", score())))
    assert main(["leaderboard", "show", "t"]) == 0
    assert "boards of" not in capsys.readouterr().err
    (tmp_path / "results").mkdir()  # as a run without rows leaves it
    assert main(["leaderboard", "show", "t"]) == 0
    run(source)
    capsys.readouterr()
    assert main(["leaderboard", "show", "few_shot_colours"]) == 0
    assert "vlbench: boards of results, not of leaderboards\n" in capsys.readouterr().err
    assert main(["leaderboard", "show", "t", "--output", "leaderboards"]) == 0
    assert "boards of" not in capsys.readouterr().err


def test_shipped_boards_are_shown_where_there_are_none_and_it_is_said(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["leaderboard", "show", "few_shot_scenes"]) == 0
    out, err = capsys.readouterr()
    assert "tiny-rn" in out
    assert "vlbench: boards that vlbench ships; there are none here\n" in err
    (tmp_path / "leaderboards").mkdir()
    assert main(["leaderboard", "show", "few_shot_scenes"]) == 2
    assert "no boards in leaderboards" in capsys.readouterr().err


def test_the_module_runs_as_the_command_does():
    command = [sys.executable, "-m", "vlbench", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"vlbench {vlbench.__version__}\n"


def test_a_split_that_is_absent_exits_with_2_if_named_and_0_if_selected(source):
    shutil.rmtree(source / "images" / "train")
    embedded = TASK.replace("../images", "../more")
    write(source / "tasks" / "b.yaml", embedded)
    make_images(source / "more")
    assert run(source, tasks="few_shot_colours,b") == 2
    assert run(source, tasks="ours") == 0


def test_leaderboard_build_writes_and_shows_the_mean_of_a_group(source, capsys):
    write(source / "tasks" / "b.yaml", TASK)
    write(source / "tasks" / "both.yaml", "group: [few_shot_colours, b]")
    write(source / "tasks" / "more.yaml", "group: [few_shot_colours, few_shot_digits]")
    assert run(source, tasks="both") == 0
    assert main(["leaderboard", "build", "--include-path", str(source)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^wrote \d+ files below results: .*1 in summaries/$", printed, re.MULTILINE)
    assert printed.endswith("next: vlbench leaderboard page\n")
    assert "more: no model has all of few_shot_colours, few_shot_digits" in printed
    assert "few_shot_six" not in printed
    assert main(["leaderboard", "show", "both"]) == 0
    assert "100.0 %" in capsys.readouterr().out


def test_leaderboard_build_exits_with_1_if_a_figure_breaks_and_draws_the_others(source, capsys):
    write(source / "tasks" / "drawn.py", "def broken(board):\n    return 1 / 0\n")
    write(source / "tasks" / "b.yaml", TASK + 'figures: ["drawn:broken"]\n')
    assert run(source, tasks="b,few_shot_colours") == 0
    capsys.readouterr()
    assert main(["leaderboard", "build", "--include-path", str(source)]) == 1
    printed = capsys.readouterr()
    assert "b: no broken: ZeroDivisionError: division by zero" in printed.err
    assert "wrote 6 files below results: 6 in figures/" in printed.out


def test_what_takes_long_before_a_run_says_so_on_stderr(capsys, monkeypatch):
    def slow(*_):
        logging.getLogger("vlbench.data").info("drawing, 3 s left")
        return []

    monkeypatch.setattr("vlbench.commands.ls.list_things", slow)
    assert main(["ls", "tasks"]) == 0
    assert "vlbench: drawing, 3 s left" in capsys.readouterr().err
    assert logging.getLogger("vlbench").handlers == []


LONG, DIGITS = "x" * 300, "9" * 5000
# Before Python 3.13, asking whether a folder of such a name is there was an error.
TOO_LONG = 1 if sys.version_info < (3, 13) else 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["validate", LONG], 1),
        (["ls", "tasks", "--include-path", LONG], 1),
        (["leaderboard", "show", "--output", LONG], TOO_LONG),
        (["--model", "raw-pixels", "--tasks", "few_shot_digits", "--output", LONG], TOO_LONG),
        (["--model", f"{LONG}.py:Model", "--tasks", "few_shot_digits"], 1),
        (["--model", "tiny-clip", "--tasks", "few_shot_digits", "--model-args", f"x={DIGITS}"], 2),
    ],
)
@pytest.mark.usefixtures("source")
def test_long_paths_and_numbers_end_with_a_message(capsys, words, code):
    assert main(words) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("vlbench: ")


@pytest.mark.parametrize("limit", [DIGITS, "²"])
def test_a_limit_of_odd_digits_exits_with_2(source, capsys, limit):
    with pytest.raises(SystemExit, match="2"):
        run(source, "--limit", limit)
    assert f"must be a whole number from 1, not '{limit:.20}'" in capsys.readouterr().err


@pytest.mark.parametrize(("size", "code"), [("abc", 2), ("-1", 2)])
def test_processes_that_nobody_launched_exit_with_2(source, capsys, monkeypatch, size, code):
    monkeypatch.setenv("WORLD_SIZE", size)
    assert run(source, "--device", "cpu") == code
    assert capsys.readouterr().err.startswith("vlbench: WORLD_SIZE ")


def test_a_user_without_a_home_is_told_what_to_pass(source, capsys, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr("pathlib.Path.home", lambda: "".join(raises()))
    assert run(source) == 2
    assert (
        "no home folder for the cache; pass --cache-dir DIR or --no-cache"
        in capsys.readouterr().err
    )
    assert run(source, "--no-cache") == 0


def raises():
    raise RuntimeError("Could not determine home directory.")
    yield ""


def test_a_malformed_archive_ends_a_run_before_anything_is_computed(source, tmp_path, capsys):
    file = "archive/few_shot_colours.v0.json"
    write(tmp_path / "results" / file, '{"schema": 1, "task": 5}')
    assert run(source, model="will-not-load") == 2
    assert f"{file}: 'version' is missing" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["leaderboard", "show"], ["leaderboard", "build"]])
def test_a_malformed_summary_ends_before_anything_is_shown(tmp_path, capsys, monkeypatch, words):
    file = "summaries/zz.json"
    monkeypatch.chdir(tmp_path)
    write_boards(tmp_path / "leaderboards", board(result("m", score())))
    write(tmp_path / "leaderboards" / file, '{"schema": 1, "task": "zz", "version": 1}')
    assert main(words) == 2
    printed = capsys.readouterr()
    assert (printed.out, f"{file}: 'primary' is missing" in printed.err) == ("", True)
