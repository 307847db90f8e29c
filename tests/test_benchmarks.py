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

ROOT = Path(__file__).parents[1]
HELPERS = {"measuring.py", "speed.py"}
SCRIPTS = sorted({file.name for file in (ROOT / "benchmarks").glob("*.py")} - HELPERS)

# What makes a script small: constants of its module, then the arguments of one or more calls.
SMALL = {
    "ablation.py": ({}, ["--worlds", "2"]),
    "bert_gen.py": ({"ROUNDS": 1, "QUESTIONS": 20, "BATCH": 4}, []),
    "boards.py": (
        {"CLASSES": 12},
        ["--models", "10", "--tasks", "2", "--items", "20", "--matrices", "3"],
    ),
    "captioner.py": ({"ROUNDS": 1}, ["2"]),
    "captions.py": ({"ROUNDS": 1}, ["5"]),
    "coverage.py": ({}, ["--draws", "20", "--items", "20"]),
    "error_rates.py": ({}, ["--draws", "2"]),
    "extraction.py": ({"BATCH": 2}, ["4", "1"]),
    "faults.py": ({"SECONDS": 5}, ["--count", "1"]),
    "few_shot_speed.py": ({"IMAGES": 200, "WIDTH": 8, "CLASSES": 4, "ROUNDS": 1}, []),
    "flickr30k.py": ({}, ["entities"]),
    "flops.py": ({}, []),
    "gpu.py": (
        {"MODELS": {"ViT-S-32-alt": 8}, "STEPS": 2, "ATTACKED": 2, "EPSILONS": [0.01]},
        ["cpu"],
    ),
    "grounding.py": ({"ROUNDS": 1, "CAPTIONS": 1, "BATCH": 4, "SIZES": (2, 4)}, []),
    "hf_vision.py": ({"ROUNDS": 1}, ["4"]),
    "interval_rules.py": ({}, ["--tasks", "knn_scenes"]),
    "items.py": ({"TASKS": "few_shot_digits"}, ["raw-pixels"]),
    "layers.py": ({"ROUNDS": 1, "BATCH": 1}, []),
    "memory.py": ({"SHARD": 30}, ["100"]),
    "mutual_knn.py": ({"EXAMPLES": 60, "WIDTH": 8, "ROUNDS": 1}, []),
    "plans.py": ({}, ["200"]),
    "processes.py": (
        {"SIZES": (1, 2), "QUESTIONS": 128, "PICTURES": 20, "PER_CAPTION": 0.001},
        ["runs", "12"],
        ["trainings"],
        ["scale", "2", "extraction", "training in steps of 0.5 s"],
    ),
    "rdm.py": ({"CLASSES": 10, "IMAGES": 3, "WIDTH": 8, "ROUNDS": 1}, []),
    "readout.py": ({"FEW_TRAIN": 100, "TRAIN": 100, "TEST": 60}, ["--worlds", "2"]),
    "replication.py": (
        {"TASKS": ("few_shot_scenes",), "MODELS": ("raw-pixels",)},
        ["--worlds", "2"],
    ),
    "response_bias.py": ({"PERMUTATIONS": 19}, ["--draws", "2"]),
    "retrieval.py": ({"IMAGES": 20, "WIDTH": 8, "ROUNDS": 1}, []),
    "robustness.py": ({"ROUNDS": 1, "STEPS": 2}, []),
    "same_rows.py": ({}, ["HEAD", "--tasks", "few_shot_digits", "--models", "raw-pixels"]),
    "startup.py": (
        {"REPEATS": 1, "LISTINGS": (["--help"],), "MODELS": ["--model", "raw-pixels"]},
        [],
    ),
    "store.py": ({"ROWS": 600, "ROUNDS": 1}, []),
    "threads.py": ({}, ["--rounds", "1", "--sizes", "40x8", "--probes", "knn"]),
    "transfer.py": ({"TEST": 50, "WIDTH": 8, "ROUNDS": 1}, ["200"]),
    "vlm.py": ({"ROUNDS": 1}, ["2"]),
    "vsep.py": ({"PAIRS": 600, "ROUNDS": 1}, ["1"]),
    "zero_shot.py": ({}, ["--images", "60", "--train", "60", "--rounds", "1"]),
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


def write_entities(folder):
    """Write one image of Flickr30k Entities, with a caption and a box."""
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    size = "<size><width>40</width><height>30</height></size>"
    files = {
        "Sentences/7.txt": "[/EN#1/people A man] .\n" * 5,
        "Annotations/7.xml": f"<annotation><filename>7.jpg</filename>{size}"
        f"<object><name>1</name>{box}</object></annotation>",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_benchmark_runs_and_prints_numbers(script, copy, tmp_path, monkeypatch):
    constants, *calls = SMALL[script]
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    speed = runpy.run_path(str(ROOT / "benchmarks" / "speed.py"))
    file = copy / "benchmarks" / script
    file.write_text(with_constants(file.read_text("utf-8"), constants), "utf-8")
    write_entities(tmp_path / "entities")
    for words in calls:
        done = subprocess.run(
            [sys.executable, str(file), *words],
            cwd=tmp_path,
            env=os.environ | {"VLBENCH_CACHE_DIR": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        errors = done.stderr.strip()
        if done.returncode == 1 and re.fullmatch(r"needs .+", errors):
            pytest.skip(errors)
        assert done.returncode == 0, errors
        assert re.search(r"\d|\|", done.stdout), errors  # numbers, or a table of rules
        if script in speed["RUNS"] and script != "zero_shot.py":  # whose peer is not here
            assert any(map(speed["LINE"].fullmatch, done.stdout.splitlines())), done.stdout


def test_each_benchmark_has_a_small_size():
    assert sorted(SMALL) == SCRIPTS


def test_a_line_of_a_ratio_is_read_back(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    measuring = runpy.run_path(str(ROOT / "benchmarks" / "measuring.py"))
    named = measuring["Against"]("work of 1,000 x 2: all", "peer 1.9.1", 1.5)
    measuring["told"](named, [3.0, 2.0], [4.0])
    found = measuring["LINE"].fullmatch(capsys.readouterr().out.strip())
    assert found.group("what", "against", "ours", "theirs") == (named.what, named.peer, "2", "4")
    assert found.group("ratio", "target") == ("0.50", "1.5")
