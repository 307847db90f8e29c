"""What a run ended with."""

from __future__ import annotations

from dataclasses import dataclass, field

from vlbench.results import Result


@dataclass(frozen=True, kw_only=True)
class Report:
    """Results, kept ones too; why tasks have no data, and why models did not load."""

    results: list[Result] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    not_loaded: dict[str, str] = field(default_factory=dict)
