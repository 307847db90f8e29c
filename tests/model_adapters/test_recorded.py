"""Recorded answers: SugarCrepe's published ones, tables, and logs of other harnesses."""

import csv
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foil_fakes import foil_rows, presence
from foil_files import put_images, put_json
from PIL import Image

import vlbench
from model_adapters.recorded import Recorded
from vlbench.capabilities import Asked, Reply
from vlbench.cli import main
from vlbench.data.sugar_crepe import COUNTS
from vlbench.engine import Engine
from vlbench.errors import DataError, SpecError
from vlbench.metrics.parsing import read_reply
from vlbench.probes.matching.choice import choice
from vlbench.probes.matching.questions import questions
from vlbench.results import REPLY_COLUMNS

REAL = Path(os.environ.get("VLBENCH_DATA", "absent"), "sugar_crepe")

# From the readme beside the answers: right of so many, with the caption first and second.
PUBLISHED = {
    "add_att": (604, 666, 692),
    "add_obj": (1859, 1918, 2062),
    "replace_att": (734, 740, 788),
    "replace_obj": (1578, 1604, 1652),
    "replace_rel": (1240, 1298, 1406),
    "swap_att": (607, 593, 666),
    "swap_obj": (211, 198, 246),
}
FOLDERS = {"positive-first": (0, 1), "negative-first": (1, 0)}


@pytest.fixture(scope="module")
def real():
    if not REAL.is_dir():
        pytest.skip("SugarCrepe's records are not there (VLBENCH_DATA/sugar_crepe)")
    return REAL


def answered(root, category, folder):
    content = json.loads((root / "gpt-4v-results" / folder / f"gpt4v-{category}.json").read_text())
    return [one for one in content.values() if isinstance(one, dict)]


def test_the_published_counts_come_from_the_answers_as_published(real):
    model = Recorded(path=real / "gpt-4v-results")
    entries = [
        (category, one) for category in PUBLISHED
        for one in answered(real, category, "positive-first")
    ]  # fmt: skip
    items = [Asked(o["filename"], (o["caption"], o["negative_caption"])) for _, o in entries]
    found, right = model.replies(items), Counter()
    for (category, _), own in zip(entries, found, strict=True):
        for reply in own:
            # The caption is option 0: right is the number at whose place it stands.
            number = f"({reply.order.index(0) + 1})"
            other = f"({reply.order.index(1) + 1})"
            right[category, reply.order] += number in reply.said and other not in reply.said
    told = {c: tuple(right[c, order] for order in FOLDERS.values()) for c in PUBLISHED}
    assert told == {category: counts[:2] for category, counts in PUBLISHED.items()}
    counted = Counter(category for category, _ in entries)
    assert counted == {category: n for category, (*_, n) in PUBLISHED.items()}
    # Of 15,024 answers the authors read none otherwise; `accuracy` is a key without an answer.
    assert sum(map(len, found)) == 15_024
    assert model.counts == {
        "answers_without_item": 0, "repeated_answers": 0, "read_otherwise": 0,
        "keys_without_answer": 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def scored(real, tmp_path_factory):
    """The row of the published answers on today's records, and the folder of its board."""
    folder = tmp_path_factory.mktemp("boards")
    row = score(f"recorded:{real / 'gpt-4v-results'}", real, folder, name="gpt-4v")
    return row, folder


def score(model, data, output, **options):
    (row,) = vlbench.evaluate(
        model, ["sugar_crepe"], data_dir={"sugar_crepe": data}, output=output, **options
    )
    assert row.status == "ok", row.reason
    return row


def hits(row):
    """Return how many are right by category, with the caption first and second."""
    counts = {}
    for one in row.scores:
        if one.metric == "text_accuracy" and "category" in one.at and "right_option" in one.at:
            counts.setdefault(one.at["category"], []).append(round(one.value * one.n))
    return {category: tuple(own) for category, own in counts.items()}


def test_the_row_on_todays_records_lacks_the_withdrawn_item(scored):
    row, _ = scored
    expected = {category: counts[:2] for category, counts in PUBLISHED.items()}
    assert hits(row) == expected | {"swap_obj": (210, 197)}
    assert row.counts["answers_without_item"] == 2
    assert (row.counts["unanswered"], row.counts["unparsed"], row.is_partial) == (0, 279, False)
    assert row.label == "gpt-4v (recorded)"
    assert row.provenance["weights"].startswith("recorded sha256:")
    assert row.provenance["params"]["recorded_by"] == "unknown"
    assert "recorded by others, scored by vlbench" in row.notes


def test_every_category_has_the_order_effect_with_interval_and_p(scored):
    row, folder = scored
    table = pq.read_table(folder / row.artifacts["orders"]["file"]).to_pylist()
    told = {line["category"]: line for line in table}
    assert {*told} == {"", *PUBLISHED}
    for line in told.values():
        assert line["effect"] == pytest.approx(line["first"] - line["second"])
        assert line["low"] < line["effect"] < line["high"]
        assert (line["p"] < 0.05) == (not line["low"] < 0 < line["high"])


def test_items_have_the_caption_and_not_the_whole_answer(scored, real):
    row, folder = scored
    content = str(pq.read_table(folder / row.artifacts["items"]["file"]).to_pydict())
    first = answered(real, "add_att", "positive-first")[0]
    assert first["caption"] in content
    assert first["answer"]["free_form_answer"] not in content


def test_the_same_replies_in_a_table_are_the_same_row(scored, real, tmp_path):
    file = tmp_path / "answers.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        write = csv.writer(stream)
        write.writerow(["picture", "caption", "foil", "shown", "said"])
        for category in PUBLISHED:
            for folder, order in FOLDERS.items():
                for one in answered(real, category, folder):
                    texts = one["caption"], one["negative_caption"]
                    said = one["answer"]["free_form_answer"]
                    write.writerow([one["filename"], *texts, " ".join(map(str, order)), said])
    arguments = {
        "image": "picture", "texts": ["caption", "foil"], "order": "shown", "answer": "said",
        "labels": "brackets",
    }  # fmt: skip
    row = score(f"recorded:{file}", real, tmp_path, name="gpt-4v", model_args=arguments)
    first, folder = scored
    by_authors = [one for one in first.scores if "recorded_reading" in one.metric]
    assert len(by_authors) == 1
    assert [*row.scores] == [one for one in first.scores if one not in by_authors]
    tables = [
        pq.read_table(root / one.artifacts["items"]["file"])
        for root, one in ((folder, first), (tmp_path, row))
    ]
    by_us = [not name.count("recorded_reading") for name in tables[0]["metric"].to_pylist()]
    assert tables[0].filter(by_us).to_pylist() == tables[1].to_pylist()


CROSSED = {"caption": "A dog sits.", "negative_caption": "A cat sits."}


def small(root):
    """Write SugarCrepe's files of one item each, with the images of two."""
    for i, name in enumerate(COUNTS):
        put_json(root / "data" / f"{name}.json", {"0": {"filename": f"{i % 2}.jpg", **CROSSED}})
    put_images(root / "val2017", "0.jpg", "1.jpg")
    return root


class Dogs:
    """Prefers dogs."""

    def score_pairs(self, pictures, texts):
        import torch

        assert all(isinstance(one.image, Image.Image) for one in pictures)
        return torch.tensor([float("dog" in text) for text in texts])


def test_rows_with_and_without_pixels_are_compared(tmp_path, capsys, monkeypatch):
    root = small(tmp_path / "sugar_crepe")
    monkeypatch.setenv("VLBENCH_DATA", str(tmp_path))
    (tmp_path / "coco").mkdir()
    file = tmp_path / "answers.csv"
    lines = [f"{i},{'A' if i else 'B'}" for i in range(len(COUNTS))]
    file.write_text("\n".join(["row,said", *lines]) + "\n")
    arguments = {"item": "row", "answer": "said"}
    recorded = score(f"recorded:{file}", root, tmp_path / "out", model_args=arguments)
    (root / "val2017").rename(tmp_path / "coco" / "val2017")
    seen = score(Dogs(), root, tmp_path / "out", name="dogs")
    assert recorded.comparable == seen.comparable
    assert recorded.primary_score.value == pytest.approx(6 / 7)
    words = ["leaderboard", "compare", "dogs", recorded.model, "--output", str(tmp_path / "out")]
    assert main(words) == 0
    assert "sugar_crepe" in capsys.readouterr().out


ITEMS = [Asked("1.jpg", ("a dog", "a cat")), Asked("2.jpg", ("a cup", "a hat"))]


def put(tmp_path, text, name="answers.csv"):
    (tmp_path / name).write_text(text, "utf-8")
    return tmp_path / name


def test_a_row_names_its_item_by_place_or_by_image_and_texts(tmp_path):
    place = put(tmp_path, "item,answer\n1,B\n0,A\n")
    assert Recorded(path=place, item="item").replies(ITEMS) == [
        [Reply((0, 1), "A")], [Reply((0, 1), "B")],
    ]  # fmt: skip
    named = put(tmp_path, "image,x,y,order,answer\n2.jpg,a cup,a hat,1 0,A\n")
    for texts in (["x", "y"], "x|y"):
        model = Recorded(path=named, texts=texts, order="order")
        assert model.replies(ITEMS) == [[], [Reply((1, 0), "A")]]


def test_scores_have_one_for_each_option(tmp_path):
    file = put(tmp_path, '{"item": 0, "a": -1.5, "b": -2}\n', "scores.jsonl")
    model = Recorded(path=file, item="item", scores=["a", "b"])
    assert model.replies(ITEMS) == [[Reply((0, 1), [-1.5, -2.0])], []]


def test_logs_of_lm_eval_are_read_by_their_own_names(tmp_path):
    said = [
        {"doc_id": 1, "filtered_resps": ["(B)"], "filter": "none", "target": "A"},
        {"doc_id": 0, "filtered_resps": ["A"], "filter": "none", "target": "A"},
    ]
    replies = [[Reply((0, 1), "A", "a dog")], [Reply((0, 1), "(B)", "a cup")]]
    logs = [
        {"doc_id": 0, "filtered_resps": [["-1.5", "False"], ["-0.5", "True"]], "filter": "none"}
    ]
    texts = put(tmp_path, "\n".join(map(json.dumps, said)), "samples_text.jsonl")
    scores = put(tmp_path, "\n".join(map(json.dumps, logs)), "samples_choice.jsonl")
    assert Recorded(path=texts).replies(ITEMS) == replies
    assert Recorded(path=scores).replies(ITEMS) == [[Reply((0, 1), [-1.5, -0.5])], []]
    both = [*said, {**said[0], "filter": "first"}]
    several = put(tmp_path, "\n".join(map(json.dumps, both)), "samples_both.jsonl")
    with pytest.raises(SpecError, match="has 2 filters: name a log_filter"):
        Recorded(path=several)
    assert Recorded(path=several, log_filter="first").replies(ITEMS)[1] == replies[1]


def test_what_is_repeated_missing_unknown_and_empty_is_counted(tmp_path):
    lines = ["image,x,y,answer", "1.jpg,a dog,a cat,A", "1.jpg,a dog,a cat,B", "9.jpg,x,y,A"]
    file = put(tmp_path, "\n".join([*lines, "2.jpg,a cup,a hat,"]) + "\n")
    model = Recorded(path=file, texts="x|y")
    assert model.replies(ITEMS) == [[Reply((0, 1), "A")], [Reply((0, 1), "")]]
    assert model.counts == {
        "answers_without_item": 1, "repeated_answers": 1, "read_otherwise": 0,
    }  # fmt: skip
    like = "no such item among those asked (such as 1.jpg)"
    assert model.notes == [
        f"1 of 4 not used: {like}, for example 9.jpg",
        ("1 of 4 not used: the item has an answer already, for example 1.jpg"),
    ]


def test_an_index_beyond_the_data_is_refused(tmp_path):
    model = Recorded(path=put(tmp_path, "item,answer\n1,A\n2,B\n"), item="item")
    with pytest.raises(DataError, match="no item 2; the items are 0 to 1, so its order or num"):
        model.replies(ITEMS)


def test_a_row_notes_which_answers_have_no_item_and_which_items_no_answer(tmp_path):
    lines = [f'"({i}, 0)",is it there ?,yes,no,yes' for i in range(1, 5)]
    file = put(tmp_path, "\n".join(["image,q,y,n,answer", *lines]) + "\n")
    model, data = Recorded(path=file, texts="q|y|n", labels="words"), presence(*["yes"] * 4)
    of_texts = put(tmp_path, "image,texts,answer\nx.jpg,y,yes\n", "texts.csv")
    none = Recorded(path=of_texts, texts="texts")
    notes = questions(model, data, Engine.for_tests()).notes
    assert [note for note in notes if note.startswith("answers: ")] == [
        (
            "answers: 1 of 4 not used: no such item among those asked (such as (0, 0)), "
            "for example (4, 0)"
        ),
        "answers: none for 1 of 4 items, for example (0, 0)",
    ]
    with pytest.raises(DataError, match=r"none of the 4 items.*such as \(0, 0\).*x.jpg"):
        questions(none, data, Engine.for_tests())


def test_items_of_a_choice_have_the_named_and_the_right_text(tmp_path):
    file = put(tmp_path, "item,answer\n0,A\n2,B\n4,both\n")
    found = choice(Recorded(path=file, item="item"), foil_rows(), Engine.for_tests())
    items = [one for one in found.items.to_pylist() if one["metric"] == "text_accuracy"]
    rows = foil_rows().splits["test"]
    expected = [rows["caption"][0], rows["foils"][2][0], None]
    assert [one["prediction"] for one in items if one["at"] == "{}"] == expected
    assert [one["target"] for one in items if one["at"] == "{}"] == [
        rows["caption"][i] for i in (0, 2, 4)
    ]


def test_an_enormous_answer_is_cut_and_a_hostile_one_is_a_text(tmp_path):
    hostile = "</script><script>alert(1)</script> =HYPERLINK(1) \u202e"
    lines = [json.dumps({"item": i, "answer": a}) for i, a in enumerate(["A" * 10**7, hostile])]
    found = Recorded(path=put(tmp_path, "\n".join(lines), "a.jsonl"), item="item").replies(ITEMS)
    assert read_reply(found[0][0].said, "AB").why == "too long"
    assert found[1][0].said == hostile


WRONG = {
    "no column": ("a.csv", "item,said\n0,A\n", "no column 'answer'|column.*answer"),
    "no number": ("a.csv", "item,answer\nx,A\n", "row 1"),
    "not JSON": ("a.jsonl", "{", "a.jsonl is not JSON"),
    "no object": ("a.jsonl", "1\n2", "a.jsonl must contain one object"),
    "no text": ("a.jsonl", '{"item": 0, "answer": {"a": 1}}', "row 1"),
}


@pytest.mark.parametrize(("name", "text", "why"), WRONG.values(), ids=[*WRONG])
def test_a_file_that_does_not_fit_is_named(tmp_path, name, text, why):
    with pytest.raises(DataError, match=why):
        Recorded(path=put(tmp_path, text, name), item="item")


def test_what_is_told_of_a_recording_lies_beside_it(tmp_path):
    file = put(tmp_path, "item,answer\n0,A\n")
    assert {*Recorded(path=file, item="item").settled.values()} == {"unknown"}
    put(tmp_path, "recorded_by: a lab\nprompt: 'Which? {}'\n", "answers.csv.yaml")
    told = Recorded(path=file, item="item").settled
    known = told["recorded_by"], told["prompt"], told["source"]
    assert known == ("a lab", "Which? {}", "unknown")
    for text, why in (("who: me\n", "key"), ("prompt: 3\n", "a text for each"), ("[", "not YAML")):
        with pytest.raises(SpecError, match=why):
            Recorded(path=file, item="item", about=put(tmp_path, text, "other.yaml"))


def test_a_folder_without_answers_is_refused(tmp_path):
    with pytest.raises(SpecError, match="contains no file of answers"):
        Recorded(path=tmp_path)


@pytest.mark.parametrize("named", [{"item": "row"}, {"image": "image", "texts": "text|y|n"}])
def test_answers_to_questions_are_looked_up(tmp_path, named):
    said = ["Yes, it is.", "Yes", "I cannot say"]
    lines = [
        json.dumps({"row": i, "image": str((i, 0)), "text": "is it there ?", "y": "yes", "n": "no"}
        | {"answer": one})
        for i, one in enumerate(said)
    ]  # fmt: skip
    file = put(tmp_path, "\n".join(lines), "a.jsonl")
    model = Recorded(path=file, labels="words", **named)
    found = questions(model, presence("yes", "no", "no", "yes"), Engine.for_tests(), positive="yes")
    values = {s.metric: s.value for s in found.scores if not s.at}
    assert values["accuracy"] == pytest.approx(1 / 3)
    assert (found.counts["unparsed"], found.counts["unanswered"]) == (1, 1)


def test_items_that_lack_an_order_are_counted_where_scores_by_order_are_left_out(tmp_path):
    lines = ["row,order,said", *(f"{i},0 1,A\n{i},1 0,A" for i in range(3)), "3,0 1,A"]
    file = put(tmp_path, "\n".join(lines) + "\n")
    model = Recorded(path=file, item="row", order="order", answer="said")
    found = questions(model, presence("yes", "no", "no", "yes"), Engine.for_tests())
    assert not any("order" in s.metric or "right_option" in s.at for s in found.scores)
    assert any("no score by order: for 1 of 4 items, the right" in note for note in found.notes)


def test_numbers_read_as_letters_are_an_error_that_names_the_way_out(tmp_path):
    model = Recorded(path=put(tmp_path, "item,answer\n0,1\n2,2\n"), item="item")
    why = "2 of 2 .*: no option 2 .such as '1'.; the recording was read with .*=letters;"
    for probe, data in ((questions, presence(*["yes"] * 3)), (choice, foil_rows())):
        with pytest.raises(DataError, match=f"no reply names an option: {why}"):
            probe(model, data, Engine.for_tests())


OTHER_OPTIONS = [
    (
        {"row": 0, "answer": "A", "order": "2 0 1"},
        "the order .2, 0, 1. is not an order of 2 options",
    ),
    ({"row": 0, "answer": [["-1", "False"]] * 3, "order": "0 1"}, "3 scores for 2 options"),
]


@pytest.mark.parametrize(("row", "why"), OTHER_OPTIONS)
def test_an_order_or_scores_of_other_options_are_refused(tmp_path, row, why):
    model = Recorded(path=put(tmp_path, json.dumps(row), "a.jsonl"), item="row", order="order")
    with pytest.raises(DataError, match=why):
        questions(model, presence("yes", "no"), Engine.for_tests())


def test_a_table_of_vlmevalkit_answers_the_questions_of_ones_own_data(tmp_path):
    items = [Asked("1.jpg", ("dog", "cat"), "which ?"), Asked("2.jpg", ("cup", "hat"), "what ?")]
    lines = ["index,question,A,B,answer,prediction", "5,what ?,cup,hat,A,B", "6,which ?,cat,dog,B,"]
    model = Recorded(path=put(tmp_path, "\n".join(lines) + "\n"))
    # Its options may be in another order than those of the data.
    assert model.replies(items) == [[Reply((1, 0), "", "dog")], [Reply((0, 1), "B", "cup")]]
    with pytest.raises(DataError, match="the log does not number its items as the data do"):
        model.replies([Asked("1.jpg", ("dog", "cow"), "which ?")])


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_table_that_names_no_items_is_refused_with_what_is_needed(tmp_path, name):
    text = "x,answer\n0,A\n" if name == "a.csv" else '{"x": 0, "answer": "A"}'
    why = "has the columns x, answer; a log needs question, A, B .*; a table of answers needs"
    with pytest.raises(DataError, match=why):
        Recorded(path=put(tmp_path, text, name))


def test_replies_of_a_row_with_labels_of_no_kind_are_refused_by_name(tmp_path):
    line = dict.fromkeys(REPLY_COLUMNS, "0") | {"labels": "__class__"}
    pq.write_table(pa.Table.from_pylist([line]), tmp_path / "answers.parquet")
    with pytest.raises(DataError, match=r"answers\.parquet: labels are '__class__'; letters, "):
        Recorded(path=tmp_path / "answers.parquet")


def test_other_labels_than_a_file_states_are_refused(tmp_path):
    line = dict.fromkeys(REPLY_COLUMNS, "0") | {"labels": "words"}
    pq.write_table(pa.Table.from_pylist([line]), tmp_path / "answers.parquet")
    with pytest.raises(SpecError, match=r"labels is numbers, but answers\.parquet names options"):
        Recorded(path=tmp_path / "answers.parquet", labels="numbers")
