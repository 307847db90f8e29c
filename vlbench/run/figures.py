"""Figures of tasks: finds and checks the functions that a task's YAML names, draws nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vlbench.catalog.listed_capabilities import shipped_probes
from vlbench.catalog.specs import TaskSpec
from vlbench.code.functions import find_object
from vlbench.errors import SpecError
from vlbench.run.options import Options
from vlbench.schema import blamed_on, parameters

# Arguments of a figure of a board or of a row: the first is required, the others optional.
ALWAYS = ("title", "read_table", "looks")
OF_BOARD, OF_ROW = ("board", *ALWAYS), ("row", *ALWAYS, "look")


def find_figures(spec: TaskSpec, options: Options) -> dict[str, Callable[..., Any]]:
    """Return the functions that draw a task's figures, by their names.

    They come from the task's source, the family of its probe, or a named module. Raises SpecError
    with every problem.
    """
    figures: dict[str, Callable[..., Any]] = {}
    problems, probe = [], shipped_probes().get("".join(spec.probe.partition(":")[:2]))
    for i, name in enumerate(spec.figures):
        where, short = partial(spec.document.where, "figures", str(i)), name.rpartition(":")[2]
        shipped = f"vlbench.probes.{probe.parent.name}.{name}" if probe and ":" in name else ""
        try:
            figure = find_object(
                where, name, spec.folders, shipped=shipped, trusted=options.trusted
            )
            _check_figure(where, name, figure)
        except SpecError as error:
            problems.append(str(error))
            continue
        if short in figures:
            problems.append(f"{where()}: two figures are named '{short}'")
        figures[short] = figure
    if problems:
        raise SpecError("\n".join(problems))
    return figures


def _check_figure(where: Callable[[], str], name: str, figure: Any) -> None:
    """Raise SpecError for an object that cannot be called with the arguments of a figure."""
    with blamed_on(where):
        required = {key for key, slot in parameters(figure).items() if slot.default is slot.empty}
    if not any(names[0] in required and required <= set(names) for names in (OF_BOARD, OF_ROW)):
        forms = f"{', '.join(OF_BOARD)}, or {', '.join(OF_ROW)}"
        raise SpecError(
            f"{where()}: a figure takes {forms}: the first, and any of the others; '{name}' takes "
            f"{', '.join(sorted(required)) or 'nothing'}"
        )
