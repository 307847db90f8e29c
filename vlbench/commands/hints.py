"""Hints for unknown words of the command line: the nearest word, or our word for it."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from vlbench.errors import printed


class Habit(NamedTuple):
    """The hint for an option of another tool, and our option of the same value, if any."""

    hint: str
    ours: str = ""


BOARDS = Habit("--output DIR says where boards go", "--output")
CACHE = "features are kept in --cache-dir DIR; --no-cache keeps none"

# Options of lm-eval, mteb and CLIP_benchmark.
ELSEWHERE = {
    "--log-samples": Habit("every row keeps its items; `vlbench items TASK MODEL` lists them"),
    "--output-path": BOARDS,
    "--output-folder": BOARDS,
    "--num-fewshot": Habit("shots are part of a task: see `vlbench ls tasks few_shot`"),
    "--use-cache": Habit(CACHE, "--cache-dir"),
    "--cache-requests": Habit(CACHE),
    "--pretrained": Habit(
        "--model-args weights=NAME says which weights; of a model of open_clip, "
        "--model open_clip:ARCHITECTURE/TAG does"
    ),
    "--dataset": Habit("--tasks NAME says what to run; --data-dir DIR where data lie"),
    "--dataset-root": Habit("--data-dir DIR says where data lie", "--data-dir"),
    "--trust-remote-code": Habit("no code of the hub is ever run"),
    "--verbosity": Habit("-v says why tasks are skipped; there is no other choice"),
}

# Options that a command can do without.
NEEDLESS = ("--log-samples", "--cache-requests", "--trust-remote-code", "--verbosity")

# What lm-eval calls its kinds of models, and the library whose models they are.
KINDS = dict.fromkeys(["hf", "hf-auto", "hf-multimodal", "hf-vlms", "huggingface"], "hf")
KINDS |= {name: name for name in ("open_clip", "timm", "torchvision")}


class HintingParser(argparse.ArgumentParser):
    """A parser whose errors name what was probably meant.

    `inner` holds the whole command for each word that is one only behind another word. `module` is
    a command's, which is imported, and adds its options, when the command's word is typed.
    """

    def __init__(self, *given: Any, module: str = "", **options: Any) -> None:
        super().__init__(*given, **options)
        self.inner: dict[str, str] = {}
        self._module = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments, and the words that are none."""
        name, self._module = self._module, ""
        if name:
            command = import_module(name)
            command.add_options(self)
            self.set_defaults(answer=command.answer, parser=self)
        return super().parse_known_args(args, namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the arguments; a word that no command knows is an error with a hint."""
        words = list(sys.argv[1:] if args is None else args)
        arguments, unknown = self.parse_known_args(words, namespace)
        problems = _of_other_tool(arguments)
        if unknown or problems:
            own = getattr(arguments, "parser", self)
            problems += [f"unrecognized arguments: {' '.join(unknown)}"] if unknown else []
            self.error(
                "; ".join([*problems, *_hints(own, unknown)]) + _command_line(words, unknown)
            )
        if hasattr(arguments, "parser"):
            del arguments.parser
        return arguments

    def error(self, message: str) -> NoReturn:
        """Exit with 2; of a wrong choice, the nearest right one is named."""
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        near = get_close_matches(choice[1], re.findall(r"[\w-]+", choice[2]), 1) if choice else []
        near = [self.inner[choice[1]]] if choice and choice[1] in self.inner else near
        hint = f"; did you mean {near[0]}?" if near else ""
        super().error(printed(message) + hint)


def _hints(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    options = re.findall(r"^ .*?(--[a-z][a-z-]*)", parser.format_help(), re.MULTILINE)
    hints = []
    for name in _names(words):
        near = get_close_matches(name, options, 1)
        if name in ELSEWHERE:
            hints.append(f"{name}: {ELSEWHERE[name].hint}")
        elif near:
            hints.append(f"did you mean {near[0]}?")
    return hints


def _names(words: Sequence[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if word.startswith("--")]


def _of_other_tool(arguments: argparse.Namespace) -> list[str]:
    """Return the problem of `--model hf --model-args pretrained=NAME`; otherwise no problem."""
    model, given = getattr(arguments, "model", None), getattr(arguments, "model_args", None) or ""
    if model not in KINDS or "pretrained=" not in given:
        return []
    return [f"--model {model} is a model's kind; here a model's name begins with its library"]


def _command_line(words: Sequence[str], unknown: Sequence[str]) -> str:
    """Return a run in our options as a line to type; empty if one has no counterpart."""
    renamed = {name: ELSEWHERE[name].ours for name in _names(unknown) if name in ELSEWHERE}
    known = all(ours or name in NEEDLESS for name, ours in renamed.items())
    if words[0] != "run" or not known or len(renamed) < len(set(_names(unknown))):
        return ""
    pairs = [(renamed.get(name, name), value) for name, value in _pairs(words[1:])]
    pairs = _of_library([(name, value) for name, value in pairs if name])
    line = [word for pair in pairs for word in pair if word]
    return f"\nso type:\n  vlbench {shlex.join(line)}" if line else ""


def _of_library(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return options with the library and `pretrained` as one name; none if it is not given."""
    options = dict(pairs)
    library = KINDS.get(options.get("--model", ""))
    if library is None:
        return list(pairs)
    parts = options.get("--model-args", "").split(",")
    given = dict(part.split("=", 1) for part in parts if "=" in part)
    if "pretrained" not in given:
        return []
    name, dtype = f"{library}:{given.pop('pretrained')}", given.pop("dtype", "auto")
    if library == "hf" and "revision" in given:
        name += f"@{given.pop('revision')}"
    rest = ",".join(f"{key}={value}" for key, value in given.items())
    changed = {"--model": name, "--model-args": rest}
    changed_pairs = [(key, changed.get(key, value)) for key, value in pairs]
    changed_pairs += [("--dtype", dtype)] if dtype != "auto" else []
    return [(key, value) for key, value in changed_pairs if value or key != "--model-args"]


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options among words, each with its value or an empty text."""
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            after = words[i + 1] if i + 1 < len(words) else ""
            yield name, value if equals or after.startswith("--") else after
