"""Selections of planted rows, and names that strangers may give, for the tests of exports."""

import json
from types import SimpleNamespace

from planted_boards import board, result, score

from vlbench.catalog.catalog import Catalog
from vlbench.leaderboard.export.selection import select

NOTHING = Catalog({}, {})

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b",
    r"$\frac{$",
    "=cmd()",
    "two\nlines",
    "\"double\" 'single' `back` ''two'' --",
    "naïve 模型 Ångström þ ☃",
    "[x] *y* _z_ ~w~ #1 @me &amp; 5% {b} \\\\ ^ https://x.example www.x.example",
    "* starred",
    "--> <!-- vlbench:end t -->",
]


def selection(folder, *boards, catalog=NOTHING):
    return select(folder, boards, catalog)


def named(folder, *names):
    """Return a selection of a board with a row for each name, the first the best."""
    rows = [result(name, score(0.9 - i / 100)) for i, name in enumerate(names)]
    return selection(folder, board(*rows))


def referring(value=0.25, where="Table 1", model="m"):
    """Return a catalogue whose task gives a published number for the planted primary score."""
    one = {"model": model, "metric": "accuracy", "at": {"shots": 5}, "value": value, "where": where}
    return Catalog({"t": SimpleNamespace(reference=[one])}, {})


def compared(folder, leader="a", tied=(), pairs=("b", "c"), **rest):
    """Write a file of comparisons of the planted set."""
    one = {
        "comparable": "a",
        "leader": leader,
        "tied": list(tied),
        "pairs": [{"model": model, "p_holm": 0.01} for model in pairs],
        "untested": {},
    }
    content = {"schema": 1, "task": "t", "version": 1, "primary": {}, "sets": [one | rest]}
    (folder / "comparisons").mkdir()
    (folder / "comparisons" / "t.json").write_text(json.dumps(content))
    return folder
