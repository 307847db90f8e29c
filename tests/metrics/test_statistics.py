import importlib
import sys

import numpy as np
import pytest

from vlbench.metrics import intervals


def test_the_old_names_are_the_new_functions_and_warn():
    sys.modules.pop("vlbench.metrics.statistics", None)
    with pytest.warns(FutureWarning, match=r"import from vlbench\.metrics\.intervals"):
        old = importlib.import_module("vlbench.metrics.statistics")
    hits = np.array([1, 0])
    assert old.bootstrap_fraction(hits, hits + 1) == intervals.clustered_fraction(hits, hits + 1)
    assert (old.wilson, old.mean_of_trials) == (intervals.wilson, intervals.mean_of_trials)
