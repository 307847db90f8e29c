"""The shape of the source: sizes of functions, and floors."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

from vlbench.catalog.catalog import load_catalog

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "vlbench"
FILES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "model_adapters").glob("*.py")])

LONGEST, MOST_PARAMETERS = 60, 8

# What a task's YAML or the command line fills does not count; it comes after these.
FILLED_BY_VLBENCH = ["data", "engine"]

# How text comes in beside `coco_files.read_text` and `lines_of`, and why.
OWN_TEXT = r"\.splitlines\(|\.decode\(|\.read_text\("
READS_ITS_OWN_TEXT = {
    "vlbench/data/coco_files.py": "it is the gate",
    "vlbench/data/corpora.py": "lines of packed corpora are read one by one",
    "vlbench/data/webdataset.py": "texts are members of an archive",
    "vlbench/data/flickr30k.py": "texts are members of an archive",
    "vlbench/data/cifar.py": "names are bytes inside a published pickle",
    "vlbench/data/regions/tsv.py": "names are bytes inside a row",
    "vlbench/data/images.py": "it decodes images",
    "vlbench/data/category_words.py": "the file is ours",
    "vlbench/data/digits.py": "the file is ours",
    "vlbench/data/scenes/shapes.py": "the file is ours",
    "vlbench/data/scenes/storage.py": "the file is ours",
    "vlbench/data/scenes/table.py": "the file is ours",
    "vlbench/adapter_kit/library_models.py": "it is the message of an error",
    "vlbench/data/recording_files.py": "texts are members of an archive",
    "vlbench/adapter_kit/servers.py": "it is what a server refuses with",
    "vlbench/adapter_kit/vector_files.py": "words of several encodings lie between numbers",
    "vlbench/probes/captioning/captioner_files.py": "it decodes tokens",
    "vlbench/probes/question_generation/inputs.py": "it decodes tokens",
    "vlbench/probes/question_generation/rating/sheets.py": "the files are ours",
    "model_adapters/hf_vlm.py": "it decodes tokens",
    "model_adapters/openai_server.py": "it is base64",
}


def label(file):
    return file.relative_to(ROOT).as_posix()


def functions(file):
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function):
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = first.end_lineno - first.lineno + 1 if has_docstring else 0
    return function.end_lineno - function.lineno + 1 - docstring


def counted_parameters(file, function):
    """Return the parameters of a function, less self and what YAML fills."""
    given = function.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    fills_keywords = is_probe(names) or is_adapter(file, function) or is_loader(function)
    keywords = {arg.arg for arg in given.kwonlyargs} if fills_keywords else set()
    return [name for name in names if name not in {"self", "cls"} | keywords]


def is_probe(names):
    return names[1:3] == FILLED_BY_VLBENCH


def is_adapter(file, function):
    return file.parent.name == "model_adapters" and function.name == "__init__"


def is_loader(function):
    return function.returns is not None and ast.unparse(function.returns) == "Data"


def test_functions_are_short_and_take_few_parameters():
    measured = [
        (label(file), one.name, length(one), len(counted_parameters(file, one)))
        for file in FILES
        for one in functions(file)
    ]
    assert len(measured) > 2000
    assert [one for one in measured if one[2] > LONGEST or one[3] > MOST_PARAMETERS] == []


def test_a_probe_has_at_most_eight_keys_in_params():
    many = {
        function.name: len(function.args.kwonlyargs)
        for file in (PACKAGE / "probes").rglob("*.py")
        for function in functions(file)
        if is_probe([arg.arg for arg in function.args.args])
    }
    assert {name: count for name, count in many.items() if count > 8} == {}


def names_of_families():
    """Return the families, their probes, and what the rows of one family alone score and count."""
    family = {name: task.file.parent.name for name, task in load_catalog().tasks.items()}
    found, probes = {}, PACKAGE / "probes"
    for file in sorted((ROOT / "leaderboards").glob("*.json")):
        for row in json.loads(file.read_text("utf-8"))["rows"]:
            for name in [*(score["metric"] for score in row["scores"]), *row["counts"]]:
                found.setdefault(name, set()).add(family[file.stem])
    named = {
        node.name
        for file in probes.rglob("*.py")
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and is_probe([arg.arg for arg in node.args.args])
    }
    alone = {name for name, (_, *more) in found.items() if not more}
    return alone | named | {one.name for one in probes.iterdir() if one.is_dir()}


# `vlbench.rdm` and `vlbench rdm` are of the tasks whose probes keep such a matrix; `vlbench data`
# says "words" of its own; `--questions` is a user's table, and `replies` a field of an item.
NAMED = {
    ("vlbench/commands/parser.py", "questions"),
    ("vlbench/commands/rerun.py", "questions"),
    ("vlbench/report/page/viewer.py", "replies"),
    ("vlbench/api.py", "rsa"),
    ("vlbench/api.py", "rsa_text"),
    ("vlbench/commands/data.py", "words"),
}


def test_the_report_names_nothing_of_a_family():
    names = names_of_families()
    assert {"best_head_accuracy", "reliability", "knn", "captioning"} <= names
    rooms = [*(PACKAGE / "report").rglob("*.py"), *(PACKAGE / "commands").rglob("*.py")]
    named = {
        (label(file), node.value)
        for file in [*rooms, PACKAGE / "api.py"]
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in names
    }
    assert named == NAMED


def test_imports_run_down_the_floors_without_a_circle():
    # A process of its own: import-linter configures logging, and so silences other tests' loggers.
    code = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_text_comes_in_by_one_gate():
    kits = ("vlbench/data/", "vlbench/adapter_kit/", "vlbench/run/", "vlbench/probes/")
    files = [file for file in FILES if label(file).startswith((*kits, "model_adapters/"))]
    found = {label(file) for file in files if re.search(OWN_TEXT, file.read_text("utf-8"))}
    assert found == {*READS_ITS_OWN_TEXT}
