"""The wheel, built and installed elsewhere, lists and runs the same tasks as the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["vlbench", "tasks", "model_adapters", "leaderboards"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of a clean copy."""
    copy = tmp_path_factory.mktemp("copy")
    for name in [*FOLDERS, "pyproject.toml", "README.md", "LICENSE"]:
        source = ROOT / name
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, copy / name, ignore=ignore) if source.is_dir() else shutil.copy(
            source, copy
        )
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy)]
    subprocess.run([*build, str(copy)], check=True, capture_output=True)
    (built,) = copy.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder that the wheel was unpacked into."""
    target = tmp_path_factory.mktemp("installed")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, "--target", str(target), str(wheel)], check=True)
    return target


def python(installed, *words):
    """Run Python where the wheel lies; return what it prints."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True, text=True, cwd=installed, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def vlbench(installed, *words):
    return python(installed, "-m", "vlbench", *words)


def test_the_source_archive_holds_the_package_its_tasks_and_adapters_and_four_texts():
    from hatchling.builders.sdist import SdistBuilder

    files = [Path(file.relative_path) for file in SdistBuilder(str(ROOT)).recurse_included_files()]
    assert {file.parts[0] for file in files if len(file.parts) > 1} == {*FOLDERS}
    texts = {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"}
    assert {file.name for file in files if len(file.parts) == 1} >= texts


KINDS = ["tasks", "models", "probes", "data"]
LIST = """
import sys
from vlbench.cli import main
for kind in sys.argv[1:]:
    assert main(["ls", kind, "--json"]) == 0
    print("\\0")
"""


def test_a_wheel_lists_what_the_checkout_lists(installed):
    from vlbench.commands.ls import list_things

    *texts, _ = python(installed, "-c", LIST, *KINDS).split("\0")
    for kind, text in zip(KINDS, texts, strict=True):
        rows = json.loads(text)
        assert [row["name"] for row in rows] == [row["name"] for row in list_things(kind, [])]
        assert all(Path(row["file"]).is_relative_to(installed) for row in rows)


def test_a_wheel_writes_the_source_that_the_checkout_writes(installed, tmp_path):
    from vlbench.commands.init import init

    vlbench(installed, "init", str(tmp_path / "theirs"))
    files = [file.relative_to(tmp_path / "ours") for file in init(tmp_path / "ours")]
    there = [file for file in (tmp_path / "theirs").rglob("*") if file.is_file()]
    assert sorted(file.relative_to(tmp_path / "theirs") for file in there) == sorted(files)
    assert vlbench(installed, "validate", str(tmp_path / "theirs")).count(": ok\n") == 2


def test_a_wheel_has_the_shipped_boards_with_their_items_and_nothing_else(installed):
    there = {
        file.relative_to(installed / "vlbench")
        for file in installed.rglob("leaderboards/**/*")
        if file.is_file()
    }
    items = [
        file
        for file in (ROOT / "leaderboards").glob("artifacts/*/*/items.parquet")
        if not re.search("/constant/|random|noun_count|object_label_alignment", str(file))
    ]
    assert len(items) > 40
    wanted = {file.relative_to(ROOT) for file in [*(ROOT / "leaderboards").glob("*.json"), *items]}
    assert there == wanted


def test_a_wheel_is_below_17_mb(wheel):
    assert wheel.stat().st_size < 17_000_000


def test_a_wheel_compares_models_of_the_shipped_boards(installed, tmp_path):
    words = ["tiny-rn", "raw-pixels", "--tasks", "few_shot_scenes", "--format", "csv"]
    said = vlbench(installed, "leaderboard", "compare", *words, "--output", str(tmp_path))
    assert "few_shot_scenes,accuracy" in said


def test_a_wheel_shows_the_shipped_boards(installed):
    assert "tiny-rn" in vlbench(installed, "leaderboard", "show", "few_shot_scenes")


@pytest.mark.nightly
def test_a_wheel_runs_the_embedded_tasks(installed, tmp_path):
    models = ["raw-pixels", "tiny-clip", "tiny-rn"]
    words = ["--model", ",".join(models), "--tasks", "few_shot_digits", "--output", str(tmp_path)]
    vlbench(installed, *words, "--no-cache")
    rows = json.loads((tmp_path / "few_shot_digits.json").read_text())["rows"]
    assert {row["model"]: row["status"] for row in rows} == dict.fromkeys(models, "ok")


@pytest.mark.nightly
def test_a_shipped_adapter_is_named_the_same_way_from_any_models_yaml(installed, tmp_path):
    listing = tmp_path / "model_adapters" / "models.yaml"
    listing.parent.mkdir()
    listing.write_text('mine: {adapter: "timm_cnn:TimmCnn", params: {architecture: resnet18}}')
    assert vlbench(installed, "validate", str(listing)) == f"{listing}: ok\n"
    shown = vlbench(installed, "show", "timm:resnet18.a1_in1k")
    assert f"file: {installed}/vlbench/model_adapters/timm_vision.py" in shown


@pytest.mark.nightly
def test_a_wheel_writes_the_page_of_a_folder_of_boards(installed, tmp_path):
    # What a clone's boards lack is built beside them.
    boards = shutil.copytree(ROOT / "leaderboards", tmp_path / "boards")
    said = vlbench(installed, "leaderboard", "page", str(tmp_path), "--output", str(boards))
    assert f"wrote {tmp_path}/index.html" in said
    assert "<table" in (tmp_path / "index.html").read_text()
