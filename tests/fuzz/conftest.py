"""How many mutants of a format are tried: `pytest tests/fuzz --fuzz N`, or $VLBENCH_FUZZ."""

import os

import pytest

DEFAULT = 200


def pytest_addoption(parser):
    parser.addoption("--fuzz", type=int, default=None, help="mutants of each file format")


@pytest.fixture
def mutants(request) -> int:
    """The number of mutants of each format."""
    asked = request.config.getoption("fuzz", None)
    return int(os.environ.get("VLBENCH_FUZZ", DEFAULT)) if asked is None else asked
