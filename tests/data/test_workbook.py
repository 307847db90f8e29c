"""Workbooks of Excel: what is read as a table, and what is refused by name."""

import re
import sys
import zipfile

import openpyxl
import pytest
from PIL import Image

from vlbench.data.table import column_names, questions, read_cells
from vlbench.errors import DataError


def put(file, *rows, more=()):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for row in more:
        (book["More"] if "More" in book.sheetnames else book.create_sheet("More")).append(row)
    book.save(file)
    return file


def changed(file, member, old, new):
    """Replace a text in a member of an archive."""
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, own in content.items():
            archive.writestr(name, re.sub(old, new, own) if name == member else own)
    return file


SHEET = "xl/worksheets/sheet1.xml"


def cells(file, *names):
    return read_cells(file, file.name, {"answer": names})


def test_cells_are_as_they_were_written_and_formulas_are_texts(tmp_path):
    file = put(tmp_path / "a.xlsx", ["x", "y", None], ["=1+2", 3], [None, None], [None, 1.5])
    assert column_names(file, file.name) == ["x", "y"]
    assert cells(file, "y", "x") == {"y": [3, 1.5], "x": ["=1+2", None]}


def test_a_declared_size_is_not_believed(tmp_path):
    file = put(tmp_path / "a.xlsx", ["x"], ["a"])
    changed(file, SHEET, rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"')
    assert cells(file, "x") == {"x": ["a"]}


def wide(file):
    return changed(put(file, ["x"], ["a"]), SHEET, b'r="A2"', b'r="XFD2"')


def bomb(file):
    put(file, ["x"], ["a"])
    return changed(file, SHEET, b"</sheetData>", b" " * 10**7 + b"</sheetData>")


def cut(file):
    put(file, ["x"], ["a"])
    file.write_bytes(file.read_bytes()[:-30])
    return file


def not_xml(file):
    return changed(put(file, ["x"], ["a"]), SHEET, b"</sheetData>", b"<")


WRONG = {
    "no archive": (lambda file: file.write_bytes(b"x") and file, "a.xlsx cannot be read as .xlsx"),
    "an archive cut off": (cut, "a.xlsx cannot be read as .xlsx"),
    "no XML": (not_xml, "a.xlsx cannot be read as .xlsx"),
    "a bomb": (bomb, "unpacks to .* bytes: it is broken or malicious"),
    "16,384 columns": (wide, "a.xlsx, row 2, has over 1000 columns"),
    "two sheets": (lambda f: put(f, ["x"], ["a"], more=[["x"]]), "two sheets, 'Sheet' and 'More'"),
    "a cell too many": (lambda f: put(f, ["x"], ["a", "b"]), "row 2 has more cells than the 1 col"),
    "a number as name": (lambda f: put(f, ["x", 3], ["a", "b"]), "the name of a column is 3"),
    "no column": (lambda f: put(f, ["y"], ["a"]), "a.xlsx: .*column.*'x'"),
    "no rows": (lambda f: put(f, ["x"]), "a.xlsx has no rows"),
    "nothing": (put, "a.xlsx: .*column.*'x'"),
}


@pytest.mark.parametrize(("write", "why"), WRONG.values(), ids=[*WRONG])
def test_a_workbook_that_is_no_table_is_refused(tmp_path, write, why):
    with pytest.raises(DataError, match=why):
        cells(write(tmp_path / "a.xlsx"), "x")


def test_the_package_is_named_if_it_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DataError, match=r"a.xlsx is read with openpyxl: pip install 'vlbench\[xl"):
        cells(tmp_path / "a.xlsx", "x")


def test_a_table_with_tabs_passes_the_checks_of_csv(tmp_path):
    file = tmp_path / "a.tsv"
    file.write_text('x\ty\n"a, b"\t"c\td"\n', "utf-8")
    assert column_names(file, file.name) == ["x", "y"]
    assert cells(file, "x", "y") == {"x": ["a, b"], "y": ["c\td"]}
    file.write_text("x\ty\na,b\n", "utf-8")
    with pytest.raises(DataError, match=r"a.tsv, line 2, .* one cell for each of x, y"):
        cells(file, "x")


@pytest.mark.parametrize("name", ["q.tsv", "q.xlsx"])
def test_questions_of_ones_own_may_be_in_either(tmp_path, name):
    rows = [["image", "question", "A", "B", "answer"], ["1.png", "which ?", "cat", "dog", "B"]]
    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    if name == "q.xlsx":
        put(tmp_path / name, *rows)
    else:
        (tmp_path / name).write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    test = questions(root=tmp_path, test=name).splits["test"]
    assert [*test["options"], *test["right_answers"]] == [["cat", "dog"], ["dog"]]
