from pathlib import Path

import pytest

from vlbench.report.rows import named_boards


@pytest.fixture
def shipped() -> Path:
    """The folder of the shipped boards."""
    return Path(__file__).parents[3] / "leaderboards"


@pytest.fixture
def shipped_boards(shipped):
    return named_boards(shipped, [])
