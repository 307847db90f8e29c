import json
from decimal import ROUND_HALF_UP, Decimal
from io import BytesIO
from pathlib import Path

import PIL.Image
import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from vlbench.api import evaluate
from vlbench.data.blink import ONE_IMAGE, TASKS, blink, blink_images, options_of
from vlbench.errors import DataAbsent, DataError

ROOT = Path(__file__).resolve().parents[2]
TASK = yaml.safe_load((ROOT / "tasks/matching/blink.yaml").read_text("utf-8"))
PUBLISHED = {one["model"]: one["value"] for one in TASK["reference"]}


def put(root, key):
    (root / "val_answers.json").write_text(json.dumps(key), "utf-8")
    return root


def test_the_name_of_an_item_tells_its_task_and_its_options(tmp_path):
    key = {"val_Counting_1": "(D)", "val_Relative_Reflectance_7": "(C)"}
    data = blink(root=put(tmp_path, key))
    rows = data.splits["test"]
    assert [*rows["category"]] == ["Counting", "Relative_Reflectance"]
    assert [*rows["options"]] == [["A", "B", "C", "D"], ["A", "B", "C"]]
    assert [*rows["right_answers"]] == [["D"], ["C"]]
    assert rows["image"].examples().ids == [*key]
    assert data.expected == {"test": 1901}
    with pytest.raises(DataAbsent, match="BLINK's images"):
        rows["image"][0]


WRONG_KEYS = [
    ({"val_Jigsaw_1": "(C)"}, "the answer to val_Jigsaw_1 is C, no option"),
    ({"val_Jigsaw_1": "hidden"}, "no answer key of BLINK"),
    ({"test_Jigsaw_1": "(A)"}, "'test_Jigsaw_1' is not the name of a validation item"),
    (["(A)"], "no answer key of BLINK"),
]


@pytest.mark.parametrize(("key", "message"), WRONG_KEYS)
def test_another_file_is_refused(tmp_path, key, message):
    with pytest.raises(DataError, match=message):
        blink(root=put(tmp_path, key))


def test_without_the_key_its_home_is_named(tmp_path):
    with pytest.raises(DataAbsent, match="zeyofu/BLINK_Benchmark"):
        blink(root=tmp_path)


def saved(folder, name, entries):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"val": entries, "test": []}), "utf-8")


def entry(idx, answer, said, read):
    return {"idx": idx, "answer": answer, "full_prediction": said, "prediction": read}


def ran(recording, data, output):
    given = {"blink": data}
    (row,) = evaluate([f"recorded:{recording}"], ["blink"], data_dir=given, output=output)
    return row


def test_saved_answers_are_scored_by_their_authors_reading_and_by_ours(tmp_path):
    names = [f"val_Jigsaw_{i}" for i in range(4)]
    put(tmp_path, dict.fromkeys(names, "(A)"))
    said = [
        ("The answer is (A).", "(A)"),
        ("(B)", "(B)"),
        ("Blue", "(Z)"),
        ("A or B \ud800", "(A)"),
    ]
    entries = [entry(name, "(A)", *one) for name, one in zip(names, said, strict=True)]
    saved(tmp_path / "model*", "Jig saw.json", entries)
    row = ran(tmp_path / "model*", tmp_path, tmp_path / "out")
    values = {s.metric: s.value for s in row.scores if not s.at}
    assert values["accuracy_recorded_reading"] == 0.5
    assert values["accuracy_macro"] == 0.25
    assert values["accuracy_first_label_macro"] == 0.25  # "A or B"
    assert row.counts["texts_not_unicode"] == 1


def test_saved_answers_with_another_key_are_refused(tmp_path):
    put(tmp_path, {"val_Jigsaw_1": "(A)", "val_Jigsaw_2": "(B)"})
    saved(tmp_path / "m", "Jigsaw.json", [entry("val_Jigsaw_1", "(B)", "(A)", "(A)")])
    row = ran(tmp_path / "m", tmp_path, tmp_path / "out")
    assert "right is 'B' in the recording and 'A' in the data" in row.reason


def test_the_shipped_board_has_the_published_values():
    board = json.loads((ROOT / "leaderboards/blink.json").read_text("utf-8"))
    rows = {row["model"]: row["scores"] for row in board["rows"]}
    assert len(PUBLISHED) == len(rows) == 19
    for model, value in PUBLISHED.items():
        metric = TASK["primary"]["metric"]
        (score,) = [one for one in rows[model] if one["metric"] == metric and not one["at"]]
        # The table rounds means of two digits: 44.0463 is 44.05, and printed as 44.1.
        twice = Decimal(100 * score["value"]).quantize(Decimal("0.01"), ROUND_HALF_UP)
        assert float(twice.quantize(Decimal("0.1"), ROUND_HALF_UP)) == pytest.approx(100 * value)


def hub_rows(task, *answers):
    encoded = BytesIO()
    PIL.Image.new("RGB", (4, 4), (200, 0, 0)).save(encoded, "PNG")
    options = [f"option {i}" for i in range(TASKS[task][1])]
    return [
        {
            "idx": f"val_{task}_{i}", "question": "Which ?", "choices": options, "answer": answer,
            "image_1": {"bytes": encoded.getvalue(), "path": None}, "prompt": "unused",
        }
        for i, answer in enumerate(answers, 1)
    ]  # fmt: skip


def put_hub(root, **rows):
    for task in ONE_IMAGE:
        (root / task).mkdir()
        table = pa.Table.from_pylist(rows.get(task, hub_rows(task, "(A)", "(B)")))
        parquet.write_table(table, root / task / "val-00000-of-00001.parquet")
    return root


def test_the_tasks_about_one_image_are_read_from_the_hubs_files(tmp_path):
    data = blink_images(root=put_hub(tmp_path))
    rows = data.splits["test"]
    assert sorted({*rows["category"]}) == sorted(ONE_IMAGE)
    assert rows["right_answers"][1] == ["option 1"]
    assert rows["image"][0].getpixel((0, 0)) == (200, 0, 0)
    assert rows["image"].examples().ids[:2] == ["val_Counting_1", "val_Counting_2"]
    assert data.expected == {"test": 793}
    assert "left out: the tasks about several images, Art_Style" in data.notes[0]


@pytest.mark.parametrize("answer", ["(C)", "hidden", ""])
def test_another_row_is_refused_with_its_number(tmp_path, answer):
    put_hub(tmp_path, Relative_Depth=hub_rows("Relative_Depth", "(A)", answer))
    with pytest.raises(DataError, match=r"Relative_Depth, row 1 of val-0\S+, is no item of BLINK"):
        blink_images(root=tmp_path)


def test_a_task_that_is_absent_and_a_file_that_is_none_are_named(tmp_path):
    with pytest.raises(DataAbsent, match="BLINK's task Counting"):
        blink_images(root=tmp_path)
    put_hub(tmp_path)
    (tmp_path / "Counting" / "val-00000-of-00001.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="of Counting cannot be read"):
        blink_images(root=tmp_path)


def test_options_are_as_many_as_the_task_has():
    assert {name: len(options_of(f"val_{name}_1")) for name in TASKS} == {
        name: count for name, (_, count) in TASKS.items()
    }
