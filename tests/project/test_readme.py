"""README and the pages of docs/: their commands, links and numbers.

Every command is one. Each night all run, those of a page in the order in which they stand, in a
folder that holds nothing but images and a model of the reader's own.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import transformers
import yaml
from forks import fork_server
from pyarrow.parquet import read_table
from sources import make_images

from vlbench.boards.board import read_board
from vlbench.commands.parser import normalise_argv, parser_of

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in FILES}
BLOCK = re.compile(r"(?:^`([\w/.]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")

# What commands import, and a program that is a command.
SLOW = ["torch", "torchvision", "transformers", "datasets", "accelerate", "pyarrow.parquet"]
SLOW += ["matplotlib.pyplot", "vlbench.bench"]
COMMAND = """
import sys
from vlbench.cli import main
sys.argv = {words}
raise SystemExit(main())
"""


def blocks(page):
    """Return (file, language, text) of each block; a file's name stands above its block."""
    return BLOCK.findall(PAGES[page])


RUN = [page for page in PAGES if blocks(page)]


@pytest.fixture(scope="module", params=RUN)
def page(request):
    """A page with commands."""
    return request.param


@pytest.fixture(scope="module")
def folder(page, tmp_path_factory):
    """The folder in which a reader runs the page."""
    return tmp_path_factory.mktemp(Path(page).stem)


@pytest.fixture(scope="module")
def results(page, folder, scenes_cache, tmp_path_factory):
    """Run the page from top to bottom, as a reader would, and return how each command ended."""
    make_images(folder / "my_images", count=7)  # 42 images: `similarity` needs 40
    make_model(folder / "my-vit")
    make_log(folder / "my_log.jsonl")
    shims = folder / "bin"
    shims.mkdir()
    for name, words in (("vlbench", " -m vlbench"), ("python", "")):
        (shims / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        (shims / name).chmod(0o755)
    path = f"{shims}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XDG_CACHE_HOME": str(scenes_cache)}
    with fork_server(tmp_path_factory.mktemp("streams"), *SLOW) as run:
        return _run_page(page, folder, environment, run)


def make_model(folder):
    """Write a small ViT with random weights, as transformers saves it."""
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
    )
    transformers.ViTModel(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)


def make_log(file):
    """Write a log of 40 questions with four options, as lm-eval's --log_samples does."""
    lines = []
    for i in range(40):
        doc = {"question": f"What is in image {i}?", "options": ["cat", "dog", "cup", "bus"]}
        answer = "ABCD"[i % 4]
        lines.append(
            {
                "doc_id": i,
                "doc": doc | {"answer": answer},
                "target": answer,
                "filter": "none",
                "filtered_resps": ["A" if i % 3 else answer],
            }
        )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _run_page(page, folder, environment, run):
    ended = {}
    for file, language, text in blocks(page):
        if file:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        elif language == "python":
            ended[text] = _run([sys.executable, "-c", text], folder, environment)
        elif language == "bash":
            for line in [line for line in text.splitlines() if not line.startswith("make")]:
                plain = line.startswith("vlbench ") and not set(line) & set("|>&$")
                ended[line] = (
                    run(COMMAND.format(words=shlex.split(line)), folder, environment)
                    if plain
                    else _run(["sh", "-c", line], folder, environment)
                )
    return ended


def _run(command, folder, environment):
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def commands(page):
    """Return the words of each vlbench command of a page."""
    texts = [text for _, language, text in blocks(page) if language == "bash"]
    lines = [shlex.split(line, comments=True) for text in texts for line in text.splitlines()]
    return [words[1:] for words in lines if words and words[0] == "vlbench"]


def test_every_command_of_a_page_is_one(page):
    assert commands(page)
    for words in commands(page):
        assert parser_of().parse_args(normalise_argv(words)).answer


def test_python_and_yaml_of_a_page_can_be_read(page):
    for _, language, text in blocks(page):
        assert language in {"bash", "python", "yaml"}
        if language == "python":
            ast.parse(text)
        elif language == "yaml":
            assert yaml.safe_load(text)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_every_command_of_a_page_ends_well(results):
    assert {line: done.stderr for line, done in results.items() if done.returncode} == {}
    printed = [done.stdout for line, done in results.items() if "vlbench.evaluate(" in line]
    assert all("<few_shot_scenes by raw-pixels, ok: accuracy" in text for text in printed)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("results")
def test_a_page_adds_no_row_to_the_boards_of_a_clone(folder):
    assert not (folder / "leaderboards").exists()
    assert (folder / "results").exists()


def test_python_and_a_model_of_ones_own_are_among_the_blocks():
    found = [block for page in RUN for block in blocks(page)]
    (model,) = [text for file, _, text in found if file.endswith("colours.py")]
    assert len(model.splitlines()) < 40
    assert [text for _, language, text in found if language == "python" and "evaluate" in text]


def test_the_code_of_the_index_prints_what_the_page_shows():
    ((code, printed),) = re.findall(
        r"```python\n(.*?)```.*?```\n(.*?)```", PAGES["docs/index.md"], re.DOTALL
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == printed


def test_the_readme_has_at_most_850_words():
    assert len(PAGES["README.md"].split()) <= 850


def anchors(text):
    """Return the anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


LINKED = [*FILES, *sorted((ROOT / "docs").glob("tutorials/*.md")), ROOT / "CONTRIBUTING.md"]


def leads_somewhere(file, link):
    name, _, anchor = link.partition("#")
    target = file.parent / name if name else file
    return target.exists() and (not anchor or anchor in anchors(target.read_text("utf-8")))


def test_every_link_between_pages_leads_somewhere():
    links = [(file, link) for file in LINKED for link in LINK.findall(file.read_text("utf-8"))]
    # A page that is made at build is looked for when the site is built.
    inner = [(f, link) for f, link in links if "://" not in link and link[:10] != "generated/"]
    assert len(inner) > 50
    assert [(file.name, link) for file, link in inner if not leads_somewhere(file, link)] == []


# The boards whose primary scores are the columns of the table of example rows, and of real ones.
EXAMPLES = ("few_shot", "transfer", "noun_replacement", "entity_grounding")
REAL = ("few_shot_fashion_mnist", "clustering_fashion_mnist", "transfer_fashion_mnist_10000")


def shown_rows(heading):
    """Return the cells with a percentage below a heading, by the first cell of their row."""
    text = PAGES["docs/experiments.md"].partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.*?) \| (.*%.*) \|$", text, re.MULTILINE)
    return {model: cells.split(" | ") for model, cells in lines}


def test_the_rows_of_published_models_are_those_of_the_boards():
    shown = shown_rows("Rows of published models")
    assert len(shown) == 4
    for i, task in enumerate(REAL):
        scores = {name: one["value"] for name, one in primary_scores(task).items()}
        random = sorted(value for name, value in scores.items() if "-random-" in name)
        for label, cells in shown.items():
            own = random if "random" in label else [scores[label.split("`")[1]]]
            assert cells[i] == (" to ".join(map(percent, dict.fromkeys(own[:1] + own[-1:]))) or "-")


def test_both_rules_of_few_shot_classification_are_those_of_the_board():
    text = PAGES["docs/experiments.md"].partition("\n`accuracy_euclidean` on the same board")[2]
    shown = dict(re.findall(r"`(\S+)` ([\d.]+ %)", text.partition("\n\n")[0].replace("\n", " ")))
    rule = {"metric": "accuracy_euclidean", "at": {"shots": 5}}
    scores = scores_of("few_shot_fashion_mnist", rule)
    assert len(shown) == 3
    assert shown == {model: percent(scores[model]["value"]) for model in shown}


def test_the_example_rows_are_those_of_the_boards():
    shown = {model.strip("`"): cells for model, cells in shown_rows("A few example rows").items()}
    assert len(shown) == 5
    for i, name in enumerate(EXAMPLES):
        scores = primary_scores(f"{name}_scenes")
        for model in shown.keys() - {"hardest floor"}:
            assert shown[model][i] == (percent(scores[model]["value"]) if model in scores else "-")
        floors = [value for score in scores.values() for value in score["floors"].values()]
        hardest = percent(max(floors)) if floors else "0"
        assert shown["hardest floor"][i].partition(",")[0] == hardest


def primary_scores(task):
    """Return the primary score of each model of a shipped board."""
    return scores_of(task, json.loads(board_of(task))["primary"])


def board_of(task):
    return (ROOT / "leaderboards" / f"{task}.json").read_text("utf-8")


def scores_of(task, primary):
    """Return one score of each model of a shipped board."""
    board, wanted = json.loads(board_of(task)), (primary["metric"], primary.get("at", {}))
    scores = [(row["model"], score) for row in board["rows"] for score in row["scores"]]
    return {model: score for model, score in scores if (score["metric"], score["at"]) == wanted}


def percent(value):
    return f"{100 * value:.1f} %"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_make_demo_writes_boards_and_never_into_leaderboards(scenes_cache):
    if not (ROOT / ".venv" / "installed").exists():
        pytest.skip("make demo would install first: this is not the environment of make test")
    before = sorted((ROOT / "leaderboards").glob("*")) if (ROOT / "leaderboards").exists() else []
    # Two of the demo's five models: what each scores is asked where its boards are tested.
    models = "DEMO=raw-pixels,tiny-uniter"
    command = ["make", "demo", models, f"DEMO_CACHE={scenes_cache / 'vlbench'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "few_shot_scenes" in done.stdout
    assert (ROOT / "build" / "demo" / "few_shot_scenes.json").exists()
    after = sorted((ROOT / "leaderboards").glob("*")) if (ROOT / "leaderboards").exists() else []
    assert before == after


def test_the_table_of_the_board_is_that_of_the_board():
    file = ROOT / "leaderboards" / "sugar_crepe.json"
    (row,) = read_board(file).results
    scores = {(s.metric, s.at.get("category"), s.at.get("right_option")): s for s in row.scores}
    table = {
        one["category"]: one
        for one in read_table(file.parent / row.artifacts["orders"]["file"]).to_pylist()
    }
    lines = []
    for name in sorted(table)[1:]:
        mean = scores["text_accuracy", name, None]
        first, second = (scores["text_accuracy", name, place] for place in (1, 2))
        effect = scores["text_accuracy_order_effect", name, None]
        low, high = (f"{100 * end:+.1f}" for end in effect.ci95)
        of_orders = table[name]
        p = of_orders["p"]
        told = f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"
        unread = f"{of_orders['unread_first']} / {of_orders['unread_second']}"
        of_read = f"{100 * of_orders['effect_of_read']:+.1f} of {of_orders['read_in_both']:,}"
        both = scores["text_accuracy_in_all_orders", name, None]
        floor = max(mean.floors.values())
        accuracies = f"{100 * first.value:.1f} % | {100 * second.value:.1f} %"
        order = f"{100 * effect.value:+.1f} ({low} to {high}), {told}"
        rest = f"{100 * both.value:.1f} % | {100 * floor:.1f} %"
        lines.append(
            f"| {name} | {mean.n:,} | {accuracies} | {order} | {unread} | {of_read} | {rest} |"
        )
    assert [line for line in PAGES["docs/recorded.md"].splitlines() if line in lines] == lines


def test_the_table_of_blink_is_that_of_its_board():
    lines = {}
    for row in read_board(ROOT / "leaderboards" / "blink.json").results:
        scores = {s.metric: s for s in row.scores if not s.at}
        mean = scores["accuracy_recorded_reading_macro"]
        gain = scores["accuracy_recorded_reading_macro_gain_over_response_bias"]
        low, high = (f"{100 * end:.1f}" for end in gain.ci95)
        above = scores["categories_above_response_bias"].value
        values = f"{100 * mean.value:.1f} | {100 * mean.floors['response_bias']:.1f}"
        told = f"| {values} | {100 * gain.value:.1f} ({low} to {high}) | {above} |"
        lines[told] = row.model
    table = [one for one in PAGES["README.md"].splitlines() if re.search(r"\| \d+ \|$", one)]
    assert len(table) == 7
    assert all(f"|{one.split('|', 2)[2]}" in lines for one in table)
