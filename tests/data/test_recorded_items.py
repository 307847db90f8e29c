"""Logs that are data and recording at once: the same items and scores in every format."""

import csv
import datetime as dt
import json
import zipfile

import openpyxl
import pytest
from pyarrow import Table, parquet

import vlbench
from model_adapters.recorded import Recorded
from vlbench.cli import main
from vlbench.data.recorded_items import recorded_items
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, DataError
from vlbench.probes.matching.questions import questions

# Two options, three, and a right answer in the last place; the second reply is wrong.
ITEMS = [
    ("7", "Which pet ?", ["cat", "dog"], "B", "pets", "B."),
    ("8", "Which cup ?", ["red", "blue", "green"], "C", "cups", "The answer is A"),
    ("9", "Which hat ?", ["3", "tall"], "A", "hats", "(A)"),
    ("10", "Which tree ?", ["oak", "fir"], "A", "pets", "A"),
]


def rows():
    """Return the items as rows of VLMEvalKit, with columns that are not read."""
    for name, question, options, right, category, said in ITEMS:
        letters = dict(zip("ABC", [*options, None], strict=False))
        yield {
            "index": int(name), "hint": "look", "question": question, **letters, "answer": right,
            "category": category, "l2-category": "x", "prediction": said,
        }  # fmt: skip


def put_text(file, given):
    delimiter = "\t" if file.suffix == ".tsv" else ","
    with file.open("w", encoding="utf-8", newline="") as stream:
        write = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        write.writerow([*given[0]])
        write.writerows(["" if cell is None else cell for cell in one.values()] for one in given)


def lists():
    """Return the items as rows of another table, with a list of options."""
    names = ("id", "question", "options", "answer", "category", "reply")
    for one in ITEMS:
        yield dict(zip(names, (*one[:2], repr(one[2]), *one[3:]), strict=True))


def put_parquet(file, given):
    parquet.write_table(Table.from_pylist(given), file)


def put_json(file, given):
    numbers = [{k: float("nan") if v is None else v for k, v in one.items()} for one in given]
    file.write_text(json.dumps(numbers), "utf-8")


def put_xlsx(file, given):
    book = openpyxl.Workbook()
    book.active.append([*given[0]])
    for one in given:
        book.active.append([*one.values()])
    book.save(file)


def put_lines(file, given):
    file.write_text("\n".join(map(json.dumps, given)), "utf-8")


def lmms_eval():
    for one in rows():
        doc = {key: "nan" if cell is None else cell for key, cell in one.items()}
        said = doc.pop("prediction")
        yield {"doc_id": 0, "doc": doc, "filtered_resps": [said], "target": doc["answer"]}


def lm_eval():
    for name, question, options, right, category, said in ITEMS:
        doc = {"id": name, "query": question, "choices": options, "category": category}
        target = str("ABC".index(right))
        yield {"doc_id": 5, "doc": doc, "filtered_resps": [said], "filter": "x", "target": target}


def inspect_ai():
    for name, question, options, right, category, said in ITEMS:
        yield {
            "id": int(name), "input": [{"role": "user", "content": question}], "choices": options,
            "target": right, "metadata": {"category": category}, "output": {"completion": said},
        }  # fmt: skip


def put_eval(file, given):
    with zipfile.ZipFile(file, "w") as archive:
        for number, one in enumerate(given):
            archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(one))


def put_samples(file, given):
    file.write_text(json.dumps({"samples": given}), "utf-8")


WRITERS = {
    "csv": (put_text, rows),
    "tsv": (put_text, rows),
    "xlsx": (put_xlsx, rows),
    "parquet": (put_parquet, rows),
    "json of VLMEvalKit": (put_json, rows),
    "csv of options": (put_text, lists),
    "eval": (put_eval, inspect_ai),
    "json of inspect_ai": (put_samples, inspect_ai),
    "jsonl of lm-eval": (put_lines, lm_eval),
    "jsonl of lmms-eval": (put_lines, lmms_eval),
}


def put_log(folder, kind):
    """Write the items in a format, and return the file."""
    file, (write, make) = folder / f"log.{kind.partition(' ')[0]}", WRITERS[kind]
    write(file, [*make()])
    return file


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_has_the_same_items_and_scores(tmp_path, kind):
    file = put_log(tmp_path, kind)
    data = recorded_items(recording={"path": file})
    test = data.splits["test"]
    assert test["image"].examples().ids == [one[0] for one in ITEMS]
    assert [*test["question"]] == [one[1] for one in ITEMS]
    assert [*test["options"]] == [one[2] for one in ITEMS]
    assert [*test["right_answers"]] == [["dog"], ["green"], ["3"], ["oak"]]
    assert [*test["category"]] == [one[4] for one in ITEMS]
    found = questions(Recorded(path=file), data, Engine.for_tests())
    values = {s.at.get("category"): s.value for s in found.scores if s.metric == "accuracy"}
    assert values == {None: 0.75, "pets": 1, "cups": 0, "hats": 1}
    assert (found.counts["unparsed"], found.counts["unanswered"]) == (0, 0)


def test_a_table_states_which_columns_are_read(tmp_path):
    data = recorded_items(recording={"path": put_log(tmp_path, "tsv")})
    assert data.notes == [
        "data: the log brings its own answer key",
        (
            "log.tsv: index, question, A to C, answer, category, prediction read; "
            "hint, l2-category not read"
        ),
        "data: the log names no images, so that each item counts as independent",
    ]


def test_a_cell_with_a_date_is_refused(tmp_path):
    put_xlsx(tmp_path / "log.xlsx", [one | {"prediction": dt.date(2024, 5, 1)} for one in rows()])
    with pytest.raises(DataError, match=r"row 1: datetime.* is neither a text nor a number"):
        recorded_items(recording={"path": tmp_path / "log.xlsx"})


def test_questions_about_one_image_are_not_independent(tmp_path):
    given = [one | {"image_path": f"{number // 2}.jpg"} for number, one in enumerate(rows())]
    put_xlsx(tmp_path / "log.xlsx", given)
    data = recorded_items(recording={"path": tmp_path / "log.xlsx"})
    assert [*data.splits["test"]["cluster"]] == ["0.jpg", "0.jpg", "1.jpg", "1.jpg"]


def test_items_without_names_are_numbered_and_yes_or_no_needs_no_options(tmp_path):
    given = [{"question": "There ?", "answer": one, "reply": "Yes."} for one in ("Yes", "no")]
    put_lines(tmp_path / "log.jsonl", given)
    data = recorded_items(recording={"path": tmp_path / "log.jsonl"})
    assert data.splits["test"]["image"].examples().ids == ["1", "2"]
    assert [*data.splits["test"]["right_answers"]] == [["yes"], ["no"]]
    found = questions(
        Recorded(path=tmp_path / "log.jsonl", labels="words"), data, Engine.for_tests()
    )
    assert next(s.value for s in found.scores if s.metric == "accuracy") == 0.5


def test_replies_that_are_no_text_count_by_reason(tmp_path):
    said = [None, "Failed to obtain answer via API.", "\ud800 A", 3]
    given = [one | {"prediction": text} for one, text in zip(rows(), said, strict=True)]
    put_lines(tmp_path / "log.jsonl", given)
    model = Recorded(path=tmp_path / "log.jsonl")
    data = recorded_items(recording={"path": tmp_path / "log.jsonl"})
    found = questions(model, data, Engine.for_tests())
    assert (found.counts["unparsed"], found.counts["texts_not_unicode"]) == (3, 1)
    (told,) = [note for note in found.notes if note.startswith("answers: ")]
    assert "no text" in told
    assert "failed request" in told


def evaluated(tmp_path, name, given, **options):
    put_xlsx(tmp_path / f"{name}.xlsx", given)
    (row,) = vlbench.evaluate(
        f"recorded:{tmp_path / name}.xlsx", ["recorded_questions"], name=name, output=tmp_path,
        **options,
    )  # fmt: skip
    assert row.status == "ok", row.reason
    return row


def test_logs_share_a_column_only_if_their_items_are_the_same(tmp_path, capsys):
    first = evaluated(tmp_path, "first", [*rows()])
    # Another model's log lists the items in another order.
    second = evaluated(tmp_path, "second", [one | {"prediction": "A"} for one in rows()][::-1])
    keys = [*rows()]
    keys[1]["answer"] = "A"
    other = evaluated(tmp_path, "other", keys)
    assert first.comparable == second.comparable != other.comparable
    assert (first.primary_score.value, second.primary_score.value) == (0.75, 0.5)
    assert "data: the log brings its own answer key" in first.notes
    compare = ["leaderboard", "compare", "--output", str(tmp_path)]
    assert main([*compare, "first", "second"]) == 0
    # Right of the first only: 7; of the second only: none; in both or neither: 8, 9 and 10.
    assert "1, 0, 3" in capsys.readouterr().out
    assert main([*compare, "first", "other"]) != 0
    assert "their data differ" in capsys.readouterr().err


def test_some_items_are_drawn_with_a_limit(tmp_path):
    row = evaluated(tmp_path, "some", [*rows()], limit=3)
    assert (row.primary_score.n, row.counts["unanswered"]) == (3, 0)


def test_a_model_that_is_no_recording_has_no_items(tmp_path):
    class Says:
        def answer(self, pictures, questions):
            return ["A" for _ in questions]

    (row,) = vlbench.evaluate(Says(), ["recorded_questions"], name="says", output=tmp_path)
    assert row.status == "skipped"
    assert "reads its items from the log of a model: --model recorded:LOG" in row.reason
    with pytest.raises(DataAbsent, match="--model recorded:LOG"):
        recorded_items()


GOOD = {"id": "x", "question": "q", "A": "a", "B": "b", "answer": "A", "reply": "A"}
WRONG = {
    "no reply": ([{"question": "q", "A": "a", "answer": "A"}],
                 r"has the columns question, A, answer; a log needs question, A, B .* prediction"),
    "no question": ([GOOD | {"question": " "}], "item x: question not found"),
    "no options": ([{**GOOD, "A": "", "B": ""}], "item x: options not found"),
    "no right answer": ([GOOD | {"answer": ""}], "item x: right answer not found"),
    "no such option": ([GOOD | {"answer": "C"}], "item x: the right answer 'C' is neither"),
    "a blank option": ([GOOD | {"A": ""}], "row 1: option A is blank, but B is not"),
    "an item twice": ([GOOD, GOOD], "'x' occurs twice: log.jsonl, answer 1, and .*, answer 2"),
    "some unnamed": ([GOOD, GOOD | {"id": ""}], "answer 2: the item has no name, but others"),
    "no cell": ([GOOD | {"reply": {"a": 1}}], "row 1: {'a': 1} is neither a text nor a number"),
    "a row of others": ([GOOD, {"question": "q"}], "row 2: no column 'answer'|row 2: .*answer"),
    "scores of nothing": ([{"doc_id": 0, "doc": {"question": "q", "choices": ["a", "b"]},
                            "filtered_resps": [[], []], "target": "0"}], "row 1: .*not a text"),
    "a list that never ends": ([{**GOOD, "options": "[" * 90_000, "A": "", "B": ""}],
                               "item x: options not found"),
    "index or text": ([{"doc_id": 0, "doc": {"question": "q", "choices": ["1", "2", "3"]},
                        "filtered_resps": ["A"], "target": "1"}],
                      "right answer 1 is the text of an option and the index of another"),
}  # fmt: skip


@pytest.mark.parametrize(("given", "why"), WRONG.values(), ids=[*WRONG])
def test_what_is_no_log_of_items_is_refused(tmp_path, given, why):
    put_lines(tmp_path / "log.jsonl", given)
    with pytest.raises(DataError, match=why):
        recorded_items(recording={"path": tmp_path / "log.jsonl"})
