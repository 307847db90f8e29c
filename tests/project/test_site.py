"""The site of docs/, built once without notebooks: all is named, with the numbers of boards."""

import ast
import contextlib
import html
import importlib
import io
import json
import re
import shlex
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from vlbench import capabilities, commands
from vlbench.boards.board import read_board
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.data_sets import data_sets
from vlbench.catalog.strict_yaml import load_yaml
from vlbench.commands.ls import list_things
from vlbench.commands.parser import ENVIRONMENT, commands_in, normalise_argv, parser_of

ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted((ROOT / "tasks").glob("*/*.yaml"))
BOARDS = sorted((ROOT / "leaderboards").glob("*.json"))
SOURCES = [*(ROOT / "vlbench").rglob("*.py"), *(ROOT / "model_adapters").glob("*.py")]


def words_of(command, *above):
    """Return the words of each command that runs something."""
    if command.inner:
        return [words for one in command.inner for words in words_of(one, *above, command.word)]
    return [[*above, command.word]]


COMMANDS = [
    " ".join(words)
    for command in commands_in(Path(commands.__path__[0]), "vlbench.commands")
    for words in words_of(command)
]


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def section(page, anchor):
    """Return a page from a heading on, to the next of any rank, without blocks such as usage."""
    (found,) = re.findall(rf'<section id="{anchor}">(.*?)(?=<section |\Z)', page, re.DOTALL)
    return text_of(re.sub(r"<pre>.*?</pre>", "", found, flags=re.DOTALL))


def row(page, anchor):
    """Return the cells of the row of a table that has an anchor."""
    (found,) = [one for one in page.split("<tr ") if f'id="{anchor}"' in one]
    return [text_of(cell).strip() for cell in re.findall(r"<td>(.*?)</td>", found, re.DOTALL)]


@pytest.fixture(scope="module")
def generated(site):
    """The generated pages of the site by name."""
    return {file.stem: file.read_text("utf-8") for file in site.glob("generated/*.html")}


@pytest.fixture(scope="module")
def schemas(site):
    return {
        name: jsonschema.Draft202012Validator(
            json.loads((site / f"{name}.schema.json").read_text("utf-8"))
        )
        for name in ("task", "board")
    }


def unnamed_options(page, command):
    """Return the options that the help of a command prints and its section of the page lacks."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit):
        parser_of().parse_args([*command.split(), "--help"])
    options = set(re.findall(r"--[a-z][a-z-]*", printed.getvalue().partition("options:")[2]))
    own = section(page, f"vlbench-{command.replace(' ', '-')}")
    assert "--include-path" in options
    return {one for one in options - {"--help"} if not re.search(rf"{one}(?![a-z-])", own)}


def test_every_command_is_named_with_all_its_options(generated):
    missing = {command: unnamed_options(generated["command_line"], command) for command in COMMANDS}
    assert missing == {command: set() for command in COMMANDS}


def test_every_task_has_one_place_with_its_version(generated):
    pages = "".join(generated.values())
    for name, spec in load_catalog().tasks.items():
        cells = row(pages, f"task-{name.replace('_', '-')}")
        assert cells[0] == name
        assert spec.group or cells[5] == str(spec.version)


def test_every_probe_loader_and_model_is_named(generated):
    for kind, pages in (("probes", "tasks_"), ("data", "data_sets"), ("models", "models")):
        text = "".join(text_of(generated[page]) for page in generated if page.startswith(pages))
        names = {one["name"].rpartition(":")[2] for one in list_things(kind, [])}
        assert {name for name in names if not re.search(rf"(?<!\w){name}(?!\w)", text)} == set()


def test_every_capability_is_named_with_its_methods_and_who_has_it(generated):
    for one in capabilities.capabilities_in(capabilities):
        own = section(generated["capabilities"], one.__name__.lower())
        assert all(method in own for method in capabilities.methods(one))
    assert "tiny-uniter" in section(generated["capabilities"], "jointattender")


def test_a_data_set_has_its_size_licence_access_and_place(generated):
    page = text_of(generated["data_sets"])
    known = data_sets()
    assert len(known) > 10
    for one in known.values():
        assert all(
            text in page for text in (one.name, f"{one.gigabytes:g}", one.licence, one.access)
        )
    assert "Where to get them: vision.caltech.edu/datasets/cub_200_2011" in page


def metrics_of(file):
    return {
        score["metric"] for row in json.loads(file.read_bytes())["rows"] for score in row["scores"]
    }


def test_every_metric_of_a_board_or_a_task_is_named(generated):
    names = set().union(*map(metrics_of, BOARDS))
    names |= {spec.primary["metric"] for spec in load_catalog().tasks.values() if not spec.group}
    assert len(names) > 50
    assert {text_of(one) for one in re.findall(r"<h2>(.*?)<a", generated["metrics"])} == names


def test_a_metric_has_the_unit_range_and_direction_of_its_rows(generated):
    assert "fraction, 0 to 1, lower is better" in section(
        generated["metrics"], "increase-rate-tied"
    )
    assert "fraction, 0 to 1, higher is better" in section(generated["metrics"], "prefers-original")


def test_chance_and_floors_are_those_of_the_board(generated):
    scores = [
        score
        for one in json.loads((ROOT / "leaderboards" / "few_shot_scenes.json").read_bytes())["rows"]
        for score in one["scores"]
        if score["metric"] == "accuracy" and score["at"] == {"categories": "held_out", "shots": 5}
    ]
    cells = row(generated["tasks_generalization"], "task-few-shot-scenes")
    assert {f"{100 * score['chance']:.1f} %" for score in scores} == {cells[3]}
    floors = {name for score in scores for name in score["floors"]}
    assert len(floors) > 1
    assert all(name in cells[4] for name in floors)
    assert f"{100 * scores[0]['floors']['colour_name']:.1f} %" in cells[4]


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_chance_and_floors_of_a_probe_are_those_of_its_rows(file, scripts):
    spec = load_catalog().tasks[file.stem]
    chance, floors = scripts("chances").levels(spec)
    scores = [row.primary_score for row in read_board(file).results if row.primary_score]
    assert {name for score in scores for name in score.floors} <= set(floors.split(", "))
    if "row of a run" not in chance:
        assert [s.chance for s in scores] == pytest.approx([float(Fraction(chance))] * len(scores))


def test_every_task_has_chance_or_says_where_it_is(generated):
    pages = "".join(generated.values())
    for name in [name for name, spec in load_catalog().tasks.items() if not spec.group]:
        chance = row(pages, f"task-{name.replace('_', '-')}")[3]
        assert re.search(r"\d|by the row of a run|floors", chance), name


def test_the_gallery_shows_every_figure_that_a_task_names(site):
    page = (site / "gallery.html").read_text("utf-8")
    names = {one for spec in load_catalog().tasks.values() for one in spec.figures}
    shown = {name.rpartition(":")[2] for name in names}
    assert len(shown) > 6
    for name in shown:
        part = page.partition(f'<section id="{name.replace("_", "-")}">')[2].partition("</section>")
        assert re.search(r'<img alt="[^"]+" src="_images/', part[0]), name


def test_the_gallery_has_the_commands_of_its_pictures_and_each_is_a_command(scripts):
    page = (ROOT / "docs" / "gallery.md").read_text("utf-8")
    commands = {" ".join(one.split()) for one in re.findall(r"`(vlbench [^`]+)`", page)}
    gallery = scripts("gallery")
    assert {*gallery.BOARD_COMMANDS, *gallery.RUN_COMMANDS} <= commands
    for one in commands:
        assert parser_of().parse_args(normalise_argv(shlex.split(one)[1:])).answer
    assert {file.name for file in gallery.RUNS.iterdir()} == {*gallery.RUN_PICTURES}
    assert sum(file.stat().st_size for file in gallery.RUNS.iterdir()) < 400_000


def variables():
    """Return the variables of the environment that the source names, from its constants."""
    texts = [file.read_text("utf-8") for file in SOURCES]
    nodes = [node for text in texts if "environ" in text for node in ast.walk(ast.parse(text))]
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    names = [one.removeprefix("$") for one in values if isinstance(one, str)]
    return {one for one in names if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", one)}


def test_every_variable_of_the_environment_is_named_and_no_other(site, generated):
    page = text_of((site / "environment.html").read_text("utf-8").partition("<article")[2])
    said = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", page + ENVIRONMENT))
    assert variables() == said
    assert ENVIRONMENT.strip() in text_of(generated["command_line"])


def test_every_promised_name_is_on_the_page_of_the_api(generated):
    page = text_of(generated["plugin_api"])
    promised = (ROOT / "docs" / "plugins.md").read_text("utf-8").partition("## Used by")[0]
    names = set(re.findall(r"\bvlbench[\w.]*:(\w+)", promised))
    assert len(names) > 50
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()


def test_every_link_within_the_site_leads_somewhere(site):
    pages = {file: file.read_text("utf-8") for file in site.rglob("*.html")}
    anchors = {file: set(re.findall(r'id="([^"]+)"', text)) for file, text in pages.items()}
    assert len(pages) > 30
    for file, text in pages.items():
        for link in set(re.findall(r'href="([^":?]+)"', text)):
            name, _, anchor = link.partition("#")
            target = (file.parent / name).resolve() if name else file
            assert target.exists(), (file.name, link)
            assert not anchor or target not in anchors or anchor in anchors[target], link


def test_every_shipped_task_fits_the_schema_of_tasks(schemas):
    check = schemas["task"].iter_errors
    wrong = [
        (file.stem, error.message) for file in TASKS for error in check(load_yaml(file).values)
    ]
    assert (len(TASKS) > 60, wrong) == (True, [])


def test_every_shipped_board_fits_the_schema_of_boards(schemas):
    check = schemas["board"].is_valid
    assert [file.stem for file in BOARDS if not check(json.loads(file.read_bytes()))] == []


REFUSED_TASKS = [
    {"papr": "x"},
    {"version": "one"},
    {"primary": {}},
    {"params": {"shot": [1]}},
    {"params": {"shots": "many"}},
    {"params": {"shots": [1], "trials": 0}},
    {"data": {"loader": "vlbench.data.scenes:objects", "sed": 0}},
]


@pytest.mark.parametrize("change", REFUSED_TASKS)
def test_the_schema_of_tasks_refuses_what_vlbench_does(schemas, change):
    task = load_yaml(ROOT / "tasks" / "generalization" / "caption_similarity_scenes.yaml").values
    assert schemas["task"].is_valid({**task, "x-mine": 1})
    assert not schemas["task"].is_valid(task | change)


@pytest.mark.parametrize("key", ["primary", "rows", "schema"])
def test_the_schema_of_boards_wants_every_key(schemas, key):
    board = json.loads(BOARDS[0].read_bytes())
    assert not schemas["board"].is_valid({name: board[name] for name in board if name != key})
    assert not schemas["board"].is_valid(board | {"rows": [{"scores": 1}]})


@pytest.fixture
def scripts(monkeypatch):
    """Return a function that imports a module of scripts/."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module


@pytest.fixture
def site_pages(scripts):
    return scripts("site_pages")


LINKS = [
    ("[a](docs/running.md#x)", "[a](running.md#x)"),
    ("[a](CONTRIBUTING.md)", "[a](contributing.md)"),
    ("[a](scripts/publish)", "a"),
    ("[a](LICENSE)", "[a](../LICENSE)"),
    ("[a](absent.md)", "[a](absent.md)"),
]


@pytest.mark.parametrize(("link", "on_site"), LINKS)
def test_a_link_of_an_included_file_leads_to_the_site(site_pages, link, on_site):
    content = [link]
    site_pages.follow(ROOT / "docs" / ".." / "README.md", content)
    assert content == [on_site]


def test_a_page_that_is_no_longer_made_is_removed(site_pages, tmp_path, monkeypatch):
    monkeypatch.setattr(site_pages.catalogue, "pages", lambda _: {"tasks": "# Tasks"})
    monkeypatch.setattr(site_pages.reference, "pages", dict)
    monkeypatch.setattr(site_pages, "task_schema", lambda _: {})
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "old.md").write_text("# Old")
    site_pages.write_pages(SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "site"))
    assert [file.name for file in (tmp_path / "generated").iterdir()] == ["tasks.md"]
    assert {file.name for file in (tmp_path / "site").iterdir()} == {
        "task.schema.json",
        "board.schema.json",
    }


def test_the_arguments_of_adapters_have_their_meanings(generated):
    page = text_of(generated["models"])
    assert "threshold float = 0.7 least confidence of a detected region" in " ".join(page.split())
    assert all(one in page for one in ("openai_server:OpenAiServer", "recorded:Recorded"))


def test_the_example_of_a_docstring_is_a_block_of_code(scripts):
    docstring = "Return [N].\n\nExample:\n    >>> areas([a])\n    [6.0]\n"
    page = "Return \\[N\\].\n\n```pycon\n>>> areas([a])\n[6.0]\n```"
    assert scripts("catalogue").prose(docstring) == page
    assert scripts("catalogue").prose("Return [N].") == "Return \\[N\\]."
