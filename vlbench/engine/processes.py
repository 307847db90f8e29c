"""Processes that run the same program, and all communication between them.

All processes take part in every exchange. A process that fails sends its error instead of its
message, so that all raise the same error at once. Only this module imports accelerate.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from vlbench.errors import (
    CannotDo,
    DataAbsent,
    ProcessLost,
    TooFewRows,
    UnknownNameError,
    described,
    exits_as_errors,
)

if TYPE_CHECKING:
    from vlbench.results import Status

# The longest time that a process waits for what the main process builds once.
PATIENCE = timedelta(days=7)

# The most digits of a number that a launcher sets.
MOST_DIGITS = 9


class Ended(NamedTuple):
    """How work ended: ok, skipped, unavailable or failed; with its value or the reason.

    `too_few` is True if it failed because a probe needs more rows.
    """

    status: Status
    value: Any = None
    too_few: bool = False


class EndedElsewhere(Exception):  # noqa: N818 - says what happened; may be nobody's error
    """Ended work of another process, raised so that all processes end it too."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.value)
        self.ended = ended


class Processes:
    """The `size` processes of a run; this is number `rank`. One process unless launched."""

    def __init__(self, *, cpu: bool) -> None:
        self.rank, self.size = 0, 1
        self._state: Any = None
        self._hosts: list[str] = []
        launched = number_in("WORLD_SIZE", 1)
        if launched > 1:
            from accelerate import PartialState  # noqa: PLC0415 - one process needs none of it

            try:
                self._state = PartialState(cpu=cpu, timeout=PATIENCE)
            except (ValueError, RuntimeError) as error:
                raise UnknownNameError(
                    f"WORLD_SIZE is {launched}, but no launcher started the processes: {error}"
                ) from error
            self.rank, self.size = self._state.process_index, self._state.num_processes
            if self.size != launched:
                raise RuntimeError(
                    f"{launched} processes were launched, but only {self.size} connected"
                )
            self._hosts = self._gather(socket.gethostname())

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def exchange(self, message: Any) -> list[Any]:
        """Return every process's message, by rank. Raises EndedElsewhere if a process has ended."""
        if self.size == 1:
            return [message]
        messages = self._gather(message)
        ends = [m for m in messages if isinstance(m, Ended) and m.status != "ok"]
        if ends:
            raise EndedElsewhere(ends[0])
        if len({isinstance(m, Ended) for m in messages}) > 1:
            raise RuntimeError(
                "processes diverged: one has finished a step that others are still in"
            )
        return messages

    def attempt(self, work: Callable[[], Any]) -> list[Any]:
        """Return the results of the work in every process; if one fails, all end."""
        if self.size == 1:
            return [work()]
        try:
            with exits_as_errors():
                message = work()
        except Exception as error:  # noqa: BLE001 - sent on: the others must not wait for this
            message = verdict(error)
        return self.exchange(message)

    def sum(self, work: Callable[[], Tensor], length: int, device: torch.device) -> Tensor:
        """Return the sum over processes of the work's results, float32 [length], in each process.

        It is identical in all of them: the summands are added in one order. If the work fails in
        one process, all raise its error.
        """
        if self.size == 1:
            return work()
        ended = Ended("ok")
        # The last number counts the processes whose work failed.
        numbers = torch.zeros(length + 1, device=device)
        try:
            with exits_as_errors():
                numbers[:-1] = work()
        except Exception as error:  # noqa: BLE001 - sent on, as above
            ended = verdict(error)
            numbers[-1] = 1
        with self._waiting():
            torch.distributed.all_reduce(numbers)
        if numbers[-1]:
            self.exchange(ended)
        return numbers[:-1]

    def leave(self) -> None:
        """Leave the group of processes."""
        if self._state is not None:
            # A thread of gloo may still wait for the GIL to free the tensors of the last exchange.
            # PyTorch 2.7 joins it without giving the GIL away, and so would wait for ever.
            time.sleep(0.2)
            self._state.destroy_process_group()

    def _gather(self, message: Any) -> list[Any]:
        from accelerate.utils import gather_object  # noqa: PLC0415

        with self._waiting():
            gathered: list[Any] = gather_object([message])
        return gathered

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Raise ProcessLost if a process that this one waits for inside the block has ended."""
        try:
            yield
        except RuntimeError as error:
            hosts = ", ".join(dict.fromkeys(self._hosts))
            address = re.search(r"\[([\w.:]+)\]:\d+", str(error))
            why = f"its address was {address[1]}" if address else str(error)
            raise ProcessLost(
                f"one of the {self.size} processes of this run (on {hosts}) no longer answers; "
                f"{why}. Finished work is saved; rerun the command to resume."
            ) from error


def verdict(error: Exception) -> Ended:
    """Return how work ended, from its error; an error of user code includes its line."""
    if isinstance(error, EndedElsewhere):
        return error.ended
    if isinstance(error, DataAbsent):
        return Ended("unavailable", str(error))
    if isinstance(error, CannotDo):
        return Ended("skipped", str(error))
    if isinstance(error, TooFewRows):
        return Ended("failed", str(error), too_few=True)
    return Ended("failed", described(error))


def local_device(name: str) -> torch.device:
    """Return the device of this process; `auto` is its GPU if it has one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", number_in("LOCAL_RANK", 0))
    return device


def number_in(variable: str, default: int) -> int:
    """Return the whole number in an environment variable. Raises UnknownNameError."""
    text = os.environ.get(variable, str(default))
    if not text.isdecimal() or len(text) > MOST_DIGITS:
        raise UnknownNameError(f"{variable} must be a whole number, not '{text:.20}'")
    return int(text)
