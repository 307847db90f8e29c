"""The notebooks of docs/tutorials: they run from an empty folder, and their pages show results."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def pages(tmp_path_factory, scenes_cache):
    """The pages of a site whose notebooks ran without data and without a network, by name."""
    site = tmp_path_factory.mktemp("notebooks") / "site"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    command += ["-D", "nb_execution_mode=auto", str(ROOT / "docs"), str(site)]
    environment = {key: os.environ[key] for key in os.environ if not key.startswith("VLBENCH_")}
    environment |= {"XDG_CACHE_HOME": str(scenes_cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return {file.stem: (site / "tutorials" / f"{file.stem}.html").read_text() for file in NOTEBOOKS}


def test_a_notebook_holds_no_output():
    assert [file.stem for file in NOTEBOOKS] == ["inside_a_model", "my_model"]
    for file in NOTEBOOKS:
        text = file.read_text("utf-8")
        assert len(CELL.findall(text)) == text.count("```{code-cell}") > 5


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_no_number_of_a_notebook_is_typed_by_hand(file):
    prose = CELL.sub("", file.read_text("utf-8"))
    assert re.findall(r"\d\s?%|\d\.\d", prose) == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_first_notebook_ends_with_a_table(pages):
    text = re.sub(r"<[^>]+>", "", pages["my_model"])
    assert text.count("ok     ImageEncoder: ") == 12
    assert "constant (control)" in text
    assert "ci95_low" in text
    assert r"\end{tabular}" in text
    assert "wrote few_shot_images-Strokes.html: " in text


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_second_notebook_draws_layers_matrices_and_attention(pages):
    assert len(re.findall(r'<img alt="[A-Z][^"]+" src="../_images/', pages["inside_a_model"])) == 5
    text = re.sub(r"<[^>]+>", "", pages["inside_a_model"])
    assert "accuracy_best_layer" in text
    assert "3 layers x 4 heads in attention.png" in text
