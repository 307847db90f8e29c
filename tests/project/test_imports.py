"""What commands and imports leave unimported, so that they start at once."""

import re
import shutil
from pathlib import Path

import pytest
from forks import fork_server

import vlbench.commands
from vlbench.cli import main
from vlbench.commands.parser import commands_in

ROOT = Path(__file__).resolve().parents[2]

HEAVY = {"torch", "sklearn", "scipy", "datasets", "transformers", "open_clip", "torchvision"}
HEAVY |= {"timm", "gensim", "matplotlib", "foolbox", "pandas", "accelerate", "huggingface_hub"}

RUN = ["--model", "raw-pixels,tiny-word2vec", "--tasks", "few_shot_digits"]

COMMANDS = """
from vlbench.cli import main
for words in {commands}:
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code
    assert code == 0, (words, code)
"""


def commands(*words):
    """Return a program that runs command lines, each of which must end well."""
    return COMMANDS.format(commands=list(words))


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Run a program in a process that has imported nothing."""
    with fork_server(tmp_path_factory.mktemp("bare")) as ask:
        yield ask


@pytest.fixture(scope="module")
def ask_with_torch(tmp_path_factory):
    """Run a program in a process that has imported PyTorch alone, which takes two seconds."""
    with fork_server(tmp_path_factory.mktemp("torch"), "torch") as ask:
        yield ask


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run, with its boards and its cache."""
    folder = tmp_path_factory.mktemp("finished")
    words = ["--output", str(folder / "boards"), "--cache-dir", str(folder / "cache")]
    assert main([*RUN, *words]) == 0
    return folder


@pytest.fixture
def boards(finished, tmp_path):
    """A copy of the boards of a run, in the folder where the command line looks for them."""
    return shutil.copytree(finished / "boards", tmp_path / "boards")


def heavy(ended, libraries=frozenset(HEAVY)):
    """Return which of some libraries a program imported. Asserts that it ended well."""
    assert ended.returncode == 0, ended.stderr
    return ended.modules & libraries


def test_an_import_of_a_heavy_library_is_seen(ask):
    assert heavy(ask("pass")) == set()
    assert heavy(ask("import huggingface_hub")) == {"huggingface_hub"}


def test_a_command_that_fails_is_seen(ask):
    ended = ask(commands(["ls", "nothing"]))
    assert (ended.returncode, "AssertionError: (['ls', 'nothing'], 2)" in ended.stderr) == (1, True)


LISTINGS = [
    ["--help"],
    ["--version"],
    *(["ls", kind] for kind in ("tasks", "models", "probes", "data")),
    ["show", "few_shot_digits"],
    ["show", "tiny-clip"],
]


@pytest.mark.parametrize("words", LISTINGS, ids=" ".join)
def test_help_and_listings_import_nothing_heavy(ask, words):
    assert heavy(ask(commands(words))) == set()


REFUSED = """
from vlbench.cli import main
try:
    code = main({words})
except SystemExit as end:
    code = end.code
assert code == 2, code
"""


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--model", "raw-pixel", "--tasks", "few_shot_digits"], "raw-pixels"),
        (["--model", "raw-pixels", "--tasks", "few_shot_digit"], "few_shot_digits"),
        (["--model", "raw-pixels", "--tasks", "few_shot_digits", "--limt", "3"], "--limit"),
        (["check", "raw-pixel"], "raw-pixels"),
        (["check", "raw-pixels", "--devise", "cpu"], "--device"),
        (["rerun", "few_shot_digit", "raw-pixels", "--output", "BOARDS"], "few_shot_digits"),
        (["rerun", "few_shot_digits", "raw-pixel", "--output", "BOARDS"], "raw-pixels"),
        (["items", "few_shot_digit", "raw-pixels", "--output", "BOARDS"], "few_shot_digits"),
        (["items", "few_shot_digits", "raw-pixel", "--output", "BOARDS"], "raw-pixels"),
        (["data", "few_shot_digit"], "few_shot_digits"),
        (["show", "few_shot_digit"], "few_shot_digits"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_slip_is_told_with_what_was_meant_before_heavy_imports(ask, finished, words, hint):
    words = [word.replace("BOARDS", str(finished / "boards")) for word in words]
    ended = ask(REFUSED.format(words=words))
    assert heavy(ended) == set()
    assert f"did you mean {hint}" in ended.stderr


@pytest.mark.parametrize("name", ["few_shot_digits", "tiny-clip"])
def test_what_has_no_published_values_is_shown_without_reading_tables(ask, name):
    assert heavy(ask(commands(["show", name])), {"numpy", "pyarrow"}) == set()


@pytest.mark.parametrize(
    "file", ["vsep/findings/vsep.yaml", "generalization/transfer_augmented_six.yaml"]
)
def test_findings_and_groups_are_checked_without_importing_anything_heavy(ask, file):
    assert heavy(ask(commands(["validate", str(ROOT / "tasks" / file)]))) == set()


def test_a_slip_in_a_task_is_told_without_importing_anything_heavy(ask, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("version: 1\nextends: few_shot_digits\nparms: {shots: [1]}\n", "utf-8")
    ended = ask(REFUSED.format(words=["validate", str(file)]))
    assert heavy(ended) == set()
    assert "did you mean 'params'" in ended.stderr


def test_a_terminal_is_told_that_torch_is_loaded_before_it_is(ask):
    terminal = "import sys\nsys.stderr.isatty = lambda: True\n"
    files = [
        str(ROOT / "tasks/generalization" / f"{name}.yaml") for name in ("few_shot", "clustering")
    ]
    ended = ask(terminal + commands(["validate", *files]))
    assert ended.stderr.count("loading PyTorch, then checking tasks against their probes") == 1


def test_a_source_is_written_without_importing_anything_heavy(ask, tmp_path):
    assert heavy(ask(commands(["init", str(tmp_path / "mine")]))) == set()


def test_the_help_of_every_command_imports_nothing_heavy(ask):
    known = [*commands_in(Path(vlbench.commands.__file__).parent, vlbench.commands.__name__)]
    words = [[one.word] for one in known]
    words += [[one.word, inner.word] for one in known for inner in one.inner]
    assert ["leaderboard", "build"] in words
    assert heavy(ask(commands(*([*one, "--help"] for one in words)))) == set()


def test_a_dry_run_of_all_embedded_tasks_draws_nothing_and_imports_little(ask_with_torch, tmp_path):
    words = ["--model", "tiny-clip,tiny-bert", "--tasks", "embedded", "--dry-run", "--cache-dir"]
    words += [str(tmp_path / "cache"), "--output", str(tmp_path / "boards")]
    ended = ask_with_torch(commands(words, ["data", "few_shot_digits"]))
    assert (heavy(ended), ended.stderr) == ({"torch"}, "")
    assert re.search(r"^plan: \d+ run", ended.stdout)
    assert {file.name for file in (tmp_path / "cache").rglob("*")} <= {"digests.sqlite", "vlbench"}
    assert not (tmp_path / "boards").exists()


def test_a_run_whose_rows_are_all_there_imports_writes_and_draws_nothing(ask_with_torch, finished):
    board = finished / "boards" / "few_shot_digits.json"
    before = (board.read_bytes(), board.stat().st_mtime_ns)
    places = ["--output", str(board.parent), "--cache-dir", str(finished / "cache")]
    ended = ask_with_torch(commands([*RUN, *places]))
    assert (heavy(ended), ended.stderr) == ({"torch"}, "")
    assert ended.stdout.startswith("plan: 1 kept, 1 skipped\n")
    assert (board.read_bytes(), board.stat().st_mtime_ns) == before


def test_a_run_that_writes_items_does_not_import_pandas(ask_with_torch, tmp_path):
    places = ["--output", str(tmp_path / "boards"), "--cache-dir", str(tmp_path / "cache")]
    assert heavy(ask_with_torch(commands([*RUN, *places])), {"pandas"}) == set()
    assert [*(tmp_path / "boards").rglob("items.parquet")]


def test_leaderboard_show_imports_nothing_heavy(ask, boards):
    assert heavy(ask(commands(["leaderboard", "show", "--output", str(boards)]))) == set()


def test_boards_without_matrices_are_built_without_torch(ask, boards):
    ended = ask(commands(["leaderboard", "build", "--output", str(boards)]))
    assert heavy(ended, {"torch", "sklearn"}) == set()
    assert (boards / "figures" / "few_shot_digits.svg").exists()


def test_an_export_imports_nothing_heavy(ask, boards, tmp_path):
    words = ["leaderboard", "export", "--format", "csv", "--to", str(tmp_path / "boards.csv")]
    ended = ask(commands([*words, "--output", str(boards)]))
    libraries = {"torch", "sklearn", "scipy", "datasets", "transformers", "pandas"}
    assert heavy(ended, libraries | {"huggingface_hub"}) == set()


LIGHT_MODULES = [
    ("vlbench.cli, vlbench.report.building", {"torch"}),
    ("vlbench.drawing.looks", {"matplotlib"}),
    ("vlbench.system.hub", {"torch", "huggingface_hub"}),
    ("vlbench.probes.captioning.figures", {"torch", "sklearn", "scipy"}),
    ("vlbench.probes.grounding.figures, vlbench.probes.layer_curves", {"torch", "scipy"}),
]


@pytest.mark.parametrize(("modules", "libraries"), LIGHT_MODULES)
def test_a_module_is_imported_without_what_it_does_not_need(ask, modules, libraries):
    assert heavy(ask(f"import {modules}"), libraries) == set()


RIGHT_NAMES = """
from vlbench.catalog.library_names import library_model
names = ["timm:resnet18.a1_in1k", "open_clip:ViT-B-32/openai", "torchvision:vgg11/IMAGENET1K_V1"]
assert all(library_model(name, {}) for name in names)
"""


def test_a_right_name_is_planned_without_importing_its_library(ask):
    assert heavy(ask(RIGHT_NAMES), {"torch", "timm", "open_clip", "torchvision"}) == set()


ADAPTERS = sorted((ROOT / "model_adapters").glob("*.py"))
KIT = sorted((ROOT / "vlbench" / "adapter_kit").glob("[a-z]*.py"))
LOAD = f"""
import inspect
from pathlib import Path
from vlbench.schema import hints
from vlbench.code.plugins import load_file
for file in {[str(file) for file in (*KIT, *ADAPTERS)]}:
    module = load_file(Path(file))
    own = [c for _, c in inspect.getmembers(module, inspect.isclass)
           if c.__module__ == module.__name__]
    for c in own:
        if "__init__" in vars(c) and "device" in hints(c):
            print(c)
"""


def test_no_library_is_imported_before_a_model_is_made(ask_with_torch):
    ended = ask_with_torch(LOAD)
    libraries = "torchvision transformers huggingface_hub open_clip timm datasets scipy gensim"
    assert heavy(ended, {*libraries.split(), "pyarrow"}) == set()
    assert len(ended.stdout.splitlines()) > len(ADAPTERS)
    assert "vlbench.adapter_kit.hugging_face" in ended.modules
