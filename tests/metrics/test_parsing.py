"""The tables of docs/replies.md: replies, and what the rules read in them."""

import csv
import re
from pathlib import Path

import pytest

from vlbench.metrics.parsing import MOST_TEXT, first_label, last_label, read_reply, without_thinking

PAGE = (Path(__file__).parents[2] / "docs" / "replies.md").read_text("utf-8")
LINES = [re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.split("\n") if line.startswith("| ")]
CELLS = [[cell.strip() for cell in line] for line in LINES if line[0].strip() != "options"]
ROWS, BY_RULE = ([line for line in CELLS if len(line) == width] for width in (4, 5))
LABELS = re.compile(r"[A-J]|\d|\(\d\)")


def reply_of(cell):
    text = "" if cell == "(empty)" else cell.strip("`").replace("\\|", "|")
    text = text[1:-1] if cell.startswith("``") else text
    return text.replace("\\n", "\n")


@pytest.mark.parametrize(("options", "cell", "named", "about"), ROWS)
def test_a_reply_is_read_as_the_page_says(options, cell, named, about):
    labels = options.split(", ")
    in_words = not all(LABELS.fullmatch(label) for label in labels)
    reading = read_reply(reply_of(cell), labels, in_words=in_words)
    assert (reading.why if reading.place is None else labels[reading.place]) == named, about


@pytest.mark.parametrize(("options", "cell", "one", "first", "last"), BY_RULE)
def test_a_reply_is_read_by_each_rule_as_the_page_says(options, cell, one, first, last):
    labels = options.split(", ")
    readings = [rule(reply_of(cell), labels) for rule in (read_reply, first_label, last_label)]
    told = [own.why if own.place is None else labels[own.place] for own in readings]
    assert told == [one, first, last]


def test_the_page_has_enough_replies_and_none_twice():
    for rows, least in ((ROWS, 100), (BY_RULE, 40)):
        assert len({(options, cell) for options, cell, *_ in rows}) == len(rows) > least
    assert len(CELLS) == len(ROWS) + len(BY_RULE)


def test_the_longest_label_counts_at_the_beginning_and_at_the_end():
    labels = [str(i + 1) for i in range(12)]
    assert first_label("10. a dog", labels).place == last_label("It is 10", labels).place == 9
    # Texts are compared in one form of Unicode.
    assert read_reply("Cafe\u0301", ["caf\u00e9", "bar"], in_words=True).place == 0


@pytest.mark.parametrize("rule", [read_reply, last_label])
def test_a_very_long_reply_is_not_read(rule):
    assert rule("B " * MOST_TEXT, "AB").why == "too long"


# Parts of which a long reply may consist, and the option that it then names by letter. Patterns
# that begin at each of the parts took minutes.
PARTS = {
    "(": None, "\"'": None, "* ": None, "- ": None, "\n": None, "_": None, "not ": None,
    "answer is ": None, "A or ": 0, "(A": 0, "B. x\n": 1,
}  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", PARTS)
def test_a_long_reply_is_read_in_time(part):
    reply = "answer " + part * ((MOST_TEXT - 100) // len(part))
    assert read_reply(reply, "AB").place == PARTS[part]
    assert read_reply(reply, ["yes", "cat"], in_words=True) == (None, "no option")


def test_the_last_end_of_thinking_counts():
    assert without_thinking("<think>a</think>B<think>c</think>D") == "D"
    assert without_thinking("a</think>B<think>c") is None


def test_the_errors_of_each_rule_are_those_of_the_replies_read_by_hand():
    root = Path(__file__).parents[2]
    with (root / "benchmarks/replies_read_by_hand.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["read"] != "unclear"]
    for rule in ("one_label", "last_label", "first_label", "recorded_reading"):
        errors = [row for row in rows if row[rule] != row["read"]]
        unread = sum(row[rule] == "none" for row in errors)
        lines = [one for one in PAGE.splitlines() if one.startswith(f"- `{rule}`")]
        (line,) = [one for one in lines if "errors of" in one]
        numbers = f"{len(errors) - unread} times", f"{unread} times"
        assert all(one in line for one in (*numbers, f"{100 * len(errors) / len(rows):.1f} %"))
