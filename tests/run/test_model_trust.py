import importlib.metadata
import json
import re
import sys

import pytest
from runs import evaluate, planned
from sources import MODELS, TASK, make_source, write

from vlbench.catalog.sources import ENTRY_POINTS, trusted_packages
from vlbench.cli import main
from vlbench.code.functions import find_object
from vlbench.errors import SpecError

LOADER = '"vlbench.data.image_folder:image_folder", root: ../images'
EVIL = """\
from pathlib import Path
Path(__file__).with_name("marker").touch()

class Evil:
    def __init__(self, *, device):
        pass

    def preprocess(self, image):
        pass

    def encode_images(self, pixels):
        pass
"""
TELLS = "def evil(**_):\n    raise SystemExit('called')\nraise SystemExit('imported')\n"


def find(name, folders=(), trusted=frozenset({"vlbench"})):
    return find_object(lambda: "t.yaml:5", name, folders, trusted=trusted)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_source(tmp_path / "ours")


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A package on the path of Python that nobody registered; importing it ends the test."""
    write(tmp_path / "site" / "zz_stranger" / "__init__.py", TELLS)
    monkeypatch.syspath_prepend(tmp_path / "site")


def loads_with(source, name):
    return write(source / "tasks" / "b.yaml", TASK.replace(LOADER, f'"{name}"'))


UNTRUSTED = [
    "os:system",
    "subprocess:run",
    "builtins:exec",
    "__main__:main",
    "zz_stranger:evil",
    "zz_stranger.deeper:evil",
    "../outside/zz:evil",
    "vlbench.code.plugins.2f746d70.zz:evil",
    "vlbench.system.hub:urlsplit",
    "vlbench.system.hub:os",
    "vlbench.errors:get_close_matches",
]


@pytest.mark.parametrize("name", UNTRUSTED)
@pytest.mark.usefixtures("stranger")
def test_what_is_of_no_trusted_package_is_refused_and_not_imported(name):
    with pytest.raises(SpecError, match=r"^t\.yaml:5: '.*' is not trusted: .*; .* pass --trust$"):
        find(name)
    assert "zz_stranger" not in sys.modules


@pytest.mark.parametrize("name", ["zz", "../outside/zz", "{folder}/outside/zz"])
def test_a_file_outside_the_source_is_refused(tmp_path, name):
    (tmp_path / "tasks").mkdir()
    write(tmp_path / "outside" / "zz.py", TELLS)
    with pytest.raises(SpecError, match=r"not trusted|no module is named"):
        find(f"{name}:evil".format(folder=tmp_path), [tmp_path / "tasks"])


@pytest.mark.parametrize("name", ["1" * 5000, f"{'a' * 5000}:Adapter"])
def test_a_name_that_no_file_can_have_is_refused_with_its_line(tmp_path, name):
    with pytest.raises(
        SpecError,
        match=r"^t\.yaml:5: '[1a]{40}\.\.\.' names a file that cannot be read: File name too",
    ):
        find(name, [tmp_path])


def test_a_file_of_the_source_and_functions_of_vlbench_are_found(tmp_path):
    write(tmp_path / "zz.py", "from os import system as call\n")
    assert callable(find("zz:call", [tmp_path]))
    assert find("vlbench.data.digits:digits").__name__ == "digits"


def test_whoever_trusts_gets_anything():
    assert find("os:system", trusted=None) is __import__("os").system


def test_packages_that_registered_as_sources_are_trusted(monkeypatch):
    point = importlib.metadata.EntryPoint("theirs", "zz_theirs.more", ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])
    assert trusted_packages() == {"vlbench", "zz_theirs"}


@pytest.mark.parametrize("words", [["--dry-run"], []])
def test_a_run_calls_no_foreign_loader(source, capsys, words):
    loads_with(source, "os:abort")
    told = ["--model", "mean-colour", "--tasks", "b", "--include-path", str(source)]
    assert main([*told, *words]) == 2
    assert "b.yaml:5: 'os:abort' is not trusted" in capsys.readouterr().err


def test_validate_names_foreign_functions_and_trust_lets_them_pass(source, capsys):
    file = str(loads_with(source, "time:sleep"))
    assert main(["validate", file]) == 2
    assert "b.yaml:5: 'time:sleep' is not trusted" in capsys.readouterr().err
    write(source / "tasks" / "b.yaml", TASK.replace("few_shot\n", '"doctest:run"\n'))
    assert main(["validate", file]) == 2


def test_a_file_that_would_end_the_program_is_refused_with_its_line(tmp_path):
    write(tmp_path / "zz.py", "raise SystemExit(0)\n")
    with pytest.raises(SpecError, match=r"5: 'zz' cannot be imported: SystemExit: 0 \(zz\.py:1\)"):
        find("zz:call", [tmp_path])


@pytest.mark.parametrize("name", ["report.figures.charts:erase", "boards.board:write_result"])
def test_a_function_of_vlbench_that_is_no_loader_is_never_called(source, name):
    loads_with(source, f"vlbench.{name}")
    message = r"b\.yaml:5: a loader must return Data; vlbench\..* returns"
    with pytest.raises(SpecError, match=message):
        planned(["mean-colour"], ["b"], include_path=[source])


def test_a_foreign_adapter_is_refused_with_its_line(source):
    foreign = "theirs: {adapter: 'collections:Counter'}\n"
    write(source / "model_adapters" / "models.yaml", MODELS + foreign)
    with pytest.raises(SpecError, match=r"models\.yaml:6: 'collections:Counter' is not trusted"):
        evaluate(source, model="theirs")
    with pytest.raises(SpecError, match="'nothing' is unknown; there are none"):
        evaluate(source, model="theirs", trust=True, model_args={"nothing": 1})


def test_an_adapter_that_is_no_class_is_refused(source):
    line = "theirs: {adapter: 'vlbench.report.figures.charts:erase'}\n"
    write(source / "model_adapters" / "models.yaml", MODELS + line)
    message = r"models\.yaml:6: an adapter must be a class; '.*erase' is"
    with pytest.raises(SpecError, match=message):
        evaluate(source, model="theirs")


def test_a_source_may_name_adapters_of_vlbench(source):
    line = "pixels: {adapter: 'raw_pixels:RawPixels'}\n"
    write(source / "model_adapters" / "models.yaml", MODELS + line)
    (result,) = evaluate(source, model="pixels")
    assert result.status == "ok"


@pytest.mark.parametrize("command", [["run", "--model=m", "--tasks=t"], ["validate", "."]])
def test_the_commands_that_import_take_trust(command):
    from vlbench.commands.parser import parser_of

    assert parser_of().parse_args([*command, "--trust"]).trust


@pytest.fixture
def evil(tmp_path):
    """A file beside no source, which writes a marker file when it is imported."""
    return write(tmp_path / "elsewhere" / "evil.py", EVIL)


def marked(file):
    return file.with_name("marker").exists()


def with_companion(source, file):
    """Let a model and a task of a source name an encoder by its file; return the source."""
    write(source / "model_adapters" / "models.yaml", companion(file))
    data = 'data: {loader: "vlbench.data.digits:digits"}\nparams: {encoder: "NAME"}\n'
    text = f"version: 1\nprobe: noun_replacement\n{data}primary: {{metric: x}}\n"
    write(source / "tasks" / "c.yaml", text.replace("NAME", f"{file}:Evil"))
    return source


def companion(file):
    return f'{MODELS}ev: {{adapter: "crops:Crops", params: {{encoder: "{file}:Evil"}}}}\n'


COMMANDS = [
    ["validate", "SOURCE/model_adapters/models.yaml"],
    ["validate", "SOURCE/tasks/c.yaml"],
    ["data", "c", "--include-path", "SOURCE"],
    ["check", "ev", "--include-path", "SOURCE"],
    ["--model", "ev", "--tasks", "few_shot_digits", "--include-path", "SOURCE", "--dry-run"],
    ["--model", "raw-pixels", "--tasks", "c", "--include-path", "SOURCE"],
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_companion_elsewhere_is_refused_and_not_imported(source, evil, capsys, words):
    with_companion(source, evil)
    assert main([word.replace("SOURCE", str(source)) for word in words]) == 2
    said = "".join(capsys.readouterr())
    assert re.search(r"(models\.yaml:6|c\.yaml:4): '.*evil\.py:Evil' is not trusted", said)
    assert not marked(evil)


def test_a_companion_of_the_own_source_or_of_who_trusts_is_found(source, evil):
    own = write(source / "model_adapters" / "evil.py", EVIL)
    file = write(source / "model_adapters" / "models.yaml", companion(own))
    assert main(["validate", str(file)]) == 0
    write(file, companion(evil))
    assert (main(["validate", str(file), "--trust"]), marked(evil)) == (0, True)


def test_a_companion_on_the_command_line_needs_no_trust(source, evil):
    lines = write(source / "model_adapters" / "models.yaml", companion(evil))
    lines.write_text(lines.read_text().replace(f"{evil}:Evil", "raw-pixels"))
    words = ["--model-args", f"encoder={evil}:Evil", "--dry-run", "--include-path", str(source)]
    assert main(["--model", "ev", "--tasks", "few_shot_digits", *words]) == 0


NAMING_CODE = [
    (
        "model: raw-pixels\ntrust: true\n",
        r"run.yaml:2: trust cannot be set in a file; pass --trust",
    ),
    ("model: 'EVIL:Evil'\n", r"run.yaml:1: model names code to run; .* pass --trust"),
    ("model: ['a', 'EVIL:Evil']\n", r"run.yaml:1: model names code to run"),
    ("model-args: {encoder: 'EVIL:Evil'}\n", r"run.yaml:1: model-args names code to run"),
    ("include-path: SOURCE\n", r"run.yaml:1: include-path names code to run"),
]


@pytest.mark.parametrize(("text", "message"), NAMING_CODE)
def test_a_file_of_options_names_no_code_and_grants_no_trust(source, evil, capsys, text, message):
    text = text.replace("EVIL", str(evil)).replace("SOURCE", str(source))
    file = write(source / "run.yaml", text)
    words = ["--tasks", "few_shot_digits", "--dry-run", "--config", str(file)]
    assert main(words if text.startswith("model") else [*words, "--model=mean-colour"]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not marked(evil)


def test_a_file_of_options_may_name_code_where_the_command_line_trusts(source, evil):
    file = write(source / "run.yaml", f"model: '{evil}:Evil'\ntasks: few_shot_digits\n")
    assert main(["--config", str(file), "--dry-run", "--trust"]) == 0
    assert marked(evil)


@pytest.mark.parametrize("name", ["raw-pixels,{}:Evil", "crops[encoder={}:Evil]"])
def test_a_row_named_by_a_file_is_not_run_again_without_trust(source, evil, capsys, name):
    evaluate(source, output=source / "b")
    file = source / "b" / "few_shot_colours.json"
    row = name.format(evil)
    file.write_text(file.read_text().replace('"mean-colour"', json.dumps(row)))
    assert main(["rerun", str(file), row]) == 2
    assert "names code; if you trust it, pass --trust" in capsys.readouterr().err
    assert not marked(evil)
