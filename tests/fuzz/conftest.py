"""How many mutants of a kind of file are tried: `pytest tests/fuzz --fuzz N`."""

import pytest

DEFAULT = 50


def pytest_addoption(parser):
    parser.addoption("--fuzz", type=int, default=DEFAULT, help="mutants of each kind of file")


@pytest.fixture
def mutants(request) -> int:
    """The number of mutants of each kind."""
    # Only where this folder is named does pytest know the option.
    return request.config.getoption("fuzz", DEFAULT)
