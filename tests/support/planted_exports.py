"""Selections of planted rows, and names that strangers may give, for the tests of exports."""

from types import SimpleNamespace

from planted_boards import board, result, score

from vlbench.catalog.catalog import Catalog
from vlbench.report.export import select
from vlbench.report.leaders import Leaders
from vlbench.report.table import tables_of

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
    return selection(folder, _ranked(names))


def compared(folder, *names, tied=()):
    """Return the same, after the first was compared with the others, and told apart but if tied."""
    p = {name: 0.5 if name in tied else 0.01 for name in names[1:]}
    tables = tables_of(_ranked(names), {"a": Leaders(names[0], tied, {}, p)}, None)
    return named(folder, *names)._replace(tables={"t": tables})


def _ranked(names):
    return board(*(result(name, score(0.9 - i / 100)) for i, name in enumerate(names)))


def referring(value=0.25, where="Table 1", model="m"):
    """Return a catalogue whose task gives a published number for the planted primary score."""
    one = {"model": model, "metric": "accuracy", "at": {"shots": 5}, "value": value, "where": where}
    return Catalog({"t": SimpleNamespace(reference=[one], title="")}, {})
