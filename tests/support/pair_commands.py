"""A command line that the processes of a pair run; what commands import is imported once."""

import os
import sys
from tempfile import TemporaryFile

import pandas as pd  # noqa: F401
import sklearn.metrics  # noqa: F401
import torchvision.transforms.functional  # noqa: F401

import vlbench.report.texts  # noqa: F401
from vlbench.cli import main


def run_command(_, words):
    """Run a command line; return its exit code, its standard output and its standard error.

    The process that runs it writes elsewhere from then on, and should end.
    """
    with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
        for number, file in ((1, out), (2, errors)):
            os.dup2(file.fileno(), number)
        code = main(words)
        return code, text_of(sys.stdout, out), text_of(sys.stderr, errors)


def text_of(stream, file):
    stream.flush()
    file.seek(0)
    return file.read()
