"""Live models, loaded once for all jobs that use them, and freed together."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from inspect import signature
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from vlbench.capabilities import ImageEncoder, element, narrowed, offered, parts
from vlbench.code.fingerprints import LiveModel, identified
from vlbench.data.records import Column, Data
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.tuning import tune
from vlbench.errors import CannotDo, WeightsError
from vlbench.run.model import Model
from vlbench.run.task import Task
from vlbench.schema import alternatives, hints, parameters
from vlbench.system import hub
from vlbench.system.digests import digest


class LiveModels:
    """The model under test and its companions, until `free` is called.

    If a folder for `answers` is given, answers of servers whose models the user pinned are kept
    there.
    """

    def __init__(
        self, settings: ComputeSettings, processes: Processes, answers: Path | None = None
    ) -> None:
        self._settings = settings
        self._processes = processes
        self._answers = answers
        self._live: dict[str, LiveModel] = {}
        self._asked: dict[tuple[int, type], str] = {}
        self._tuned: dict[str, ComputeSettings] = {}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which adapters compute."""
        return self._settings.dtype

    def get(self, model: Model) -> LiveModel:
        """Return a model, loaded at the first call, after the companions that it is made from.

        Raises WeightsError for a damaged download, and whatever the adapter raises.
        """
        if model.key not in self._live:
            with hub.checked_downloads(WeightsError):
                live = self._load(model)
            self._live[model.key] = live
        return self._live[model.key]

    def untrained(self, model: Model, draw: int) -> tuple[Any, str]:
        """Load a draw of the adapter of a model with random weights; return it with its identity.

        It is not kept. Raises what `Model.untrained` and `get` raise.
        """
        with hub.checked_downloads(WeightsError):
            live = self._load(model.untrained(draw))
        return live.adapter, live.identity

    def companions(self, task: Task) -> dict[str, list[LiveModel]]:
        """Return the companions of a task, by parameter."""
        return {key: [self.get(one) for one in models] for key, models in task.companions.items()}

    def require(self, model: Model, task: Task) -> None:
        """Ask live models for the capabilities a task needs, if adapters find them at run time.

        A model loses the capabilities that it turns out not to have. Raises CannotDo, with the
        adapter's reason, if it then cannot do the task.
        """
        needed = [(model, task.needs)]
        for key, models in task.companions.items():
            needed += [(companion, hints(task.probe)[key]) for companion in models]
        for subject, annotation in needed:
            adapter = self.get(subject).adapter
            if hasattr(adapter, "lacks"):
                self._ask(adapter, annotation, offered(subject.adapter, subject.spec.without))

    def _ask(self, adapter: Any, annotation: Any, can: Sequence[type]) -> None:
        options = [parts(element(option)) for option in alternatives(annotation)]
        possible = [option for option in options if option and {*option} <= {*can}]
        why = {part: self._why(adapter, part) for part in chain.from_iterable(possible)}
        lost = [part.__name__ for part, reason in why.items() if reason]
        adapter.__class__ = narrowed(type(adapter), lost)
        if all(any(why[part] for part in option) for option in possible):
            raise CannotDo("; ".join(dict.fromkeys(filter(None, why.values()))))

    def _why(self, adapter: Any, part: type) -> str:
        """Return why a live adapter does not have a capability, asked once; empty if it has it."""
        key = id(adapter), part
        if key not in self._asked:
            (self._asked[key], *_) = self._processes.attempt(lambda: adapter.lacks(part))
        return self._asked[key]

    def identities(self) -> dict[int, str]:
        """Return the identity of each live adapter, by its `id`."""
        return {id(live.adapter): live.identity for live in self._live.values()}

    def settings(self, model: Model, data: Data) -> ComputeSettings:
        """Return the settings with which a model computes; a batch size of `auto` is measured once.

        It is measured for models that encode images, on the first image of the data.
        """
        images = _images(data)
        adapter: Any = self.get(model).adapter
        if self._settings.batch_size or images is None or not isinstance(adapter, ImageEncoder):
            return self._settings
        if model.key not in self._tuned:
            (self._tuned[model.key], *_) = self._processes.attempt(
                lambda: tune(self._settings, adapter.encode_images, images)
            )
        return self._tuned[model.key]

    def free(self) -> None:
        """Drop all models, and free their memory."""
        self._live.clear()
        self._tuned.clear()
        self._asked.clear()
        gc.collect()
        if self._settings.device.type == "cuda":
            torch.cuda.empty_cache()

    def _load(self, model: Model) -> LiveModel:
        device, dtype = self._settings.device, self._settings.dtype
        if model.instance is not None:
            return identified(model.instance, None, device, dtype)
        companions = {name: self.get(companion) for name, companion in model.companions.items()}
        adapters = {name: live.adapter for name, live in companions.items()}
        filled = _fill(model.adapter, {"device": device, "dtype": dtype})
        adapter = model.adapter(**filled, **{**model.arguments, **adapters})
        if self._answers and model.pinned and hasattr(adapter, "keep_answers"):
            name = digest([model.name, model.served]).removeprefix("sha256:")
            adapter.keep_answers(self._answers / f"{name}.jsonl")
        made_of = {name: live.identity for name, live in companions.items()}
        live = identified(adapter, model.contents | made_of, device, dtype)
        if len(companions) == 1 and live.weights == digest(
            {}
        ):  # it has the weights of its companion
            (of,) = companions.values()
            live = live._replace(source=f"{live.source} of {of.source}", weights=of.weights)
        is_known = all(made_of.values()) and not model.may_change
        return live if is_known else live._replace(identity="")


def _fill(adapter: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that vlbench gives an adapter, as far as its signature has them."""
    names = parameters(adapter)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature(adapter).parameters.values())
    return {name: value for name, value in values.items() if takes_any or name in names}


def _images(data: Data) -> Column | None:
    """Return the first column of images that is not empty."""
    columns: Sequence[Column] = [
        split["image"] for split in data.splits.values() if "image" in split.columns
    ]
    return next((column for column in columns if len(column)), None)
