"""The version of vlbench."""

__version__ = "1.1.0"
