"""Tables as a terminal shows them."""

import io

from rich.console import Console


def rendered(*tables, width=200):
    """Return the text of tables at a terminal so wide."""
    console = Console(record=True, width=width, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()
