"""The parser of the command line: the commands, and options that several commands share."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

from vlbench import commands
from vlbench._version import __version__
from vlbench.catalog.sources import PUBLISHED, RESULTS, has_boards, shipped_boards
from vlbench.commands.hints import HintingParser
from vlbench.errors import UnknownNameError

if TYPE_CHECKING:  # both import torch
    from vlbench.run.options import Options

EXIT_CODES = """exit codes:
  0  everything that could run ran
  1  something failed, or nothing ran
  2  an error in the command or a file, or missing data of a task that you named
  130  interrupted; finished work is saved, and the same command resumes
  141  standard output was closed, as by | head; finished work is saved
"""

ENVIRONMENT = """environment:
  VLBENCH_DATA       the folder of the data, as --data-dir DIR
  VLBENCH_OUTPUT     the default of --output
  VLBENCH_CACHE_DIR  the default of --cache-dir
  VLBENCH_DEVICE     the default of --device
"""

# The first line of a command's module.
FIRST_LINE = re.compile(r'"""`vlbench [\w ]+`: (.+?)\.(?:""")?\n')

# The most digits of a number on the command line.
MOST_DIGITS = 18


class Command(NamedTuple):
    """A command: its last word, its description, its module, and its subcommands."""

    word: str
    about: str
    module: str
    inner: Sequence[Command] = ()


def normalise_argv(argv: Sequence[str]) -> list[str]:
    """Return argv with hyphens in option names, and with `run` or `--help` if it was left out."""
    words = []
    for word in argv:
        name, equals, value = word.partition("=")
        words.append(name.replace("_", "-") + equals + value if word[:2] == "--" else word)
    flat = bool(words) and words[0][:1] == "-" and words[0] not in {"-h", "--help", "--version"}
    bare = words in ([], ["leaderboard"])
    return ["run", *words] if flat else [*words, "--help"] if bare else words


def commands_in(folder: Path, package: str) -> Iterator[Command]:
    """Yield the commands among the modules of a package's folder, read from their first lines."""
    for file in sorted([*folder.glob("[!_]*.py"), *folder.glob("*/__init__.py")]):
        is_package = file.stem == "__init__"
        word = file.parent.name if is_package else file.stem
        with file.open(encoding="utf-8") as lines:
            described = FIRST_LINE.match(lines.readline())
        if described:
            module = f"{package}.{word}"
            inner = [*commands_in(file.parent, module)] if is_package else []
            yield Command(word, described[1], module, inner)


def parser_of() -> HintingParser:
    """Return the parser of the whole command line."""
    parser = HintingParser(
        prog="vlbench",
        description="Probe what vision and vision-and-language models know, and how.",
        epilog="`vlbench --model NAME --tasks all` is short for `vlbench run ...`.\n\n"
        f"{EXIT_CODES}\n{ENVIRONMENT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vlbench {__version__}")
    name = commands.__name__
    known = [one for folder in commands.__path__ for one in commands_in(Path(folder), name)]
    _add_commands(parser, known)
    parser.inner = {
        one.word: f"vlbench {command.word} {one.word}" for command in known for one in command.inner
    }
    return parser


def _add_commands(parser: HintingParser, known: Sequence[Command]) -> None:
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in known:
        about = command.about
        module = "" if command.inner else command.module
        added = words.add_parser(command.word, help=about, description=about, module=module)
        parser.commands[command.word] = added
        if command.inner:
            _add_commands(added, command.inner)
        else:
            added.add_argument(
                "--include-path",
                action="append",
                type=Path,
                default=[],
                metavar="DIR",
                help="a folder with your tasks/, model_adapters/ or both; may be repeated",
            )


def output_option(output: Path) -> str:
    """Return the option with which the next command reads the same boards, after a blank."""
    return "" if output == RESULTS else f" --output {quote(str(output))}"


def add_output(
    parser: argparse.ArgumentParser, *also: str, of_run: bool = False, or_shipped: bool = False
) -> None:
    """Add the option for the folder of boards; `also` are further spellings.

    With `of_run`, it is the folder where a run writes. With `or_shipped`, a command reads the
    boards that vlbench ships if there are none here.
    """
    known = RESULTS if of_run or has_boards(RESULTS) else PUBLISHED
    default = "./results" if of_run else "./results if it has boards, else ./leaderboards"
    if or_shipped:
        known = known if known.is_dir() else shipped_boards() or known
        default += ", else the boards that vlbench ships"
    parser.add_argument(
        "--output",
        *also,
        type=Path,
        # argparse converts a default that is a string like a word of the command line.
        default=os.environ.get("VLBENCH_OUTPUT") or str(known),
        metavar="DIR",
        help=f"the folder of the boards (default: {default})",
    )


def which_boards(arguments: argparse.Namespace, words: Sequence[str]) -> str:
    """Return which boards a command reads if the user did not choose; empty if it is clear."""
    is_told = any(word.partition("=")[0] in {"--output", "--into"} for word in words)
    is_told = is_told or "VLBENCH_OUTPUT" in os.environ or words[:1] == ["run"]
    output = None if is_told else getattr(arguments, "output", None)
    if output is not None and output == shipped_boards():
        return "boards that vlbench ships; there are none here"
    reads = output == RESULTS and has_boards(PUBLISHED)
    return f"boards of {RESULTS}, not of {PUBLISHED}" if reads else ""


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints JSON instead of tables."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_data_name(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects rows by data set, if a board has several."""
    parser.add_argument(
        "--data",
        default="",
        metavar="NAME",
        help="use the rows of this data set (its folder's name), if a board has several",
    )


def add_data(parser: argparse.ArgumentParser, *, download: bool = False) -> None:
    """Add the options of a command that reads a task's data; `download` if it may fetch them."""
    parser.add_argument(
        "--data-dir",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="the folder of the data, instead of $VLBENCH_DATA; with NAME=, the root of a task "
        "or of a loader, such as hub:images; may be repeated",
    )
    if download:
        parser.add_argument(
            "--download", action="store_true", help="download missing data if possible"
        )


def add_images(
    parser: argparse.ArgumentParser, readers: str = "a task that reads them, such as knn_images"
) -> None:
    """Add the options for a user's images, read by the `readers`, in words, and questions."""
    parser.add_argument(
        "--images",
        type=Path,
        metavar="DIR",
        help="your own images, one folder per class, or train/ and test/ with such folders, for "
        f"{readers}",
    )
    add_questions(parser)


def add_questions(parser: argparse.ArgumentParser) -> None:
    """Add the option for a table of the user's questions."""
    parser.add_argument(
        "--questions",
        type=Path,
        metavar="FILE",
        help="your own questions, .csv, .tsv, .xlsx or .parquet with the columns image (a path in "
        "--images, by default FILE's folder), question, answer, and the options A, B and so on "
        "(default: yes and no), for questions_table",
    )


def add_params(parser: argparse.ArgumentParser) -> None:
    """Add the option for parameters of tasks."""
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the tasks, instead of the value in their files, such as shots=[1] or "
        "training.epochs=3 (vlbench show TASK lists them); may be repeated",
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that loads a model."""
    parser.add_argument("--model-args", default="", metavar="K=V,...", help="adapter arguments")
    default = os.environ.get("VLBENCH_DEVICE") or "auto"
    parser.add_argument("--device", default=default, help="cpu, cuda, cuda:1, ... (default: auto)")
    parser.add_argument("--offline", action="store_true", help="never contact the hub")
    add_trust(parser)


def add_dtype(parser: argparse.ArgumentParser) -> None:
    """Add the option for the precision in which adapters compute."""
    parser.add_argument("--dtype", default="float32", help="the precision of adapters")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets files name functions of any package."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let files name functions of any package; they are imported and called",
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose where features are kept, if at all."""
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument("--cache-dir", type=Path, metavar="DIR", help="default: ~/.cache/vlbench")
    cache.add_argument("--no-cache", action="store_true", help="do not keep features after the run")


def add_extraction(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that computes features of a task's data or of images."""
    add_model(parser)
    add_dtype(parser)
    add_data(parser, download=True)
    add_images(parser)
    add_cache(parser)


def add_paper(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a paper whose numbers a command repeats or compares."""
    parser.add_argument(
        "paper",
        nargs="?",
        default="",
        metavar="PAPER",
        help="the name of a file in tasks/**/findings/, or a paper's id; default: all",
    )


def add_file(parser: argparse.ArgumentParser, *suffixes: str) -> None:
    """Add the option for the file to write; its suffix selects the format."""

    def file_of(text: str) -> Path:
        file = Path(text)
        if file.suffix not in suffixes:
            raise argparse.ArgumentTypeError(
                f"'{text:.80}' must end in one of {', '.join(suffixes)}"
            )
        if not file.absolute().parent.is_dir():
            raise argparse.ArgumentTypeError(f"there is no folder {file.parent}")
        return file

    names = " or ".join(f"FILE{suffix}" for suffix in suffixes)
    parser.add_argument("-o", "--file", type=file_of, required=True, metavar="FILE", help=names)


def positive(text: str) -> int:
    """Return a whole number of at least 1. Raises ArgumentTypeError for any other text."""
    return whole_number(text, 1)


def whole_number(text: str, least: int = 0) -> int:
    """Return a whole number of at least `least`. Raises ArgumentTypeError for any other text."""
    if not text.isdecimal() or len(text) > MOST_DIGITS or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number from {least}, not '{text:.20}'")
    return int(text)


def data_dirs(words: Sequence[str]) -> dict[str, Path]:
    """Return folders by the name before `=`, or under the empty name if there is no `=`.

    Raises UnknownNameError for a name with two folders.
    """
    folders: dict[str, Path] = {}
    for word in words:
        key, equals, value = word.partition("=")
        name, folder = (key, value) if equals else ("", word)
        if folders.setdefault(name, Path(folder)) != Path(folder):
            both = f"{folders[name]} and {folder}"
            raise UnknownNameError(f"--data-dir: two folders for {name or 'all data'}: {both}")
    return folders


def task_params(words: Sequence[str]) -> dict[str, Any]:
    """Return the values of `NAME=VALUE`, as YAML reads them; a dot leads into a mapping.

    Raises UnknownNameError.

    Example:
        >>> task_params(["shots=[1, 5]", "training.epochs=3"])
        {'shots': [1, 5], 'training': {'epochs': 3}}
    """
    from vlbench.catalog.strict_yaml import flow_value

    params: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        *above, last = name.split(".")
        if not (equals and all([*above, last])):
            raise UnknownNameError(f"--param must be NAME=VALUE; '{word:.60}' is not")
        inner = params
        for key in above:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise UnknownNameError(f"--param {name}: {key} has a value of its own")
        if last in inner:
            raise UnknownNameError(f"--param {name} is given twice")
        inner[last] = flow_value(text, f"--param {name}")
    return params


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the run options that a command has; other options have their defaults.

    A command that reads data has a cache.
    """
    from vlbench.catalog.catalog import load_catalog
    from vlbench.run.options import Options, model_args
    from vlbench.system.files import default_cache

    given = vars(arguments)
    taken = {name: given[name] for name in Options.__dataclass_fields__ if name in given}
    if "data_dir" in given:
        taken["data_dir"] = data_dirs(arguments.data_dir)
        if not given.get("no_cache"):
            taken["cache_dir"] = given.get("cache_dir") or default_cache()
    if given.get("images") and not given.get("questions"):
        named = [given[key] for key in ("task", "source", "board") if given.get(key)]
        tasks = [Path(word).stem for word in named] or (given.get("tasks") or "all").split(",")
        load_catalog(arguments.include_path).require_images(arguments.images, tasks)
    if "param" in given:
        taken["params"] = task_params(arguments.param)
    if "model_args" in given:
        taken["model_args"] = model_args(arguments.model_args)
    return Options(**taken)


@contextmanager
def set_up_for_data(arguments: argparse.Namespace) -> Iterator[Options]:
    """Set up for reading a task's data, and yield the options to read them with."""
    from vlbench.bench import set_up

    options = options_of(arguments)
    with set_up(options, reach_hub=options.download) as (complete, _):
        yield complete
