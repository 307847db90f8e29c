"""The command line: argv -> plan -> run -> print. The only place that prints or exits.

Help and listings import no torch, so whatever does is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from vlbench.commands.config import configured
from vlbench.commands.parser import RENAMED, Command, data_dirs, parser_of, spelled
from vlbench.commands.streams import Unpadded, drain, is_of_reader, news, settle_streams
from vlbench.errors import (
    Exited,
    OutputError,
    ProcessLost,
    UnknownNameError,
    VlbenchError,
    WeightsError,
    exits_as_errors,
    printed,
)

if TYPE_CHECKING:
    from rich.console import Console

    from vlbench.commands.answer import Answer
    from vlbench.planning.options import Options
    from vlbench.planning.plan import Plan
    from vlbench.running.jobs import Report

# The last two are 128 and the number of the signal that ends other programs in these cases.
FAILED, USAGE, STOPPED, UNREAD = 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if sys.stdout is None:
        return _failed("standard output is closed; open it, or send it to /dev/null")
    settle_streams()
    words = spelled(sys.argv[1:] if argv is None else argv)
    if renamed := RENAMED.get(tuple(words[:2])):
        old, new = " ".join(words[:2]), " ".join(renamed)
        print(f"vlbench: `{old}` is now `{new}`; the old spelling will go", file=sys.stderr)
        words[:2] = renamed
    parser = parser_of(COMMANDS)
    try:
        arguments = parser.parse_args(words)
        if getattr(arguments, "config", None):
            arguments = parser.parse_args(configured(parser, arguments, words))
        arguments.typed = words
        with news(), exits_as_errors():
            code: int = arguments.command(arguments)
        sys.stdout.flush()
    except (VlbenchError, OSError, KeyboardInterrupt, SystemExit) as error:
        return _ended(error)
    finally:
        drain()
    return code


def _ended(error: BaseException) -> int:
    """Say why a command ended early, and return its exit code."""
    if isinstance(error, KeyboardInterrupt):
        return _failed("Interrupted. Finished work is saved; rerun the command to resume.", STOPPED)
    if is_of_reader(error):
        return UNREAD
    if isinstance(error, SystemExit):
        raise error
    of_machine = isinstance(error, Exited | OSError | OutputError | ProcessLost | WeightsError)
    return _failed(error, FAILED if of_machine else USAGE)


def _failed(why: object, code: int = FAILED) -> int:
    _tell(f"vlbench: {why}", sys.stderr)
    return code


def _tell(text: str, file: TextIO | None = None) -> None:
    """Print a text of anybody's, control characters spelled out; nothing else here prints one."""
    print(printed(text), file=file)


def _run(arguments: argparse.Namespace) -> int:
    if not (arguments.model and arguments.tasks):
        raise UnknownNameError("a run needs --model and --tasks, here or in a file for --config")
    from vlbench.bench import agreed, estimated_steps, run, set_up
    from vlbench.catalog.library_names import reads_hub
    from vlbench.commands.reports import Bar, print_estimates, print_plan, print_report
    from vlbench.commands.unused_gpus import unused_gpus
    from vlbench.planning.plan import plan

    models = list(dict.fromkeys(arguments.model.split(",")))
    # A dry run needs the hub for data that it is told to download, and for a model's configuration.
    reach_hub = arguments.download or not arguments.dry_run or any(map(reads_hub, models))
    with set_up(_options(arguments), reach_hub=reach_hub) as (options, processes):
        planned = agreed(plan(models, arguments.tasks.split(","), options), processes)
        console = _console(quiet=not processes.is_main)
        print_plan(console, planned)
        works = any(job.status == "run" for job in planned.jobs)
        if works and (hint := unused_gpus(arguments.typed, options.device)):
            console.print(printed(hint), markup=False, soft_wrap=True)
        if arguments.dry_run:
            device = planned.options.settings().device.type
            print_estimates(console, estimated_steps(planned, processes), device)
            return 0
        with Bar(console) as bar:
            report = run(planned, processes, bar)
        processes.leave()
    print_report(console, planned, report)
    for name, why in report.not_loaded.items():
        _tell(f"vlbench: {name} did not load: {why}", sys.stderr)
    return _exit_code(planned, report, strict=arguments.strict)


def _options(arguments: argparse.Namespace) -> Options:
    from vlbench.planning.options import Options, model_args

    given = vars(arguments)
    names = ("name", "download", "include_path", "output", "batch_size", "device", "dtype")
    picked = {name: given[name] for name in (*names, "limit", "offline", "overwrite", "trust")}
    return Options(
        model_args=model_args(arguments.model_args),
        data_dir=data_dirs(arguments.data_dir),
        cache_dir=_cache(arguments),
        **picked,
    )


def _cache(arguments: argparse.Namespace) -> Path | None:
    from vlbench.files import default_cache

    return None if arguments.no_cache else arguments.cache_dir or default_cache()


def _exit_code(planned: Plan, report: Report, *, strict: bool) -> int:
    statuses = {job.status for job in planned.jobs} | {r.status for r in report.results}
    statuses |= {"unavailable"} if report.absent else set()
    if not statuses & {"ok", "kept"}:
        return _failed("nothing ran; the reasons stand above")
    if any(job.task.named and job.task.spec.name in report.absent for job in planned.jobs):
        return USAGE
    refused = {"failed", *({"skipped", "unavailable"} if strict else ())}
    return FAILED if statuses & refused else 0


def _validate(arguments: argparse.Namespace) -> int:
    from vlbench.commands.validation import validate

    found = validate(arguments.paths, arguments.include_path, trust=arguments.trust)
    for file, problem in found.items():
        _tell(problem or f"{file}: ok", sys.stderr if problem else sys.stdout)
    return USAGE if any(found.values()) else 0


def _check(arguments: argparse.Namespace) -> int:
    from vlbench.bench import set_up
    from vlbench.commands.checking import check_model, lines_of
    from vlbench.commands.reports import say
    from vlbench.planning.options import Options, model_args

    options = Options(
        model_args=model_args(arguments.model_args),
        include_path=arguments.include_path,
        device=arguments.device,
        dtype=arguments.dtype,
        offline=arguments.offline,
        trust=arguments.trust,
    )
    with set_up(options) as (complete, _):
        findings = check_model(arguments.model, complete)
    for line in lines_of(findings):
        say(_console(), line)
    return 0 if findings and all(finding.ok for finding in findings) else FAILED


def _items(arguments: argparse.Namespace) -> int:
    return _with_data("items", arguments) if arguments.show else _answered("items", arguments)


def _leaderboard(arguments: argparse.Namespace) -> int:
    word = f"leaderboard.{arguments.word}"
    reads_data = arguments.word == "rate" and arguments.of
    return _with_data(word, arguments) if reads_data else _answered(word, arguments)


def _with_data(module: str, arguments: argparse.Namespace) -> int:
    """Print what a module answers that reads a task's data by `arguments.options`."""
    from vlbench.bench import set_up
    from vlbench.files import default_cache
    from vlbench.planning.options import Options

    options = Options(
        include_path=arguments.include_path,
        data_dir=data_dirs(arguments.data_dir),
        download=getattr(arguments, "download", False),
        cache_dir=default_cache(),
        trust=arguments.trust,
    )
    with set_up(options, reach_hub=options.download) as (arguments.options, _):
        return _answered(module, arguments)


def _rerun(arguments: argparse.Namespace) -> int:
    from vlbench.bench import evaluate
    from vlbench.commands.reports import Bar
    from vlbench.commands.rerun import asked, compared

    wanted = asked(arguments, cache_dir=_cache(arguments))
    with Bar(_console()) as bar:
        results = evaluate([wanted.model], [wanted.row.task], progress=bar, **wanted.options)
    return _printed(compared(wanted.row, results))


def _answered(module: str, arguments: argparse.Namespace) -> int:
    """Print what a module of `vlbench.commands` answers, and return its exit code."""
    return _printed(import_module(f"vlbench.commands.{module}").answer(arguments))


def _printed(answer: Answer) -> int:
    """Print an answer, and return its exit code."""
    from vlbench.leaderboard.tables import fitted

    console = _console()
    for shown in answer.shown:
        if isinstance(shown, str):
            _tell(shown)
        else:
            console.print(fitted(shown, console.width))
    for problem in answer.problems:
        _tell(problem, sys.stderr)
    return answer.code


def _console(*, quiet: bool = False) -> Console:
    """Return the console; off a terminal its lines are as wide as what they say."""
    from rich.console import Console

    console = Console(highlight=False, quiet=quiet)
    if console.is_terminal:
        return console
    unpadded: Any = Unpadded(sys.stdout)
    return Console(file=unpadded, highlight=False, quiet=quiet, width=10_000)


COMMANDS: dict[str, Command] = {
    "run": _run,
    "ls": partial(_answered, "ls"),
    "show": partial(_answered, "show"),
    "validate": _validate,
    "check": _check,
    "items": _items,
    "data": partial(_with_data, "data"),
    "rerun": _rerun,
    "leaderboard": _leaderboard,
}

if __name__ == "__main__":
    sys.exit(main())
