import os
import subprocess
import sys

import pytest

from vlbench.catalog.strict_yaml import load_yaml, scalar
from vlbench.errors import SpecError

BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

DEEP = """
import sys
from pathlib import Path
from vlbench.catalog.strict_yaml import load_yaml
load_yaml(Path(sys.argv[1]))
"""


@pytest.fixture
def load(tmp_path):
    def write_and_load(text):
        file = tmp_path / "a.yaml"
        file.write_text(text, "utf-8")
        return load_yaml(file)

    return write_and_load


WORDS = {
    "1e-4": 1e-4, "1.5e+3": 1500.0, "-.5": -0.5, "2.": 2.0, "-7": -7, "+7": 7, "true": True,
    "false": False, "null": None, "~": None, "": None, "no": "no", "on": "on", "yes": "yes",
    "2020-01-01": "2020-01-01", "12:30:00": "12:30:00", "1_000": "1_000", "1.2.3": "1.2.3",
    "-": "-", ".": ".", "e5": "e5", "clip-rn50": "clip-rn50",
}  # fmt: skip


def test_a_command_lines_word_is_read_as_its_kind():
    assert repr({text: scalar(text) for text in WORDS}) == repr(WORDS)


@pytest.mark.parametrize("text", ["1e-4", "-7", "true", "no", "on", "2020-01-01", "~", "0.5"])
def test_a_file_and_the_command_line_read_a_word_alike(load, text):
    value = load(f"a: {text}\n").values["a"]
    assert (type(value), value) == (type(scalar(text)), scalar(text))


def test_a_quoted_number_is_a_text(load):
    assert load("{a: '5', b: \"true\", c: '~'}").values == {"a": "5", "b": "true", "c": "~"}


def test_a_merge_key_is_a_key_like_any_other(load):
    assert load("a: {<<: {b: 1}}").values == {"a": {"<<": {"b": 1}}}


@pytest.mark.parametrize(("text", "value"), [("1E-4", 1e-4), ("True", True), ("NULL", None)])
def test_the_other_spellings_of_the_core_schema_are_read_too(text, value):
    assert scalar(text) == value


DUPLICATE, ANCHOR = "duplicate key", "anchors and aliases are not allowed;"
NO_MAPPING, NO_WORD = "must be a mapping of keys to values", "a key must be a word or a number"
REFUSED = [
    ("a: 1\nb: 2\na: 3\n", rf"a\.yaml:3: {DUPLICATE} 'a'"),
    ("params:\n  list:\n  - shots: 1\n    shots: 2\n", rf"a\.yaml:4: {DUPLICATE} 'shots'"),
    ("a: 1\nb: &x [2]\n", rf"a\.yaml:2: {ANCHOR}"),
    *((text, rf"a\.yaml:1: {ANCHOR}") for text in ("a: &x {b: 1}", "&x a: 1", "a: &x 1", "a: *x")),
    ("a: !foo b", "the tag .*foo is not allowed"),
    ("a: !!binary b", "the tag .*binary is not allowed"),
    ("a: !!timestamp b", "the tag .*timestamp is not allowed"),
    ("a: !!python/name:os.system b", "the tag .*python/name:os.system is not allowed"),
    *((text, "tag") for text in ("a: !foo [1]", "a: !!python/object:os.x {b: 1}", "!!set {a}")),
    *((text, "tag") for text in ("a: !!omap [b: 1]", "a: !!int abc", "a: !!float abc")),
    # Tags that end like a plain tag.
    *((f"a: {tag} 5", "tag") for tag in ("!!python/name:str", "!x:int", "!!str")),
    ("a: 1\nb: !foo 2\n", r"a\.yaml:2: "),
    # Numbers of too many digits, and too large for a float.
    ("a: " + "9" * 5000, r"a\.yaml:1: "),
    ("a: 1e400", r"a\.yaml:1: "),
    ("a: " + "[" * 3000 + "]" * 3000, r"a\.yaml: nested too deeply"),
    ("a: " + "{a: " * 3000 + "}" * 3000, r"a\.yaml: nested too deeply"),
    *((text, rf"a\.yaml: {NO_MAPPING}") for text in ("", "# nothing\n", "- a\n- b\n")),
    *((text, rf"a\.yaml: {NO_MAPPING}") for text in ("just words", "5")),
    ("a: 1\nb: ]\n", r"a\.yaml:2: not YAML: "),
    ("a: 1\n---\nb: 2\n", r"a\.yaml:2: not YAML: but found another document"),
    ("a: \x01b", r"not YAML: .*control characters"),
    ("x: 1\n? [a, b]\n: 1", rf"a\.yaml:2: {NO_WORD}"),
    ("x: 1\n{a: 1}: 2", rf"a\.yaml:2: {NO_WORD}"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_yaml_allows_and_a_file_of_ours_does_not_is_refused(load, text, message):
    with pytest.raises(SpecError, match=message):
        load(text)


@pytest.mark.timeout(5)
def test_nine_levels_of_aliases_are_refused_at_once(load):
    with pytest.raises(SpecError, match="anchors and aliases are not allowed;"):
        load(BOMB)


def test_nesting_that_would_overrun_the_stack_is_refused(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a:\n  " + "- " * 25_000)
    command = [sys.executable, "-c", DEEP, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "SpecError" in done.stderr


def test_undecodable_bytes_are_refused(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(SpecError, match=r"a\.yaml: cannot be read: .*utf-8"):
        load_yaml(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"gone\.yaml: cannot be read"):
        load_yaml(tmp_path / "gone.yaml")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(SpecError, match="cannot be read"):
        load_yaml(tmp_path)


def test_a_byte_order_mark_and_windows_lines_change_nothing(load):
    document = load("\ufeffa: 1\r\nb: {c: 2}\r\n")
    assert document.values == {"a": 1, "b": {"c": 2}}
    assert document.lines == {("a",): 1, ("b",): 2, ("b", "c"): 2}


def test_nested_keys_know_their_line(load, tmp_path):
    document = load("a: 1\nparams:\n  shots:\n  - 1\n  trials: 2\n")
    where = f"{tmp_path / 'a.yaml'}:"
    assert document.where("params", "shots") == where + "3"
    assert document.where("params", "trials") == where + "5"


def test_a_key_that_is_not_there_has_the_line_of_what_holds_it(load, tmp_path):
    document = load("a: 1\nparams:\n  shots: 1\n")
    assert document.where("params", "gone", "deeper") == f"{tmp_path / 'a.yaml'}:2"
    assert document.where("gone") == str(tmp_path / "a.yaml")


def test_a_file_that_stays_is_parsed_once_and_a_changed_one_again(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text("version: 1")
    assert load_yaml(file).values == {"version": 1}
    file.write_text("version: 2")  # the same size, maybe the same date
    assert load_yaml(file).values == {"version": 2}
    os.utime(file, (1, 1))
    assert load_yaml(file) is load_yaml(file)
    file.write_text("version: 3")
    os.utime(file, (2, 2))
    assert load_yaml(file).values == {"version": 3}
