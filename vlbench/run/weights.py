"""Whether the weights of models are available, asked of adapters before any data are read."""

from __future__ import annotations

from typing import Any

from vlbench.errors import CannotDo, SpecError, described, exits_as_errors, listed
from vlbench.run.model import Model
from vlbench.run.task import Task
from vlbench.schema import parameters


class Weights:
    """Asks for the weights of each model once."""

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}

    def missing(self, model: Model, task: Task) -> dict[str, str]:
        """Return why weights of a job are unavailable, by the name of the model.

        A job loads the model, the task's companions, and the models that these are made from.
        Raises SpecError for an adapter whose `require_weights` takes arguments that its `__init__`
        does not.
        """
        whole = [model, *task.all_companions]
        reasons = {part.name: self._why(part) for model in whole for part in model.parts()}
        return {name: why for name, why in reasons.items() if why}

    def _why(self, model: Model) -> str:
        if model.key not in self._asked:
            self._asked[model.key] = _ask(model)
        return self._asked[model.key]


def _ask(model: Model) -> str:
    """Return why the weights of a model are unavailable; empty if available or unknown."""
    require = getattr(model.adapter, "require_weights", None)
    if model.instance is not None or require is None:
        return ""
    slots = parameters(model.adapter)
    strange = parameters(require).keys() - slots.keys()
    if strange:
        where = model.spec.document.where(model.spec.name)
        raise SpecError(f"{where}: require_weights takes {listed(strange)}; __init__ does not")
    arguments: dict[str, Any] = {name: slot.default for name, slot in slots.items()}
    arguments |= model.arguments
    try:
        with exits_as_errors():
            require(**{name: arguments[name] for name in parameters(require)})
    except CannotDo:  # loading will report it
        return ""
    except Exception as error:  # noqa: BLE001 - somebody's adapter: any error is a reason
        return described(error)
    return ""
