"""Measure what items cost: their part of the processor time of a run, as a ratio.

The embedded tasks that a small model can do, from an empty store. Counted are the identities of
examples, the tables, and their files; the rest of the run is the same with and without items. The
target is at most 0.02.

Run: python benchmarks/items.py [MODEL ...]
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from vlbench import results
from vlbench.data.records import Column
from vlbench.metrics import items

TASKS = "embedded"

SPENT: Counter[str] = Counter()


def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose time is added up under a name."""

    @wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            SPENT[name] += time.process_time() - start

    return timed


def main() -> None:
    """Print the part of each model's run that goes into items."""
    # Before any probe imports them by name.
    Column.examples = counted("identities", Column.examples)
    items.item_table = counted("tables", items.item_table)
    items.join_items = counted("tables", items.join_items)
    of_artifact = results.artifact_bytes
    results.artifact_bytes = lambda one: (
        counted("files", of_artifact)(one)
        if getattr(one, "column_names", [])[:1] == ["id"]
        else of_artifact(one)
    )
    import vlbench  # noqa: PLC0415 - see above

    for model in sys.argv[1:] or ["tiny-clip", "tiny-rn", "raw-pixels", "tiny-visualbert"]:
        SPENT.clear()
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            vlbench.evaluate(model, TASKS, output=Path(folder) / "boards")
            whole = time.process_time() - start
        parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in SPENT.items())
        ratio = SPENT.total() / whole
        print(f"{model}: {parts} of {whole:.1f} s: {ratio:.4f}; target 0.02")


if __name__ == "__main__":
    main()
