import shutil
import subprocess

import pytest
from planted_boards import board, result, score
from planted_exports import HOSTILE, compared, named, selection

from vlbench.catalog.catalog import load_catalog
from vlbench.report.export import tex
from vlbench.report.export.tex import escaped

DOCUMENT = (
    r"\documentclass{article}\usepackage{booktabs}\begin{document}" + "\n%s\n\\end{document}\n"
)


def compiled(folder, text):
    """Return what TeX says of a document with the tables, after it ended well."""
    tex = next(filter(shutil.which, ["tectonic", "pdflatex"]), None)
    if tex is None:
        pytest.skip("neither tectonic nor pdflatex is here")
    (folder / "tables.tex").write_text(DOCUMENT % text, "utf-8")
    options = ["-halt-on-error", "-interaction=nonstopmode"] if tex == "pdflatex" else []
    command = [tex, *options, "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")
    return done.stdout.decode("utf-8", "replace")


def test_the_table_has_rules_of_booktabs_and_an_arrow_for_the_better_direction(tmp_path):
    lines = tex.text(named(tmp_path, "one", "two")).splitlines()
    start = lines.index(r"\toprule")
    assert lines[0] == r"% Needs \usepackage{booktabs} in the preamble."
    assert lines[start + 1].startswith(r"model & accuracy (shots 5) $\uparrow$ & 95 \% interval")
    assert lines[start + 2] == r"\midrule"
    assert lines[start + 3].startswith(r"one & 90.0 \% & - & 100 & - &")
    assert lines[start + 5] == r"\bottomrule"


def test_where_lower_is_better_the_arrow_points_down_and_a_minus_is_one(tmp_path):
    row = result("a-1", score(-0.25, ci95=(-0.5, -0.125), higher_is_better=False))
    text = tex.text(selection(tmp_path, board(row)))
    assert r"(shots 5) $\downarrow$" in text
    assert r"a-1 & $-$25.0 \% & $-$50.0 to $-$12.5 &" in text


def test_the_best_is_bold_where_it_is_told_apart(tmp_path):
    text = tex.text(compared(tmp_path, "a", "b", "c"))
    assert r"\textbf{a} & \textbf{90.0 \%} &" in text
    assert "\nb & 89.0" in text
    assert r"Bold: differs from every other model at 5 \%" in text


def test_a_tied_leader_is_not_bold(tmp_path):
    assert "textbf" not in tex.text(compared(tmp_path, "a", "b", "c", tied=["b"]))


def test_rows_that_may_not_be_compared_stand_in_two_tables(tmp_path):
    rows = [result(m, score(), comparable=c) for m, c in zip("abcd", "1122", strict=True)]
    assert tex.text(selection(tmp_path, board(*rows))).count(r"\begin{table}") == 2


ESCAPED = [
    ("50 % of a_b & c#1", r"50 \% of a\_b \& c\#1"),
    (r"$\frac{$", r"\$\textbackslash{}frac\{\$"),
    ("[x]*", "{[}x{]}{*}"),
    ("a--b, ''q'',,", "a-{}-b, '{}'q'{}',{},"),
    ("naïve þ 模 ☃", r"naïve \textbackslash{}xfe \textbackslash{}u6a21 \textbackslash{}u2603"),
    ('two\n"lines"', r"two \texttt{\char34}lines\texttt{\char34}"),
]


@pytest.mark.parametrize(("text", "tex"), ESCAPED)
def test_a_text_stands_for_itself(text, tex):
    assert escaped(text) == tex


def test_hostile_names_compile(tmp_path):
    compiled(tmp_path, tex.text(named(tmp_path, *HOSTILE)))


def test_the_shipped_boards_compile(tmp_path, shipped_boards, shipped):
    text = tex.text(selection(shipped, *shipped_boards, catalog=load_catalog()))
    compiled(tmp_path, text)
    assert text.count(r"\begin{table}") >= 22
