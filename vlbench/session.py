"""A run's live side: models come and go, probes run on them, results are kept."""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch

from vlbench.adapters import (
    Known,
    contents,
    know,
    library_versions,
    shown_params,
    shown_weights,
)
from vlbench.digests import digest
from vlbench.engine import Engine, Progress, devices
from vlbench.engine.passes import Place
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.errors import SpecError
from vlbench.leaderboard import boards
from vlbench.options import Options
from vlbench.planning import ModelPlan, TaskPlan
from vlbench.provenance import code_version, run_facts
from vlbench.resolve import parameters
from vlbench.results import Outcome, Result, matching

if TYPE_CHECKING:
    from vlbench.bench import Cell


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
        provenance = self._provenance(cell, self._model, partners)
        comparable = self._comparable(cell, provenance["companions"])
        if self._writes and not self._options.overwrite:
            draft = self.result(cell, "ok", comparable=comparable, provenance=provenance)
            boards.refuse_clash(self._output, draft)
        known = [self._model, *self._live.values()]
        engine = Engine(
            Place(self._device, self._options.batch_size, self._options.workers()),
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
        _require_primary(cell.task, outcome)
        seconds = time.perf_counter() - start
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
            counts=_counts(cell.task, ran.outcome, sum(missing.values())),
            artifacts=artifacts,
            notes=[*notes, *ran.outcome.notes],
            provenance=ran.provenance,
            run=ran.run,
        )

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
            **rest,
        )

    def load(self, model: ModelPlan, task: TaskPlan | None = None) -> Known:
        """Return a model made from its line, its own companions loaded first."""
        params = model.params(task.spec if task else None)
        key = repr((model.spec.name, params))
        if key in self._live:
            return self._live[key]
        inner = {name: self.load(partner) for name, partner in model.partners.items()}
        place = {"device": self._device, "dtype": self._dtype}
        given = {k: v for k, v in place.items() if k in parameters(model.adapter)}
        made = {k: inner[k].adapter if k in inner else v for k, v in params.items()}
        adapter = model.adapter(**given, **made)
        known_by = contents(params) | {k: v.identity for k, v in inner.items()}
        self._live[key] = know(adapter, known_by, self._device, self._dtype)
        return self._live[key]

    def _provenance(
        self, cell: Cell, model: Known, partners: Mapping[str, list[Known]]
    ) -> dict[str, Any]:
        flat = [
            (plan.name, known)
            for key, plans in cell.task.companions.items()
            for plan, known in zip(plans, partners[key], strict=True)
        ]
        assert cell.data
        params = cell.model.params(cell.task.spec)
        return {
            "vlbench": code_version(),
            "adapter": model.source,
            "params": shown_params(params),
            "weights": shown_weights(params, model.weights),
            "data": f"{cell.task.spec.data['loader']} {cell.data.digest()}",
            "companions": {name: known.weights for name, known in flat},
            "dtype": self._options.dtype,
            "libraries": library_versions([cell.task.probe, type(model.adapter)]),
        }

    def _comparable(self, cell: Cell, companions: Mapping[str, str]) -> str:
        """Return the digest of what rows must share to be compared."""
        assert cell.data
        regions = cell.model.spec.regions.get("kind") if cell.task.regions else None
        parts = [cell.task.fixed, cell.data.digest(), companions, regions]
        return digest(parts)


def _as_annotated(task: TaskPlan, key: str, partners: list[Known]) -> Any:
    """Return companions as the probe takes them: one, or a list."""
    adapters = [known.adapter for known in partners]
    return adapters if task.takes_list(key) else adapters[0]


def _require_primary(task: TaskPlan, outcome: Outcome) -> None:
    wanted = task.primary
    found = matching(outcome.scores, wanted)
    if len(found) != 1:
        given = sorted({f"{s.metric} at {dict(s.at)}" for s in outcome.scores})
        where = task.spec.document.where("primary").rpartition("/")[2]
        raise SpecError(f"{where}: primary {wanted} is {len(found)} of the scores {given}")


def _counts(task: TaskPlan, outcome: Outcome, missing: int) -> dict[str, int]:
    """Return the row's counts: `expected` exceeds `n` by the official rows that are missing."""
    n = matching(outcome.scores, task.primary)[0].n
    known = {"n": n, "ties": 0, "truncated_texts": 0, "clusters": n, **outcome.counts}
    return {"expected": known["n"] + missing} | known
