"""The version of vlbench."""

__version__ = "1.0.0"
