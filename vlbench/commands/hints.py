"""Hints for unknown words of the command line: the nearest known word."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from vlbench.errors import printed

# The names of the same option in other commands.
ALSO = {"--format": "--json", "--json": "--format", "--to": "--file", "--file": "--to"}

# The smallest similarity (difflib's ratio) of a misspelled option: --split is not --limit.
ALIKE = 0.75


class _Store(argparse._StoreAction):  # noqa: SLF001 - argparse has no public name for it
    """Stores a value, and tells the parser if its option is typed a second time, however spelt."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        if option and self.nargs is None:
            if self.dest in parser.typed:
                hint = ", its values separated by commas" if ",..." in str(self.metavar) else ""
                parser.twice = f"{self.option_strings[-1]} is given twice; give it once{hint}"
            parser.typed.add(self.dest)
        super().__call__(parser, namespace, values, option)


class HintingParser(argparse.ArgumentParser):
    """A parser whose errors suggest what was probably meant.

    `commands` holds the parser of each command, and `inner` the whole command for each word that
    is a command only behind another word. `module` is the module of a command, which is imported
    and adds its options when the command's word is typed.
    """

    def __init__(self, *values: Any, module: str = "", **options: Any) -> None:
        super().__init__(*values, **options)
        self.register("action", None, _Store)
        self.register("action", "store", _Store)
        self.typed: set[str] = set()
        self.twice = ""
        self.commands: dict[str, HintingParser] = {}
        self.inner: dict[str, str] = {}
        self._module = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments, and the unknown words."""
        self.load_options()
        return super().parse_known_args(args, namespace)

    def load_options(self) -> None:
        """Import the command's module, and add its options, once."""
        name, self._module = self._module, ""
        if name:
            command = import_module(name)
            command.add_options(self)
            self.set_defaults(answer=command.answer, parser=self)

    def parse_args(self, args: Any = None, namespace: Any = None, *, once: bool = True) -> Any:
        """Return the arguments; a word that no command knows is an error with a hint.

        With `once`, an option that is typed twice is an error if only its last value would count.
        """
        words = list(sys.argv[1:] if args is None else args)
        arguments, unknown = self.parse_known_args(words, namespace)
        command = getattr(arguments, "parser", self)
        if unknown:
            problem = f"unrecognized arguments: {' '.join(unknown)}"
            self.error("; ".join([problem, *_hints(command, unknown)]))
        if once and command.twice:
            self.error(command.twice)
        if hasattr(arguments, "parser"):
            del arguments.parser
        return arguments

    def error(self, message: str) -> NoReturn:
        """Exit with 2; the error of a wrong choice names the nearest valid choice."""
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), 1) if choice else []
        near = [self.inner[choice[1]]] if choice and choice[1] in self.inner else near
        hint = f"; did you mean {near[0]}?" if near else ""
        super().error(printed(message) + hint)


def _hints(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    options = re.findall(r"^ .*?(--[a-z][a-z-]*)", parser.format_help(), re.MULTILINE)
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    same = [ALSO[name] for name in names if ALSO.get(name) in options]
    near = same or [close for name in names for close in get_close_matches(name, options, 1, ALIKE)]
    return [f"did you mean {name}?" for name in near]
