"""Hints for words of the command line that vlbench does not know: the nearest, or our own word."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

# Options of lm-eval, mteb and CLIP_benchmark, and what does the same here.
ELSEWHERE = {
    "--log-samples": "every row keeps its items; `vlbench items TASK MODEL` lists them",
    "--output-path": "--output DIR says where boards go",
    "--output-folder": "--output DIR says where boards go",
    "--num-fewshot": "shots are part of a task: see `vlbench ls tasks few_shot`",
    "--use-cache": "features are kept in --cache-dir DIR; --no-cache keeps none",
    "--cache-requests": "features are kept in --cache-dir DIR; --no-cache keeps none",
    "--pretrained": "--model-args weights=NAME says which weights",
    "--dataset": "--tasks NAME says what to run; --data-dir DIR where data lie",
    "--dataset-root": "--data-dir DIR says where data lie",
    "--verbosity": "there is no such choice: a run says what it does",
}


class HintingParser(argparse.ArgumentParser):
    """A parser whose errors name what was probably meant."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; a word that no command knows is an error with a hint."""
        words = list(sys.argv[1:] if args is None else args)
        arguments, unknown = self.parse_known_args(words, namespace)
        if unknown:
            own = getattr(arguments, "parser", self)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{_hints(own, unknown)}")
        if hasattr(arguments, "parser"):
            del arguments.parser
        return arguments

    def error(self, message: str) -> NoReturn:
        """Exit with 2; of a wrong choice, the nearest right one is named."""
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), 1) if found else []
        super().error(f"{message}; did you mean {near[0]}?" if near else message)


def _hints(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    options = re.findall(r"--[a-z][a-z-]*", parser.format_usage())
    hints = []
    for name in (word.partition("=")[0] for word in words if word.startswith("--")):
        near = get_close_matches(name, options, 1)
        if name in ELSEWHERE:
            hints.append(f"{name}: {ELSEWHERE[name]}")
        elif near:
            hints.append(f"did you mean {near[0]}?")
    return "".join(f"; {hint}" for hint in hints)
