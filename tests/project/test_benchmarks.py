"""Each script of benchmarks/ runs, small: on a copy, so that none writes into the working tree."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "benchmarks" / "speeds.py").read_text("utf-8")
SPEEDS = re.findall(r'^    "(\w+)": Speed\(', TABLE, re.MULTILINE)

# What speeds.py is made of.
OF_SPEEDS = {"commands.py", "files.py", "in_memory.py", "passes.py", "trainings.py"}
HELPERS = OF_SPEEDS | {"measuring.py", "speeds.py"}
SCRIPTS = sorted({file.name for file in (ROOT / "benchmarks").glob("*.py")} - HELPERS)

# What makes a script small: constants of its module, then the arguments of one or more calls.
SMALL = {
    "ablation.py": ({}, ["--worlds", "2"]),
    "coverage.py": ({}, ["--draws", "20", "--items", "20"]),
    "error_rates.py": ({}, ["--draws", "2"]),
    "faults.py": ({"SECONDS": 5}, ["--count", "1"]),
    "flops.py": ({}, []),
    "gpu.py": (
        {"MODELS": {"ViT-S-32-alt": 8}, "STEPS": 2, "ATTACKED": 2, "EPSILONS": [0.01]},
        ["cpu"],
    ),
    "interval_rules.py": ({}, ["--tasks", "knn_scenes"]),
    "processes.py": (
        {"SIZES": (1, 2)},
        ["--seconds", "2", "--work", "extraction,training in steps of 0.5 s"],
    ),
    "readout.py": ({"FEW_TRAIN": 100, "TRAIN": 100, "TEST": 60}, ["--worlds", "2"]),
    "replication.py": (
        {"TASKS": ("few_shot_scenes",), "MODELS": ("raw-pixels",)},
        ["--worlds", "2"],
    ),
    "response_bias.py": ({"PERMUTATIONS": 19}, ["--draws", "2"]),
    "same_rows.py": ({}, ["HEAD", "--tasks", "few_shot_digits", "--models", "raw-pixels"]),
    "threads.py": ({}, ["--rounds", "1", "--sizes", "40x8", "--probes", "knn"]),
}


def with_constants(source, constants):
    """Return a script whose constants have other values; each must be there."""
    tree, left = ast.parse(source), dict(constants)
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names, values = [name.id for name in target.elts], node.value.elts
            node.value.elts = [
                literal(left.pop(n)) if n in left else v for n, v in zip(names, values, strict=True)
            ]
        elif isinstance(target, ast.Name) and target.id in left:
            node.value = literal(left.pop(target.id))
    assert not left, f"no such constants: {[*left]}"
    return ast.unparse(tree)


def literal(value):
    return ast.parse(repr(value), mode="eval").body


@pytest.fixture
def copy(tmp_path):
    """A folder like the repository, whose benchmarks, scripts and documents are copies."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for place in ROOT.iterdir():
        if place.name in {"benchmarks", "docs", "scripts"}:
            shutil.copytree(place, folder / place.name)
        else:
            (folder / place.name).symlink_to(place)
    return folder


def printed(file, words, folder):
    """Return what a benchmark prints; skip the test if it needs what is not here."""
    done = subprocess.run(
        [sys.executable, str(file), *words],
        cwd=folder,
        env=os.environ | {"VLBENCH_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = done.stderr.strip()
    if done.returncode == 1 and re.fullmatch(r"needs .+", errors):
        pytest.skip(errors)
    assert done.returncode == 0, errors
    return done.stdout


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs_and_prints_numbers(script, copy, tmp_path):
    constants, *calls = SMALL[script]
    file = copy / "benchmarks" / script
    file.write_text(with_constants(file.read_text("utf-8"), constants), "utf-8")
    for words in calls:
        assert re.search(r"\d|\|", printed(file, words, tmp_path))  # numbers, or a table of rules


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SPEEDS)
def test_a_speed_is_printed_as_a_ratio(name, tmp_path):
    output = printed(ROOT / "benchmarks" / "speeds.py", [name, "--small"], tmp_path)
    assert re.search(
        r"^\| \S.* \| \S.* \| [\d.e-]+ \| [\d.e-]+ \| [\d.]+ \| [\d.]* \|$", output, re.MULTILINE
    )


def test_each_benchmark_has_a_small_size():
    assert sorted(SMALL) == SCRIPTS
    assert len(SPEEDS) == TABLE.count('": Speed(')


def test_a_ratio_is_of_the_fastest_rounds(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    measuring = runpy.run_path(str(ROOT / "benchmarks" / "measuring.py"))
    now = iter([0, 3, 3, 8, 8, 10, 10, 14])
    pair = measuring["Pair"](
        "work", "peer 1.9", list, list, target=1.5, rounds=2, clock=lambda: next(now)
    )
    assert measuring["compare"](pair) == "| work | peer 1.9 | 2 | 4 | 0.50 | 1.5 |"
