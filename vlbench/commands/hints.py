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


class HintingParser(argparse.ArgumentParser):
    """A parser whose errors suggest what was probably meant.

    `commands` holds the parser of each command, and `inner` the whole command for each word that
    is a command only behind another word. `module` is the module of a command, which is imported
    and adds its options when the command's word is typed.
    """

    def __init__(self, *given: Any, module: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
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

        With `once`, an option whose last value would replace the first is an error if it is typed
        twice.
        """
        words = list(sys.argv[1:] if args is None else args)
        arguments, unknown = self.parse_known_args(words, namespace)
        if unknown:
            own = getattr(arguments, "parser", self)
            problem = f"unrecognized arguments: {' '.join(unknown)}"
            self.error("; ".join([problem, *_hints(own, unknown)]))
        if once and (twice := _typed_twice(getattr(arguments, "parser", self), words)):
            self.error(twice)
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


def _typed_twice(parser: argparse.ArgumentParser, words: Sequence[str]) -> str:
    """Return which option with one value is typed twice; empty if there is none."""
    single = {
        option: action
        for action in parser._actions  # noqa: SLF001 - argparse has no other list of its options
        for option in action.option_strings
        if type(action).__name__ == "_StoreAction" and action.nargs is None
    }
    typed = [single.get(word.partition("=")[0]) for word in words]
    for action in (one for i, one in enumerate(typed) if one and one in typed[:i]):
        several = ", its values separated by commas" if ",..." in str(action.metavar) else ""
        return f"{action.option_strings[-1]} is given twice; give it once{several}"
    return ""


def _hints(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    options = re.findall(r"^ .*?(--[a-z][a-z-]*)", parser.format_help(), re.MULTILINE)
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    same = [ALSO[name] for name in names if ALSO.get(name) in options]
    near = same or [close for name in names for close in get_close_matches(name, options, 1)]
    return [f"did you mean {name}?" for name in near]
