"""`vlbench leaderboard scatter`: draw the models of two tasks, one score against the other."""

from __future__ import annotations

import argparse
from io import BytesIO

from vlbench.catalog.catalog import load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_data_name, add_file, add_output
from vlbench.errors import counted
from vlbench.report.rows import named_boards
from vlbench.report.table import title_of
from vlbench.system.files import write_whole

FORMATS = (".png", ".svg", ".pdf")


def add_options(scatter: argparse.ArgumentParser) -> None:
    """Add the options for the two tasks and the file."""
    scatter.add_argument("x", metavar="TASK", help="along the horizontal axis")
    scatter.add_argument("y", metavar="TASK", help="along the vertical axis")
    add_file(scatter, *FORMATS)
    add_data_name(scatter)
    add_output(scatter, or_shipped=True)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the figure, and return the number of models and the correlation of their scores."""
    from vlbench.drawing.fonts import add_fonts
    from vlbench.report.figures.charts import styled
    from vlbench.report.figures.scatter import pair_of, scatter

    catalog, names = load_catalog(arguments.include_path), (arguments.x, arguments.y)
    boards = [board for name in names for board in named_boards(arguments.output, [name])]
    titles = [title_of(board.task, catalog.tasks.get(board.task), board) for board in boards]
    pair, content = pair_of(boards, titles, arguments.data), BytesIO()
    with styled():
        figure = scatter(pair)
        add_fonts(figure)
        figure.savefig(content, format=arguments.file.suffix[1:], dpi=150)
    write_whole(arguments.file, content.getvalue())
    models = counted(len(pair.scores), "model")
    return Answer([f"{models} in {arguments.file}; {pair.verdict}"])
