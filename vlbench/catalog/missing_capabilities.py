"""The methods that an adapter is missing for a capability."""

from __future__ import annotations

import inspect
import types
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from vlbench import capabilities
from vlbench.capabilities import capabilities_in, element, has, methods, parts
from vlbench.schema import alternatives

# The smallest similarity, 0..1, at which a method's name counts as a misspelling of another.
ALIKE = 0.8


def lacking(adapter: type, annotation: Any, without: Sequence[str] = ()) -> str:
    """Return the fewest capabilities that an adapter class lacks for an annotation; "" if none."""
    options = [element(a) for a in alternatives(annotation) if a is not types.NoneType]
    gaps = [[p for p in parts(o) if not has(adapter, p, without)] for o in options]
    if not all(gaps):
        return ""
    least = [gap for gap in gaps if not any({*other} < {*gap} for other in gaps)]
    return " or ".join(" and ".join(_with_gap(adapter, p, without) for p in gap) for gap in least)


def half_offered(adapter: type, part: type, others: Sequence[type] = ()) -> str:
    """Return the methods missing from a capability that an adapter class implements in part.

    A class implements a capability in part if it has a method of it, or a method with nearly the
    name of a missing method. A method that several capabilities share, such as `preprocess`, counts
    for the capabilities of which the class has more. The known capabilities are vlbench's and
    `others`. Empty if the class has all methods or implements no part.
    """
    kinds = list(dict.fromkeys([*capabilities_in(capabilities), part, *others]))
    missing = [name for name in methods(part) if not _defines(adapter, name)]
    present = [name for name in methods(part) if name not in missing]
    sharing = [kind for kind in kinds if kind is not part and set(present) & set(methods(kind))]
    begun = _is_begun(adapter, part, kinds) or (
        present and not any(has(adapter, one) or _is_begun(adapter, one, kinds) for one in sharing)
    )
    if not (missing and begun):
        return ""
    near = _near(adapter, part, kinds)
    return ", ".join(
        f"{name} is missing; did you misspell it as {near[name]}?"
        if name in near
        else f"{_signature(part, name)} is missing"
        for name in missing
    )


def half_offered_by(
    adapter: type, without: Sequence[str] = (), others: Sequence[type] = ()
) -> dict[str, str]:
    """Return the missing methods of each capability implemented in part, by its name."""
    kinds = [*capabilities_in(capabilities), *others]
    gaps = {kind.__name__: half_offered(adapter, kind, others) for kind in kinds}
    return {name: gap for name, gap in gaps.items() if gap and name not in without}


def signatures(part: type) -> list[str]:
    """Return the methods of a capability with their parameters and results."""
    return [_signature(part, name) for name in methods(part)]


def _is_begun(adapter: type, part: type, kinds: Sequence[type]) -> bool:
    """Return whether an adapter has a method only of this capability, or nearly of that name."""
    shared = {name for kind in kinds if kind is not part for name in methods(kind)}
    alone = [name for name in methods(part) if name not in shared and _defines(adapter, name)]
    return bool(alone or _near(adapter, part, kinds))


def _near(adapter: type, part: type, kinds: Sequence[type]) -> dict[str, str]:
    """Return for each missing method the most similar name of a method of no capability, if any."""
    wanted = {name for kind in kinds for name in methods(kind)}
    names = [n for n in dir(adapter) if n[0] != "_" and n not in wanted and _defines(adapter, n)]
    missing = [name for name in methods(part) if not _defines(adapter, name)]
    near = {name: get_close_matches(name, names, 1, ALIKE) for name in missing}
    # A method whose name is closer to another capability's method is a misspelling of that.
    return {
        name: matches[0]
        for name, matches in near.items()
        if matches and get_close_matches(matches[0], wanted, 1, ALIKE) == [name]
    }


def _defines(adapter: type, method: str) -> bool:
    return callable(getattr(adapter, method, None))


def _with_gap(adapter: type, part: type, without: Sequence[str]) -> str:
    gap = "" if part.__name__ in without else half_offered(adapter, part)
    return f"{part.__name__} ({gap})" if gap else part.__name__


def _signature(part: type, method: str) -> str:
    """Return a method with its parameters and result as in its source code, without `self`."""
    signature = inspect.signature(getattr(part, method))
    rest = [parameter for name, parameter in signature.parameters.items() if name != "self"]
    return f"{method}{signature.replace(parameters=rest)}".replace("'", "")
