"""Selections of planted rows, and names that strangers may give, for the tests of exports."""

import json
from types import SimpleNamespace

from planted_boards import PRIMARY, board, result, score, write

from vlbench.catalog.catalog import Catalog
from vlbench.digests import bytes_digest
from vlbench.report.export import select

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


def selection(folder, *boards, catalog=NOTHING, organization=""):
    return select(folder, boards, catalog, organization)


def named(folder, *names):
    """Return a selection of a board with a row for each name, the first the best."""
    return selection(folder, _ranked(names))


def compared(folder, *names, tied=()):
    """Return the same, after the first was compared with the others, and told apart but if tied."""
    planted = _ranked(names)
    file = write(folder, planted) / "t.json"
    number = {"difference": 0.1, "ci95": [0.05, 0.15], "p": 0.01, "items": 9, "clusters": 9}
    pairs = [
        {"model": name, "p_all_pairs": 0.5 if name in tied else 0.01} | number for name in names[1:]
    ]
    one = {"comparable": "a", "leader": names[0], "tied": list(tied), "untested": {}}
    head = {"schema": 1, "task": "t", "version": 1, "primary": PRIMARY, "board": bytes_digest(file)}
    (folder / "comparisons").mkdir()
    content = json.dumps(head | {"sets": [one | {"pairs": pairs}]})
    (folder / "comparisons" / "t.json").write_text(content)
    return selection(folder, planted)


def _ranked(names):
    return board(*(result(name, score(0.9 - i / 100)) for i, name in enumerate(names)))


def referring(value=0.25, where="Table 1", model="m"):
    """Return a catalogue whose task gives a published number for the planted primary score."""
    one = {"model": model, "metric": "accuracy", "at": {"shots": 5}, "value": value, "where": where}
    return Catalog({"t": SimpleNamespace(reference=[one], title="")}, {})
