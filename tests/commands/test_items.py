import json
import re
import shutil
from base64 import b64decode
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from planted_boards import result, score
from sources import make_images, make_source

from vlbench.boards.items import Card, Item, best_first, joined, unweighted
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import shipped_boards
from vlbench.cli import main
from vlbench.commands.items import _prediction
from vlbench.data.image_folder import image_folder
from vlbench.data.records import Data, Split, examples_of_items, value_column
from vlbench.errors import UnknownNameError
from vlbench.run.item_images import cards_of, images_of, questions_of
from vlbench.run.options import Options

RUN = ["--model", "mean-colour,blind", "--tasks", "few_shot_colours"]


@pytest.fixture(scope="module")
def boards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("items")
    source = make_source(folder / "ours")
    with (source / "model_adapters" / "models.yaml").open("a") as lines:
        lines.write('blind: {adapter: "colours:MeanColour", params: {weights: "0"}}\n')
    where = ["--include-path", str(source), "--output", str(folder / "boards"), "--no-cache"]
    assert main([*RUN, *where]) == 0
    return source, folder / "boards"


def items(boards, *words):
    source, output = boards
    where = ["--output", str(output), "--include-path", str(source)]
    return main(["items", "few_shot_colours", *words, *where])


def test_of_a_mean_over_categories_the_plain_items_are_shown():
    scores = [score(0.5, metric="text_accuracy"), score(0.4, metric="text_accuracy_macro")]
    row = replace(result("m", *scores), primary={"metric": "text_accuracy_macro"})
    assert unweighted(row) == "text_accuracy"
    assert unweighted(replace(row, scores=scores[1:])) == "text_accuracy_macro"


def test_the_items_of_the_primary_score_are_listed(boards, capsys):
    assert items(boards, "mean-colour") == 0
    printed = capsys.readouterr().out
    assert "mean-colour on few_shot_colours: accuracy (shots 1), 0 of 9 items wrong" in printed
    assert "test/red/" in printed


def test_items_are_printed_as_json(boards, capsys):
    assert items(boards, "mean-colour", "--json", "--at", "shots=1") == 0
    (first, *_) = json.loads(capsys.readouterr().out)
    assert (first["credit"], first["prediction"]) == (1.0, first["target"])


def test_where_nothing_is_wrong_nothing_is_shown(boards, capsys):
    assert items(boards, "mean-colour", "--wrong", "--show") == 0
    assert "there is nothing to show" in capsys.readouterr().out


def viewer(file):
    """Return the data of a viewer, and the addresses of its images."""
    text = Path(file).read_text("utf-8")
    (data,) = re.findall(r'id="data">(.*)</script>', text)
    return json.loads(data), re.findall(r'id="image-\d+">(.*)</script>', text)


def test_a_viewer_has_all_items_and_the_images_of_each(boards, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert items(boards, "mean-colour", "--show") == 0
    assert "wrote few_shot_colours-mean-colour.html: 9 items, 0.0 MB" in capsys.readouterr().out
    data, images = viewer("few_shot_colours-mean-colour.html")
    assert (data["models"], data["lower"], len(images)) == (["mean-colour"], False, 9)
    shown = {
        one["target"]: images[one["images"][0]["place"]].partition(",") for one in data["examples"]
    }
    assert {kind for kind, _, _ in shown.values()} == {"data:image/png;base64"}
    pixels = {
        target: Image.open(BytesIO(b64decode(content))).getpixel((0, 0))
        for target, (_, _, content) in shown.items()
    }
    assert {target: max(range(3), key=pixels[target].__getitem__) for target in pixels} == {
        "red": 0, "green": 1, "blue": 2,
    }  # fmt: skip
    (answer,) = data["examples"][0]["answers"]
    assert answer == {
        "prediction": data["examples"][0]["target"], "said": 2, "trials": 2, "credit": 1.0,
        "replies": [],
    }  # fmt: skip


# Answers the question about a red image with a letter, at the end, and the other in no such way.
TALKS = """
import numpy as np

class Talks:
    def __init__(self, *, device):
        self.device = device

    def answer(self, pictures, questions):
        return [self._say(p.image, q) for p, q in zip(pictures, questions)]

    def _say(self, image, question):
        letter = next(line[0] for line in question.split(chr(10)) if line[3:] == "red")
        return f"Not sure. {letter}" if np.asarray(image)[0, 0, 0] > 100 else "I can't tell"
"""


@pytest.fixture
def talked(tmp_path, monkeypatch):
    """Run a model on questions of one's own; return the words that name it and its questions."""
    monkeypatch.chdir(tmp_path)
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 200))):
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    rows = ["red.png,which ?,red,blue,A", "blue.png,what now ?,red,blue,blue"]
    (tmp_path / "mine.csv").write_text("\n".join(["image,question,A,B,answer", *rows]))
    (tmp_path / "talks.py").write_text(TALKS)
    own = ["--questions", "mine.csv", "--trust"]
    assert main(["-m", "talks.py:Talks", *own, "--no-cache"]) == 0
    return own


def test_what_was_said_and_why_it_is_unread_is_kept_and_shown(talked, capsys):
    capsys.readouterr()
    assert main(["items", "questions_table", "Talks"]) == 0
    assert "I can't tell (no option)" in capsys.readouterr().out
    assert main(["items", "questions_table", "Talks", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["replies"][1] == {
        "reply": "Not sure. B", "unread": "", "options": ["blue", "red"],
    }  # fmt: skip
    assert [one["unread"] for one in second["replies"]] == ["no option"] * 2
    assert main(["items", "questions_table", "Talks", "--show", *talked]) == 0
    data, _ = viewer("questions_table-Talks.html")
    assert data["examples"][1]["text"] == "what now ?"
    assert data["examples"][1]["answers"][0]["replies"][0]["reply"] == "I can't tell"


def test_the_page_shows_what_was_asked_and_said(talked):
    assert main(["leaderboard", "page", "out", "--images", *talked]) == 0
    (strip,) = re.findall(
        '<figure class="strip">(.*?)</figure>', Path("out/index.html").read_text(), re.DOTALL
    )
    texts = re.sub("<[^>]*>", "|", strip)
    assert [text for text in texts.split("|") if text.strip()] == [
        "Items that models get wrong most often",
        "what now ?",
        "right: blue",
        "Talks: ",
        "I can&#39;t tell",
    ]


def test_the_replies_of_a_row_are_a_recording_that_scores_as_the_model_did(talked):
    (kept,) = Path("results").rglob("answers.parquet")
    # The counts of replies, which a figure draws, are another table.
    assert kept.with_name("replies.parquet").is_file()
    words = ["-m", f"recorded:{kept}", "--name", "again", *talked]
    assert main([*words, "--output", "again"]) == 0
    rows = [Path(folder, "questions_table.json").read_text() for folder in ("results", "again")]
    first, again = (
        {(s["metric"], str(s["at"])): s["value"] for s in json.loads(text)["rows"][0]["scores"]}
        for text in rows
    )
    assert {key: first[key] for key in again} == again
    assert ("accuracy_last_label", "{}") in again


def test_a_row_on_questions_of_ones_own_is_computed_again_by_the_same_flag(talked, capsys):
    words = ["rerun", "questions_table", "Talks", "--as-model", "talks.py:Talks", *talked]
    assert main([*words, "--no-cache"]) == 0
    assert "scores are equal" in capsys.readouterr().out


def test_other_data_have_none_of_the_images(boards, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path / "others", 1)
    elsewhere = ["--data-dir", f"few_shot_colours={tmp_path / 'others'}"]
    assert items(boards, "blind", "--show", *elsewhere) == 2
    assert "6 of 9 items are not among the images of the data here" in capsys.readouterr().err


def test_conditions_that_are_not_there_are_named_with_what_is(boards, capsys):
    assert items(boards, "mean-colour", "--at", "shots=3") == 2
    assert "accuracy has no such conditions; give one of shots=1" in capsys.readouterr().err


def found_images(source, *digests, task="few_shot_colours"):
    return images_of(load_catalog([source]), task, digests, Options(include_path=[source]))


def test_images_are_found_by_their_content(tmp_path):
    source = make_source(tmp_path)
    test = image_folder(root=tmp_path / "images").splits["test"]["image"]
    digest = test.examples().digests[4]
    found = found_images(source, digest, digest)
    assert found == {digest: test[4]}
    assert isinstance(found[digest], Image.Image)


def test_the_second_image_of_twins_is_found_by_its_content(tmp_path, monkeypatch):
    source = make_source(tmp_path)
    test = image_folder(root=tmp_path / "images").splits["test"]["image"]
    twins = Split({"image": test.select([0, 1]), "image_2": test.select([2, 3])})
    load = SimpleNamespace(loader=lambda: Data(splits={"test": twins}), loader_arguments={})
    monkeypatch.setattr("vlbench.run.task.resolve_task", lambda *_: load)
    digest = test.examples().digests[3]
    assert found_images(source, digest) == {digest: test[3]}


def test_a_question_is_found_by_the_id_of_its_item_and_its_image(tmp_path):
    make_source(tmp_path)
    images = image_folder(root=tmp_path / "images").splits["test"]["image"].select([0, 0, 1])
    rows = Split({"image": images, "question": value_column(["Is it red?", "Why?", "How?"])})
    items = examples_of_items(rows, "question", [()] * 3)
    found = questions_of(Data(splits={"test": rows, "train": Split({"image": images})}))
    assert found[items.ids[1], items.images[1]] == "Why?"
    assert len(found) == 3


def test_a_card_of_twins_has_both_images_and_both_captions(tmp_path):
    make_source(tmp_path)
    images = image_folder(root=tmp_path / "images").splits["test"]["image"]
    columns = {"image": images.select([0, 1]), "image_2": images.select([2, 3])}
    columns |= {"caption": value_column(["a", "b"], "text"), "caption_2": value_column(["c", "d"])}
    digests, names = images.examples().digests, images.examples().ids
    data = Data(splits={"test": Split(columns)})
    twins, sides = (cards_of(data, metric) for metric in ("group_score", "image_accuracy"))
    first = f"{names[0]}/0"
    assert (len(twins), len(sides), cards_of(data, "text_accuracy")) == (2, 4, {})
    assert twins[first] == Card("", [(digests[0], "a"), (digests[2], "c")])
    assert sides[f"{first}/2"] == Card("c", [(digests[0], names[0]), (digests[2], names[2])])
    del columns["caption_2"]
    alone = cards_of(Data(splits={"test": Split(columns)}), "image_accuracy")
    assert alone[first] == Card("a", [(digests[0], names[0]), (digests[2], names[2])])


def test_the_viewer_of_twins_shows_each_image_above_its_caption(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = ["--output", str(tmp_path / "boards")]
    assert main(["--model", "tiny-clip", "--tasks", "twins_scenes", *output, "--no-cache"]) == 0
    assert main(["items", "twins_scenes", "tiny-clip", "--show", *output]) == 0
    data, images = viewer("twins_scenes-tiny-clip.html")
    first, second = data["examples"][0]["images"]
    assert images[first["place"]] != images[second["place"]]
    assert first["text"] == "the picture shows a purple apple and a yellow taxi ."
    assert second["text"] == "the picture shows a purple pine and a yellow taxi ."


def test_a_task_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="few_shot_colors"):
        found_images(make_source(tmp_path), task="few_shot_colors")


def test_a_row_that_the_output_lacks_is_one_of_the_shipped_boards(tmp_path, capsys):
    assert main(["items", "few_shot_scenes", "tiny-rn", "--output", str(tmp_path), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)
    assert printed.err == "tiny-rn: from the boards shipped with vlbench\n"


def test_a_shipped_row_of_numbers_says_what_they_are(tmp_path, capsys):
    words = ["items", "sugar_crepe", "gpt-4v", "--wrong", "--output", str(tmp_path)]
    assert main(words) == 0
    assert "its predictions are numbers of options, 1 for the right text" in capsys.readouterr().err


def test_an_item_without_a_prediction_has_no_single_answer():
    tied = Item("a", "d", 0.5, "", "cat", 0, 1)
    assert [_prediction(tied), _prediction(tied._replace(target=""))] == ["no single answer", ""]


def test_a_run_tells_of_boards_that_are_no_longer_read(boards, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = ["--include-path", str(boards[0]), "--no-cache"]
    assert main([*RUN, *where]) == 0
    assert "now read" not in capsys.readouterr().err
    shutil.copytree("results", "leaderboards")
    shutil.copytree(shipped_boards(), "leaderboards", dirs_exist_ok=True)
    assert main([*RUN, *where]) == 0
    told = "now read ./results; pass --output leaderboards for the rows of blind, mean-colour\n"
    assert told in capsys.readouterr().err
    assert main([*RUN, *where, "--output", "other"]) == 0
    assert "now read" not in capsys.readouterr().err


def test_items_that_one_model_gets_right_and_another_wrong(boards, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert items(boards, "mean-colour", "--against", "blind") == 0
    title, head, *_ = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert title.endswith("accuracy (shots 1): better than blind at 9 of 9 items")
    assert head.split() == ["item", "credit", "other's", "mean-colour", "blind", "target"]
    assert items(boards, "blind", "--against", "mean-colour") == 0
    assert "better than mean-colour at 0 of 9 items" in capsys.readouterr().out
    assert items(boards, "mean-colour", "--against", "blind", "--wrong") == 0
    assert "than blind at 0 of 0 items without full credit" in capsys.readouterr().out
    assert items(boards, "mean-colour", "--against", "blind", "--json") == 0
    (first, *_) = json.loads(capsys.readouterr().out)
    assert (first["mean-colour"]["credit"], first["blind"]["prediction"]) == (1.0, "")
    assert items(boards, "blind", "--against", "mean-colour", "--show") == 0
    data, _ = viewer("few_shot_colours-blind-against-mean-colour.html")
    assert (data["models"], len(data["examples"])) == (["blind", "mean-colour"], 9)
    own, other = data["examples"][0]["answers"]
    assert own["credit"] < other["credit"] == 1.0


def test_pairs_come_by_their_difference_and_where_lower_is_better_by_its_opposite():
    def item(name, credit, digest="d"):
        return Item(name, digest, credit, "", "", 0, 1)

    mine = [item("a", 0.5), item("b", 1.0), item("c", 0.0), item("d", 1.0, "other")]
    theirs = [item("c", 1.0), item("b", 0.0), item("a", 0.25), item("d", 0.0)]
    row = result("x")
    pairs = joined(row, row, mine, theirs)
    assert [(a.id, b.credit) for a, b in pairs] == [("a", 0.25), ("b", 0.0), ("c", 1.0)]
    assert [a.id for a, _ in best_first(pairs)] == ["b", "a", "c"]
    assert [a.id for a, _ in best_first(pairs, higher_is_better=False)] == ["c", "a", "b"]


def test_rows_that_are_not_comparable_are_not_set_beside_each_other(boards, capsys, tmp_path):
    source, output = boards
    shutil.copytree(output, tmp_path / "boards")
    file = tmp_path / "boards" / "few_shot_colours.json"
    content = json.loads(file.read_text())
    content["rows"][1]["comparable"] = "other"
    file.write_text(json.dumps(content))
    assert items((source, tmp_path / "boards"), "mean-colour", "--against", "blind") == 2
    assert "not comparable on few_shot_colours: their data" in capsys.readouterr().err
