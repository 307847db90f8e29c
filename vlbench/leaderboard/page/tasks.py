"""What the page says of a task beside its numbers."""

from __future__ import annotations

import yaml

from vlbench.catalog.specs import TaskSpec
from vlbench.planning.privacy import cleaned, shown

# What of a task's file stands elsewhere on the page.
ELSEWHERE = ("description", "paper", "tags", "version", "reference", "primary", "claims")


def departures_of(spec: TaskSpec | None) -> list[str]:
    """Return the comments of a task's file, which say where it departs from the paper."""
    if spec is None:
        return []
    paragraphs: list[list[str]] = [[]]
    for line in spec.file.read_text("utf-8").splitlines():
        if line.lstrip().startswith("#"):
            paragraphs[-1].append(line.strip().lstrip("#").strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return [cleaned(" ".join(lines)) for lines in paragraphs if lines]


def settings_of(spec: TaskSpec | None) -> str:
    """Return the data, probe and parameters of a task as YAML, without the folders of a machine."""
    if spec is None:
        return ""
    values = {k: shown(v, k) for k, v in spec.document.values.items() if k not in ELSEWHERE}
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=72).strip()


def paper_of(paper: str) -> str:
    """Return a paper without the place in it, which stands after the first comma."""
    return paper.partition(",")[0].strip()
