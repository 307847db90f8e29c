"""The formats: what each is called, and whether it is one text or a folder of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vlbench.leaderboard.export.comma_separated import comma_separated
from vlbench.leaderboard.export.every_eval_ever import File, Source, records
from vlbench.leaderboard.export.hub_results import hub_results
from vlbench.leaderboard.export.latex import latex
from vlbench.leaderboard.export.markdown import markdown
from vlbench.leaderboard.export.plain_json import plain_json
from vlbench.leaderboard.export.selection import LeftOut, Selection

TEXTS: Mapping[str, Callable[[Selection], str]] = {
    "md": markdown,
    "csv": comma_separated,
    "tex": latex,
    "json": plain_json,
}
FOLDERS: Mapping[str, Callable[[Selection, Source], Iterator[File | LeftOut]]] = {
    "eee": records,
    "hf": hub_results,
}
