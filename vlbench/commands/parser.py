"""The parser of the command line: commands, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import vlbench
from vlbench.commands.hints import HintingParser
from vlbench.commands.leaderboard.parser import (
    add_data,
    add_output,
    add_trust,
    add_words,
    of_environment,
    positive,
)

Command = Callable[[argparse.Namespace], int]

EXIT_CODES = """exit codes:
  0  everything that could run ran
  1  something failed, or nothing ran
  2  an error in the command, in a file, or absent data of a task named by you
  130  interrupted; finished work is saved, and the same command resumes
  141  nobody reads standard output any more, as after | head; the same holds
"""

ENVIRONMENT = """environment:
  VLBENCH_DATA       where data lie, as --data-dir DIR
  VLBENCH_OUTPUT     the default of --output
  VLBENCH_CACHE_DIR  the default of --cache-dir
  VLBENCH_DEVICE     the default of --device
"""


# Old spellings of commands, which go with the next release, and the new ones.
RENAMED: dict[tuple[str, ...], Sequence[str]] = {("leaderboard", "judge"): ("leaderboard", "rate")}


def spelled(argv: Sequence[str]) -> list[str]:
    """Return argv with hyphens in option names, and with `run` or `--help` if it was left out."""
    words = []
    for word in argv:
        name, equals, value = word.partition("=")
        words.append(name.replace("_", "-") + equals + value if word[:2] == "--" else word)
    flat = bool(words) and words[0][:1] == "-" and words[0] not in {"-h", "--help", "--version"}
    bare = words in ([], ["leaderboard"])
    return ["run", *words] if flat else [*words, "--help"] if bare else words


def parser_of(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """Return the parser of the whole command line; `commands` maps each command to its function."""
    parser = HintingParser(
        prog="vlbench",
        description="Probe what vision and vision-and-language models know, and how.",
        epilog="`vlbench --model NAME --tasks all` is short for `vlbench run ...`.\n\n"
        f"{EXIT_CODES}\n{ENVIRONMENT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vlbench {vlbench.__version__}")
    words = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(words, commands["run"])
    ls = _add(words, "ls", "list what there is", commands["ls"])
    ls.add_argument("kind", choices=["tasks", "models", "probes", "data"])
    ls.add_argument(
        "filter", nargs="?", metavar="FILTER", help="a tag, a capability, or a part of the name"
    )
    about = "show what a task or a model is, or draw a sheet of scenes or objects"
    show = _add(words, "show", about, commands["show"])
    show.add_argument("name", metavar="TASK|MODEL|scenes|objects")
    add_output(show)
    for listing in (ls, show):
        listing.add_argument("--json", action="store_true", help="print JSON")
    check = _add(
        words, "validate", "check files of tasks and claims, and models.yaml", commands["validate"]
    )
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    add_trust(check)
    check = _add(words, "check", "check that an adapter keeps the contract", commands["check"])
    check.add_argument("model", metavar="MODEL")
    _add_model_options(check)
    _add_items(words, commands["items"])
    _add_data(words, commands["data"])
    _add_rerun(words, commands["rerun"])
    boards = words.add_parser("leaderboard", help="look at boards").add_subparsers(required=True)

    def add_word(name: str, about: str) -> argparse.ArgumentParser:
        word = _add(boards, name, about, commands["leaderboard"])
        word.set_defaults(word=name)
        parser.inner[name] = f"vlbench leaderboard {name}"
        return word

    add_words(add_word)
    parser.inner |= {old[-1]: f"vlbench {' '.join(new)}" for old, new in RENAMED.items()}
    return parser


def _add(words: Any, name: str, about: str, command: Command) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = words.add_parser(name, help=about, description=about)
    parser.set_defaults(command=command, parser=parser)
    parser.add_argument(
        "--include-path",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="a folder with tasks/ and/or model_adapters/ of your own; may be repeated",
    )
    return parser


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model-args", default="", metavar="K=V,...", help="adapter arguments")
    _add_device(parser)
    parser.add_argument("--dtype", default="float32", help="what adapters compute in")
    parser.add_argument("--offline", action="store_true", help="do not even try to reach the hub")
    add_trust(parser)


def _add_device(parser: argparse.ArgumentParser) -> None:
    default = of_environment("VLBENCH_DEVICE", "auto")
    parser.add_argument("--device", default=default, help="cpu, cuda, cuda:1, ... (default: auto)")


def _add_items(words: Any, command: Command) -> None:
    about = "list what a model said of each example of a task, and what was right"
    items = _add(words, "items", about, command)
    items.add_argument("task", metavar="TASK")
    items.add_argument("model", metavar="MODEL")
    items.add_argument("--metric", help="of which score (default: the task's primary one)")
    items.add_argument("--at", type=_conditions, metavar="K=V,...", help="the score's conditions")
    items.add_argument(
        "--wrong", action="store_true", help="items without full credit, worst first"
    )
    items.add_argument(
        "--show", action="store_true", help="write a sheet of the images that are wrong most often"
    )
    items.add_argument("--json", action="store_true", help="print JSON")
    add_data(items)
    add_trust(items)
    add_output(items)


def _add_data(words: Any, command: Command) -> None:
    data = _add(words, "data", "show what a task will read", command)
    data.add_argument("task", metavar="TASK")
    add_data(data)
    data.add_argument("--download", action="store_true", help="fetch data that can be fetched")
    data.add_argument("--json", action="store_true", help="print JSON")
    add_trust(data)


def _add_rerun(words: Any, command: Command) -> None:
    about = "compute a board's row again, and compare every score"
    rerun = _add(words, "rerun", about, command)
    rerun.add_argument("board", metavar="BOARD", help="a board's file, or its task in --output")
    rerun.add_argument("model", metavar="MODEL", help="the row's name on the board")
    rerun.add_argument("--as-model", metavar="NAME", help="what to run, if --name named the row")
    rerun.add_argument("--model-args", default="", metavar="K=V,...", help="adapter arguments")
    _add_device(rerun)
    add_data(rerun)
    rerun.add_argument("--offline", action="store_true", help="do not even try to reach the hub")
    add_trust(rerun)
    add_output(rerun)
    rerun.add_argument("--cache-dir", type=Path, metavar="DIR", help="default: ~/.cache/vlbench")
    rerun.add_argument("--no-cache", action="store_true", help="compute every feature again")


def _conditions(text: str) -> dict[str, str]:
    pairs = [word.partition("=") for word in text.split(",") if word]
    if not all(equals for _, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"wants K=V,..., not '{text:.40}'")
    return {key: value for key, _, value in pairs}


def _add_run(words: Any, command: Command) -> None:
    run = _add(words, "run", "run models on tasks and write leaderboards", command)
    run.add_argument(
        "--model",
        metavar="NAME[,...]",
        help="names; hf:ORG/NAME, timm:NAME, open_clip:ARCHITECTURE/TAG, torchvision:NAME/WEIGHTS; "
        "or path/to/file.py:Class",
    )
    run.add_argument("--tasks", metavar="all|NAME|TAG|GLOB[,...]", help="which tasks to run")
    run.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a YAML file of these options; those on the command line override it",
    )
    _add_model_options(run)
    run.add_argument("--name", help="the name of the rows, in place of the model's")
    add_data(run)
    run.add_argument("--download", action="store_true", help="fetch data that can be fetched")
    add_output(run)
    cache = run.add_mutually_exclusive_group()
    cache.add_argument("--cache-dir", type=Path, metavar="DIR", help="default: ~/.cache/vlbench")
    cache.add_argument("--no-cache", action="store_true", help="keep no features after the run")
    run.add_argument(
        "--batch-size",
        type=_batch_size,
        default=32,
        metavar="N|auto",
        help="images at a time (default: 32); auto: the fastest on a CPU, the most on a GPU",
    )
    run.add_argument("--limit", type=positive, metavar="N", help="N rows a split; writes no board")
    run.add_argument("--dry-run", action="store_true", help="print the plan, estimate it, and stop")
    run.add_argument(
        "--strict", action="store_true", help="exit 1 if anything is skipped or absent"
    )
    run.add_argument("--overwrite", action="store_true", help="run again what boards already hold")


def _batch_size(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def data_dirs(words: Sequence[str]) -> dict[str, Path]:
    """Return folders by the name before `=`; without one, under the empty name."""
    pairs = [word.partition("=") for word in words]
    return {key if equals else "": Path(value if equals else key) for key, equals, value in pairs}
