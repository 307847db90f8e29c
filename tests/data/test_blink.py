import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import pytest
import yaml

from vlbench.api import evaluate
from vlbench.data.blink import TASKS, blink, options_of
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


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"val_Jigsaw_1": "(C)"}, "the answer to val_Jigsaw_1 is C, no option"),
        ({"val_Jigsaw_1": "hidden"}, "no answer key of BLINK"),
        ({"test_Jigsaw_1": "(A)"}, "'test_Jigsaw_1' is not the name of a validation item"),
        (["(A)"], "no answer key of BLINK"),
    ],
)
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


def test_options_are_as_many_as_the_task_has():
    assert {name: len(options_of(f"val_{name}_1")) for name in TASKS} == {
        name: count for name, (_, count) in TASKS.items()
    }
