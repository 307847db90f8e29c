"""A run's live side: models come and go, probes run on them, results are kept."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch

from vlbench import boards
from vlbench.engine import Engine, Progress, devices
from vlbench.engine.fingerprints import Known, contents, know
from vlbench.engine.passes import Place
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.planning.jobs import Cell
from vlbench.planning.models import ModelPlan
from vlbench.planning.options import Options
from vlbench.planning.tasks import TaskPlan
from vlbench.resolve import parameters
from vlbench.results import Outcome, Result, counts_of, read_result, require_primary
from vlbench.running.provenance import comparable_of, provenance_of, run_facts

# The folders of an absolute path: of somebody's machine, which no row may tell of.
LOCAL_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s'\"/]+/)+")


class Ran(NamedTuple):
    """A probe's outcome with what the row says of how it came about."""

    outcome: Outcome
    comparable: str
    provenance: Mapping[str, Any]
    run: Mapping[str, Any]


class Session:
    """Holds one model at a time, its companions, and the store that all of them share."""

    def __init__(self, options: Options, progress: Progress, processes: Processes) -> None:
        self._options = options
        self._progress = progress
        self.processes = processes
        self._device = options.torch_device()
        self._dtype = options.torch_dtype()
        self._live: dict[str, Known] = {}
        self._model: Known | None = None
        self._temporary: Path | None = None

    def __enter__(self) -> Self:
        """Settle the device, and make the store's folder: the cache's, or one that goes again."""
        devices.settle(self._device)
        if self._options.cache_dir is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="vlbench-"))
        self._store = Store((self._temporary or self._options.cache_dir or Path()) / "features")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Free the model, and the store that was the session's own."""
        self.close()
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def open(self, cell: Cell) -> None:
        """Load the model of a cell, as its task wants it."""
        self._place = Place(self._device, self._options.batch_size, self._options.workers())
        self._progress.begin(cell.model.name, cell.task.spec.name)
        if cell.model.instance is not None:
            self._model = know(cell.model.instance, None, self._device, self._dtype)
        else:
            self._model = self.load(cell.model, cell.task)

    def close(self) -> None:
        """Free the model and its companions."""
        if self._model is None:
            return
        self._model = None
        self._live.clear()
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def probe(self, cell: Cell) -> Ran:
        """Return what the task's probe finds on the open model.

        Raises IdentityClash where the board has this name with other weights, and SpecError
        where the task's primary score is not exactly one of those that the probe gave.
        """
        assert self._model
        assert cell.data
        self._progress.begin(cell.model.name, cell.task.spec.name)
        partners = {
            key: [self.load(plan) for plan in plans] for key, plans in cell.task.companions.items()
        }
        provenance = provenance_of(cell, self._model, partners, self._options.dtype)
        comparable = comparable_of(cell, partners)
        if self._writes and not self._options.overwrite:
            draft = self.result(cell, "ok", comparable=comparable, provenance=provenance)
            boards.refuse_clash(self._output, draft)
        known = [self._model, *self._live.values()]
        engine = Engine(
            self._place,
            store=self._store,
            identities={id(k.adapter): k.identity for k in known if k.identity},
            progress=self._progress,
            processes=self.processes,
        )
        start = time.perf_counter()
        live = {k: _as_annotated(cell.task, k, p) for k, p in partners.items()}
        outcome = cell.task.probe(
            self._model.adapter, cell.data, engine, **cell.task.params, **live
        )
        where = cell.task.spec.document.where("primary").rpartition("/")[2]
        require_primary(outcome, cell.task.primary, where)
        seconds = time.perf_counter() - start
        self._place = engine.place  # once measured, it holds for the model's other tasks
        facts = run_facts(engine.place, self.processes.size, seconds)
        return Ran(outcome, comparable, provenance, facts)

    def keep(self, cell: Cell, status: str, value: Any) -> Result:
        """Return the result of a cell, written to its board where there are boards."""
        if status == "ok":
            result = self._ok(cell, value)
        elif status == "too few":
            limited = self._options.limit is not None
            reason = "limit" if limited else value
            result = self.result(cell, "skipped" if limited else "failed", reason=reason)
        else:
            result = self.result(cell, status, reason=value)
        if self._writes:
            boards.write_result(self._output, result)
        return result

    @property
    def _output(self) -> Path:
        assert self._options.output
        return self._options.output

    @property
    def _writes(self) -> bool:
        wanted = self._options.output is not None and self._options.limit is None
        return wanted and self.processes.is_main

    def _ok(self, cell: Cell, ran: Ran) -> Result:
        assert cell.data
        artifacts = (
            boards.save_artifacts(
                self._output, cell.task.spec.name, cell.model.name, ran.outcome.artifacts
            )
            if self._writes
            else {}
        )
        missing = cell.data.missing_rows()
        notes = [
            f"partial: {split} lacks {n} of {cell.data.expected[split]} rows"
            for split, n in missing.items()
        ]
        return self.result(
            cell,
            "ok",
            comparable=ran.comparable,
            scores=ran.outcome.scores,
            counts=counts_of(ran.outcome, cell.task.primary, sum(missing.values())),
            artifacts=artifacts,
            notes=[*notes, *ran.outcome.notes],
            provenance=ran.provenance,
            run=ran.run,
        )

    def read(self, cell: Cell, row: Mapping[str, Any]) -> Result:
        """Return what a board already holds for a cell."""
        spec = cell.task.spec
        head = {"task": spec.name, "version": spec.version, "paper": spec.paper}
        return read_result(head | {"primary": cell.task.primary}, row)

    def result(self, cell: Cell, status: str, **rest: Any) -> Result:
        """Return a result of a cell, without writing it."""
        spec = cell.task.spec
        return Result(
            task=spec.name,
            version=spec.version,
            paper=spec.paper,
            primary=cell.task.primary,
            model=cell.model.name,
            status=status,
            request=cell.request,
            **rest | {"reason": LOCAL_PATH.sub("", rest.get("reason", ""))},
        )

    def load(self, model: ModelPlan, task: TaskPlan | None = None) -> Known:
        """Return a model made from its line, its own companions loaded first."""
        params = model.params(task.spec if task else None)
        key = repr((model.spec.name, params))
        if key in self._live:
            return self._live[key]
        inner = {name: self.load(partner) for name, partner in model.partners.items()}
        place = {"device": self._device, "dtype": self._dtype}
        takes_any = any(
            p.kind is p.VAR_KEYWORD for p in signature(model.adapter).parameters.values()
        )
        given = {k: v for k, v in place.items() if takes_any or k in parameters(model.adapter)}
        made = {k: inner[k].adapter if k in inner else v for k, v in params.items()}
        adapter = model.adapter(**given, **made)
        known_by = contents(params) | {k: v.identity for k, v in inner.items()}
        self._live[key] = know(adapter, known_by, self._device, self._dtype)
        return self._live[key]


def _as_annotated(task: TaskPlan, key: str, partners: list[Known]) -> Any:
    """Return companions as the probe takes them: one, or a list."""
    adapters = [known.adapter for known in partners]
    return adapters if task.takes_list(key) else adapters[0]
