"""Every error that vlbench raises on purpose, by what the reader has to fix.

VlbenchError
├── SpecError          a task, a models.yaml or an adapter's signature: fix the file
├── UnknownNameError   a name that no source has: fix the command
├── DataError          an image or a table that cannot be read: fix the machine's data
│   └── DataAbsent     a data set that is not there: fetch it
├── TooFewRows         a split is too small for what the task asks
├── CannotDo           this model cannot do this task: skipped, with the reason
├── WeightsError       weights cannot be had or loaded
├── IdentityClash      another model already stands on the board under this name
├── ProcessLost        another process of this run, perhaps on another machine, has ended
└── OutputError        a result cannot be written
"""

from collections.abc import Iterable
from difflib import get_close_matches

# Of the names that there are, in a message.
MOST_NAMES = 30


class VlbenchError(Exception):
    """What went wrong, where, and the way out, in one message."""


class SpecError(VlbenchError):
    """A file that says something vlbench cannot do; lists every problem found."""


class UnknownNameError(VlbenchError):
    """A name that no source has."""


class DataError(VlbenchError):
    """Data that is there but cannot be used."""


class DataAbsent(DataError):  # noqa: N818 - the contract's name
    """Data that is not there: what, where to get it, and where to put it."""

    def __init__(self, what: str, where_to_get: str, where_to_put: str) -> None:
        super().__init__(f"{what} is absent; get it from {where_to_get}; put it at {where_to_put}")
        self.what = what
        self.where_to_get = where_to_get
        self.where_to_put = where_to_put


class TooFewRows(VlbenchError):  # noqa: N818 - reads as the reason in a row
    """A split has fewer rows than the task needs."""


class CannotDo(VlbenchError):  # noqa: N818 - the contract's name
    """The model, or this checkpoint of it, lacks what the task needs."""


class WeightsError(VlbenchError):
    """Weights that cannot be had or loaded."""


class IdentityClash(VlbenchError):  # noqa: N818 - reads as the reason
    """An ok row of the same name has other weights or another adapter source."""


class ProcessLost(VlbenchError):  # noqa: N818 - says what happened
    """Another process of this run no longer answers; finished work is saved."""


class OutputError(VlbenchError):
    """A board or an artifact that cannot be written."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that is not among the known ones, with the nearest of them."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    listed = ", ".join(names[:MOST_NAMES]) or "none"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {listed}{more}"
    return UnknownNameError(f"no {kind} is named '{name}'; {hint}")
