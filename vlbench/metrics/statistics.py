"""The name that `vlbench.metrics.intervals` had; it goes with the next release."""

import warnings

from vlbench.metrics.intervals import clustered_fraction as bootstrap_fraction
from vlbench.metrics.intervals import mean_of_trials, wilson

__all__ = ["bootstrap_fraction", "mean_of_trials", "wilson"]

NEW = "import from vlbench.metrics.intervals, where bootstrap_fraction is clustered_fraction"
warnings.warn(f"vlbench.metrics.statistics goes: {NEW}", FutureWarning, stacklevel=2)
