"""Each rule about questions, options and recorded answers, at each door that they come through."""

import csv
import json
import re
import zipfile

import pyarrow as pa
import pytest
from foil_fakes import presence, question_rows
from pyarrow import parquet
from row_sources import load, row, with_column

from model_adapters.recorded import Recorded
from vlbench.asking.questions import read_questions
from vlbench.data import table
from vlbench.data.records import Data, Split, value_column
from vlbench.engine import Engine
from vlbench.errors import DataError
from vlbench.probes.matching.questions import questions

# Sources of rows with texts of one's own.
OWN = [name for name in with_column("foil") if name != "folders"]
PETS = {"A": "cat", "B": "", "C": "cow", "D": "hen"}


def own_questions(name, root, *rows, option="ABCD"):
    """Return the questions that a source reads from rows of options and an answer."""
    if name == "shards":  # names of columns are in lower case there
        rows = [{key.lower(): text for key, text in one.items()} for one in rows]
        option = [column.lower() for column in option]
    given = [row(i, question="which ?", **{"answer": "A", **one}) for i, one in enumerate(rows, 1)]
    named = {"question": "question", "option": [*option], "answer": "answer"}
    data = load(name, root, given, ["foil"], foil="", label="", **named)
    return read_questions(data.splits["test"])


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(("option", "answer"), [("ABCD", "C"), (["one", "two", "three"], "(c)")])
def test_a_letter_means_the_column_of_its_name_or_of_its_place(name, option, answer, tmp_path):
    texts = dict(zip(option, PETS.values(), strict=False)) | {"answer": answer}
    found = own_questions(name, tmp_path / "set", texts, option=option)
    assert [found.asked[0].options[number] for number in found.right[0]] == ["cow"]


@pytest.mark.parametrize("name", OWN)
def test_the_letter_of_an_empty_option_is_refused(name, tmp_path):
    with pytest.raises(DataError, match=r"the answer is 'B', but that option is empty"):
        own_questions(name, tmp_path / "set", PETS | {"answer": "B"})


@pytest.mark.parametrize("name", OWN)
def test_letters_that_options_carry_are_left_out_and_said(name, tmp_path):
    texts = {"A": "A. cat", "B": "B. dog", "answer": "B"}
    found = own_questions(name, tmp_path / "set", texts, option="AB")
    assert found.asked[0].options == ["cat", "dog"]
    assert found.right == [[1]]
    assert found.notes == ["the options of 1 of 1 rows carried their letters, which are left out"]


@pytest.mark.parametrize("options", [("A. cat", "dog"), ("cat", "B. dog"), ("(B) cat", "(A) dog")])
@pytest.mark.parametrize("name", OWN)
def test_letters_that_only_some_options_carry_are_refused(name, options, tmp_path):
    texts = dict(zip("AB", options, strict=True)) | {"answer": options[0]}
    with pytest.raises(DataError, match="some options carry letters, but not all in order"):
        own_questions(name, tmp_path / "set", texts, option="AB")


@pytest.mark.parametrize("column", ["a", "option_b", "(C)", "\uff22"])  # the last one is full-width
def test_columns_that_look_like_options_and_are_none_are_refused(column, tmp_path):
    (tmp_path / "1.png").write_bytes(b"")
    content = f"image,question,A,B,{column},answer\n1.png,which ?,cat,dog,hen,A\n"
    (tmp_path / "q.csv").write_text(content, "utf-8")
    with pytest.raises(DataError, match=r"look like options, but are not named A, B and so on"):
        table.questions(root=tmp_path, test="q.csv")


# Recordings: a writer of the same answers for each format.


def in_csv(file, rows):
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def in_parquet(file, rows):
    parquet.write_table(pa.Table.from_pylist(rows), file)


def in_lines(file, rows):
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")


def in_json(file, rows):
    file.write_text(json.dumps(rows, indent=2), "utf-8")


TABLES = {"csv": in_csv, "parquet": in_parquet, "jsonl": in_lines, "json": in_json}
ASKED = question_rows().splits["test"]


def always_right(rows=ASKED):
    """Return the text of the right option of each row."""
    return [one[0] for one in rows["right_answers"]]


def recorded(tmp_path, kind, answers, start=0, **more):
    """Return the recording of a table of a kind, of answers in the order of items."""
    rows = [{"item": i, "answer": text} | more for i, text in enumerate(answers, start)]
    return recorded_rows(tmp_path, kind, rows)


def recorded_rows(tmp_path, kind, rows):
    file = tmp_path / f"answers.{kind}"
    TABLES[kind](file, rows)
    return Recorded(path=file, labels="words", item="item")


def accuracy(outcome):
    (score,) = [s for s in outcome.scores if s.metric == "accuracy" and not s.at]
    return score.value, score.n


def ask(model, rows=ASKED, **params):
    return questions(model, Data(splits={"test": rows}), Engine.for_tests(), **params)


@pytest.mark.parametrize("kind", TABLES)
def test_answers_by_index_are_of_the_whole_data_if_rows_are_drawn(kind, tmp_path):
    drawn = Data(splits={"test": ASKED}).limited(20).splits["test"]
    assert accuracy(ask(recorded(tmp_path, kind, always_right()), drawn)) == (1.0, 20)


@pytest.mark.parametrize("kind", TABLES)
def test_answers_with_the_questions_of_other_items_are_refused(kind, tmp_path):
    n = len(ASKED)
    rows = [{"item": i, "answer": "yes", "question": f"question {n - i}"} for i in range(n)]
    with pytest.raises(DataError, match=r"the recording's question is 'question .*', the data's '"):
        ask(recorded_rows(tmp_path, kind, rows))


@pytest.mark.parametrize("kind", TABLES)
def test_a_single_answer_to_another_question_is_refused(kind, tmp_path):
    data = presence(*["yes"] * 4).splits["test"]
    texts = enumerate(data["question"])
    rows = [{"item": i, "answer": "yes", "question": text} for i, text in texts]
    rows[2]["question"] = "is it raining ?"
    with pytest.raises(DataError, match=r"item 2: the recording's question is 'is it raining \?'"):
        ask(recorded_rows(tmp_path, kind, rows), data)


@pytest.mark.parametrize("kind", TABLES)
def test_a_recording_that_states_another_right_answer_is_refused(kind, tmp_path):
    recording = recorded(tmp_path, kind, ["yes"] * 4, target="no")
    with pytest.raises(DataError, match="right is 'no' in the recording and 'yes' in the data"):
        ask(recording, presence(*["yes"] * 4).splits["test"])


@pytest.mark.parametrize("kind", TABLES)
def test_items_counted_from_one_are_refused(kind, tmp_path):
    recording = recorded(tmp_path, kind, ["yes"] * 4, start=1)
    with pytest.raises(DataError, match="no item 4; the items are 0 to 3"):
        ask(recording, presence(*["yes"] * 4).splits["test"])


@pytest.mark.parametrize("kind", TABLES)
def test_empty_answers_stay_in_the_denominator_and_are_yes_by_popes_rule(kind, tmp_path):
    recording = recorded(tmp_path, kind, ["yes", "", " ", "no"])
    found = ask(recording, presence("yes", "yes", "no", "no").splits["test"], positive="yes")
    assert accuracy(found) == (0.5, 4)
    (published,) = [s for s in found.scores if s.metric == "accuracy_published_rule"]
    assert published.value == 0.75
    assert "answers: 2 of 4 name no single option: empty 2; credit 0" in found.notes


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_no_text_at_all_earns_nothing_under_any_rule(kind, tmp_path):
    recording = recorded(tmp_path, kind, ["yes", None, None, "no"])
    found = ask(recording, presence("yes", "yes", "no", "no").splits["test"], positive="yes")
    (published,) = [s for s in found.scores if s.metric == "accuracy_published_rule"]
    assert (accuracy(found), published.value) == ((0.5, 4), 0.5)


@pytest.mark.parametrize("kind", TABLES)
def test_a_pair_that_lacks_an_answer_is_not_scored_and_does_not_pay(kind, tmp_path):
    data = presence(*["yes", "no"] * 4).splits["test"]
    pairs = value_column([str(i // 2) for i in range(8)])
    data = Split({**data.columns, "pair": pairs})
    rows = [{"item": i, "answer": text} for i, text in enumerate(["yes", "no"] * 4)]
    recording = recorded_rows(tmp_path, kind, [*rows[:5], rows[6]])
    found = ask(recording, data, sets={"pair_accuracy": "pair"})
    (score,) = [s for s in found.scores if s.metric == "pair_accuracy"]
    assert (score.value, score.n, found.counts["unanswered"]) == (1.0, 2, 2)
    ends = "between {} (absent answers as wrong) and 100.0% (as right)"
    assert f"pair_accuracy of all 4: {ends.format('50.0%')}" in found.notes
    assert f"accuracy of all 8: {ends.format('75.0%')}" in found.notes


def test_a_pair_that_the_data_lack_is_left_out_and_said(tmp_path):
    data = presence("yes", "no", "yes", "no", "yes").splits["test"]
    data = Split({**data.columns, "pair": value_column(["0", "0", "1", "1", "2"])})
    recording = recorded(tmp_path, "csv", ["yes", "no", "yes", "yes", "yes"])
    found = ask(recording, data, sets={"pair_accuracy": "pair"})
    (score,) = [s for s in found.scores if s.metric == "pair_accuracy"]
    assert (score.value, score.n) == (0.5, 2)
    assert "pair_accuracy: 1 of 3 sets have fewer than 2 items, and are left out" in found.notes


def test_a_limit_draws_whole_clusters():
    data = question_rows().limited(21).splits["test"]
    assert len(data) == 20
    counts = [[*data["cluster"]].count(one) for one in {*data["cluster"]}]
    assert {*counts} == {2}


# Tables of answers that a gate refuses.
BROKEN = {
    "an unquoted comma": ("a.csv", b"item,answer\n0,A, not B. So: A\n", "one cell for each"),
    "two columns of one name": ("a.csv", b"item,answer,answer\n0,A,B\n", "two columns are named"),
    "no UTF-8": ("a.csv", b"item,answer\n0,\xff\n", "UTF-8"),
    "no UTF-8 in JSON": ("a.jsonl", b'{"item": 0, "answer": "\xff"}', "UTF-8"),
    "a key twice": ("a.jsonl", b'{"item": 0, "answer": "A", "answer": "B"}', "occurs twice"),
    "an item of a half": ("a.jsonl", b'{"item": 0.5, "answer": "A"}', "not an index"),
    "no parquet": ("a.parquet", b"PAR1", "cannot be read as parquet"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content", "why"), BROKEN.values(), ids=[*BROKEN])
def test_recordings_pass_the_gate_of_tables(name, content, why, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=why):
        Recorded(path=tmp_path / name, item="item")


def test_a_parquet_file_of_millions_of_equal_rows_is_refused(tmp_path):
    n = 20_000_000
    many = pa.table({"item": pa.array([0]).take(pa.array([0] * n)), "answer": ["A"] * n})
    parquet.write_table(many, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="the file is broken or malicious"):
        Recorded(path=tmp_path / "a.parquet", item="item")


# Logs of harnesses, as these leave them.
LISTS = ("random", "popular", "adversarial")


def asked_lists():
    """Return rows like POPE's: the same questions in three lists, whose right answers differ."""
    data = presence(*["yes", "no"] * 6).splits["test"]
    names = value_column([LISTS[i // 4] for i in range(12)])
    texts = value_column([f"is there a thing {i % 4} ?" for i in range(12)], "text")
    return Split({**data.columns, "category": names, "question": texts})


def log_rows(places, rows, said):
    """Return lines of a log of lmms-eval whose documents are rows in another order."""
    images = rows["image"].examples().ids
    return [
        {
            "doc_id": i, "filtered_resps": [said[place]], "filter": "none",
            "target": rows["right_answers"][place][0],
            "doc": {
                "question": rows["question"][place], "category": rows["category"][place],
                "image_source": images[place],
            },
        }
        for i, place in enumerate(places)
    ]  # fmt: skip


def test_logs_in_another_order_are_matched_by_what_they_say(tmp_path):
    rows = asked_lists()
    said = always_right(rows)
    said[0] = "no"  # an item of the first list is wrong
    order = [*range(8, 12), *range(4, 8), *range(4)]
    lines = log_rows(order, rows, said)
    in_lines(tmp_path / "samples_pope_2026-11-01T10-00-00.000001.jsonl", lines)
    (tmp_path / "results_2026-11-01T10-00-00.000001.json").write_text("{}")
    found = ask(Recorded(path=tmp_path, labels="words"), rows)
    values = {s.at["category"]: s.value for s in found.scores if s.metric == "accuracy" and s.at}
    assert values == {"random": 0.75, "popular": 1.0, "adversarial": 1.0}


def log_without_images():
    """Return rows and a log of them, whose first list alone is answered rightly."""
    rows = asked_lists()
    said = [*always_right(rows)[:4], *["?"] * 8]
    lines = log_rows([*range(11, -1, -1)], rows, said)
    for line in lines:
        del line["doc"]["image_source"]
    return rows, lines


def test_a_log_whose_documents_are_of_other_data_is_refused(tmp_path):
    rows, lines = log_without_images()
    for line in lines:
        line["doc"]["question"] = "what colour is it ?"
    in_lines(tmp_path / "samples_pope.jsonl", lines)
    with pytest.raises(DataError, match="the recording's question is 'what colour is it"):
        ask(Recorded(path=tmp_path, labels="words"), rows)


@pytest.mark.parametrize(
    "names",
    [
        ("samples_pope_2026-11-01T10-00-00.1.jsonl", "samples_pope_2026-11-02T10-00-00.1.jsonl"),
        ("20261101_100000_samples_pope.jsonl", "20261102_100000_samples_pope.jsonl"),
        ("2026-11-01T10-00-00+00-00_pope_x.json", "2026-11-02T10-00-00+00-00_pope_x.json"),
    ],
)
def test_two_runs_of_one_task_in_a_folder_are_refused(names, tmp_path):
    rows = asked_lists()
    for name in names:
        in_lines(tmp_path / name, log_rows(range(12), rows, always_right(rows)))
    with pytest.raises(DataError, match="two runs of one task: " + re.escape(" and ".join(names))):
        Recorded(path=tmp_path)


def test_hidden_files_and_caches_beside_a_log_are_not_read(tmp_path):
    rows = asked_lists()
    in_lines(tmp_path / "samples_pope.jsonl", log_rows(range(12), rows, always_right(rows)))
    for name in ("._samples_pope.jsonl", ".ipynb_checkpoints/a.jsonl", "@eaDir/a.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff")
    assert accuracy(ask(Recorded(path=tmp_path, labels="words"), rows)) == (1.0, 12)


def test_two_tables_that_answer_one_item_are_refused(tmp_path):
    for name in ("a.csv", "b.csv"):
        in_csv(tmp_path / name, [{"item": 0, "answer": "yes"}])
    with pytest.raises(DataError, match=r"two files answer .* a\.csv and b\.csv"):
        ask(Recorded(path=tmp_path, item="item", labels="words"))


def inspect_samples(rows, said):
    return [
        {
            "id": i, "epoch": 1, "input": rows["question"][i], "target": "A",
            "choices": ["no", "yes"] if rows["right_answers"][i] == ["no"] else ["yes", "no"],
            "output": {
                "choices": [{"stop_reason": "content_filter" if one is None else "stop"}],
                "completion": one or "",
            },
        }
        for i, one in enumerate(said)
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".json", ".eval"])
def test_logs_of_inspect_are_read_with_options_in_their_order(suffix, tmp_path):
    rows = asked_lists().select(range(4))
    samples = inspect_samples(rows, ["A", "ANSWER: A", None, "B"])
    file = tmp_path / f"2026-11-01T10-00-00+00-00_pope_x{suffix}"
    if suffix == ".json":
        file.write_text(json.dumps({"version": 2, "samples": samples}), "utf-8")
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("header.json", "{}")
            for one in samples:
                archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
    found = ask(Recorded(path=tmp_path), rows)
    assert accuracy(found) == (0.5, 4)
    assert any("content_filter 1" in note for note in found.notes)


def test_an_empty_answer_of_inspect_is_one_that_names_no_option(tmp_path):
    rows = asked_lists().select(range(4))
    file = tmp_path / "2026-11-01T10-00-00+00-00_pope_x.json"
    samples = inspect_samples(rows, ["A", "A", "", "A"])
    file.write_text(json.dumps({"version": 2, "samples": samples}), "utf-8")
    found = ask(Recorded(path=tmp_path), rows)
    assert "answers: 1 of 4 name no single option: empty 1; credit 0" in found.notes


@pytest.mark.parametrize("damage", ["cut", "a byte", "text"])
def test_damaged_archives_of_inspect_are_refused(damage, tmp_path):
    file = tmp_path / "2026-11-01T10-00-00+00-00_pope_x.eval"
    samples = inspect_samples(asked_lists(), ["A"] * 12)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/0_epoch_1.json", json.dumps(samples))
    whole = file.read_bytes()
    middle = whole.index(b".json") + 20
    damaged = {
        "cut": whole[: len(whole) // 2],
        "a byte": whole[:middle] + b"\xff" * 8 + whole[middle + 8 :],
        "text": b"no archive",
    }
    file.write_bytes(damaged[damage])
    with pytest.raises(DataError, match="cannot be read as a log of inspect_ai"):
        Recorded(path=tmp_path)


def test_a_log_of_all_lists_answers_one_of_them(tmp_path):
    rows, lines = log_without_images()
    in_lines(tmp_path / "samples_pope_2026-11-01T10-00-00.000001.jsonl", lines)
    (tmp_path / "results_2026-11-01T10-00-00.000001.json").write_text("{}")
    found = ask(Recorded(path=tmp_path, labels="words"), rows.select(range(4)))
    assert accuracy(found) == (1.0, 4)


def test_scores_in_the_order_of_the_document_are_sorted(tmp_path):
    rows = asked_lists().select(range(4))
    lines = log_rows(range(4), rows, [[-1.0, -9.0]] * 4)
    for line in lines:
        line["filtered_resps"] = [["-1.0", "True"], ["-9.0", "False"]]
        line["doc"]["choices"] = ["no", "yes"]
        line["target"] = "1" if line["target"] == "yes" else "0"
    in_lines(tmp_path / "samples_pope.jsonl", lines)
    found = ask(Recorded(path=tmp_path, labels="words"), rows)
    # "no" is likelier everywhere, and right in every second row.
    values = [one["credit"] for one in found.items.to_pylist() if one["metric"] == "accuracy"]
    assert values[:4] == [0.0, 1.0, 0.0, 1.0]
