"""The command line: argv -> plan -> run -> print. The only place that prints or exits.

Help and listings import no torch, so whatever does is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from vlbench.commands.parser import data_dirs, parser_of, spelled
from vlbench.commands.streams import drain, is_of_reader, news, settle_streams
from vlbench.errors import OutputError, VlbenchError, WeightsError

if TYPE_CHECKING:
    from rich.console import Console

    from vlbench.commands.answer import Answer
    from vlbench.planning.options import Options
    from vlbench.planning.plan import Plan
    from vlbench.running.report import Report

FAILED, USAGE, STOPPED = 1, 2, 130

# What `vlbench show` draws a sheet of.
DRAWN = ("objects", "scenes")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    if sys.stdout is None:
        return _failed("standard output is closed; open it, or send it to /dev/null")
    settle_streams()
    arguments = parser_of(COMMANDS).parse_args(spelled(sys.argv[1:] if argv is None else argv))
    try:
        with news():
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
        return _failed("stopped; what is done is kept, and the same command goes on", STOPPED)
    if is_of_reader(error):
        return _failed("nobody reads standard output any more; what is done is kept")
    if isinstance(error, SystemExit):
        raise error
    of_machine = isinstance(error, OSError | OutputError | WeightsError)
    return _failed(error, FAILED if of_machine else USAGE)


def _failed(why: object, code: int = FAILED) -> int:
    print(f"vlbench: {why}", file=sys.stderr)
    return code


def _run(arguments: argparse.Namespace) -> int:
    from vlbench.bench import agreed, run, set_up
    from vlbench.commands.progress import Bar
    from vlbench.commands.reports import print_plan, print_report
    from vlbench.planning.plan import plan

    models = list(dict.fromkeys(arguments.model.split(",")))
    # A dry run needs the hub for nothing but data that it is told to download.
    reach_hub = arguments.download or not arguments.dry_run
    with set_up(_options(arguments), reach_hub=reach_hub) as (options, processes):
        planned = agreed(plan(models, arguments.tasks.split(","), options), processes)
        console = _console(quiet=not processes.is_main)
        print_plan(console, planned)
        if arguments.dry_run:
            return 0
        with Bar(console) as bar:
            report = run(planned, processes, bar)
        processes.leave()
    print_report(console, planned, report)
    for name, why in report.not_loaded.items():
        print(f"vlbench: {name} did not load: {why}", file=sys.stderr)
    return _exit_code(planned, report, strict=arguments.strict)


def _options(arguments: argparse.Namespace) -> Options:
    from vlbench.files import default_cache
    from vlbench.planning.options import Options, model_args

    given = vars(arguments)
    names = ("name", "download", "include_path", "output", "batch_size", "device", "dtype")
    picked = {name: given[name] for name in (*names, "limit", "offline", "overwrite", "trust")}
    cache = None if arguments.no_cache else arguments.cache_dir or default_cache()
    return Options(
        model_args=model_args(arguments.model_args),
        data_dir=data_dirs(arguments.data_dir),
        cache_dir=cache,
        **picked,
    )


def _exit_code(planned: Plan, report: Report, *, strict: bool) -> int:
    statuses = {job.status for job in planned.jobs} | {r.status for r in report.results}
    statuses |= {"unavailable"} if report.absent else set()
    if not statuses & {"ok", "kept"}:
        print("vlbench: nothing ran; the reasons stand above", file=sys.stderr)
        return FAILED
    if any(job.task.named and job.task.spec.name in report.absent for job in planned.jobs):
        return USAGE
    refused = {"failed", *({"skipped", "unavailable"} if strict else ())}
    return FAILED if statuses & refused else 0


def _ls(arguments: argparse.Namespace) -> int:
    from vlbench.commands.listing import list_things

    rows = list_things(arguments.kind, arguments.include_path)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    from vlbench.leaderboard.tables import plain_table

    cells = [[row["name"], ", ".join(row["tags"]), row["about"]] for row in rows]
    _console().print(plain_table(["name", "tags", "about"], cells))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from vlbench.catalog.catalog import load_catalog
    from vlbench.commands.listing import show_thing

    if arguments.name in DRAWN:
        return _show_drawn(arguments)
    shown = show_thing(load_catalog(arguments.include_path), arguments.name, arguments.output)
    if arguments.json:
        print(json.dumps(shown, indent=1))
        return 0
    import yaml

    print(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), end="")
    return 0


def _show_drawn(arguments: argparse.Namespace) -> int:
    """Write a contact sheet of vlbench's own world into the current folder."""
    from vlbench.data.scenes import sheet

    shown = sheet.write_sheet(arguments.name, Path(f"{arguments.name}.png"))
    print(json.dumps(shown, indent=1) if arguments.json else sheet.describe(shown))
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from vlbench.commands.validation import validate

    found = validate(arguments.paths, arguments.include_path, trust=arguments.trust)
    for file, problem in found.items():
        print(problem or f"{file}: ok", file=sys.stderr if problem else sys.stdout)
    return USAGE if any(found.values()) else 0


def _check(arguments: argparse.Namespace) -> int:
    from vlbench.bench import set_up
    from vlbench.commands.checking import check_model
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
    for finding in findings:
        mark = "ok    " if finding.ok else "FAILED"
        why = f": {finding.why}" if finding.why else ""
        print(f"{mark} {finding.capability}: {finding.what}{why}")
    return 0 if findings and all(finding.ok for finding in findings) else FAILED


def _items(arguments: argparse.Namespace) -> int:
    if not arguments.show:
        return _answered("items", arguments)
    from vlbench.bench import set_up
    from vlbench.files import default_cache
    from vlbench.planning.options import Options

    options = Options(
        include_path=arguments.include_path,
        data_dir=data_dirs(arguments.data_dir),
        cache_dir=default_cache(),
        trust=arguments.trust,
    )
    with set_up(options, reach_hub=False) as (arguments.options, _):
        return _answered("items", arguments)


def _leaderboard(arguments: argparse.Namespace) -> int:
    return _answered(f"leaderboard.{arguments.word}", arguments)


def _answered(module: str, arguments: argparse.Namespace) -> int:
    """Print what a module of `vlbench.commands` answers, and return its exit code."""
    answer: Answer = import_module(f"vlbench.commands.{module}").answer(arguments)
    console = _console()
    for shown in answer.shown:
        if isinstance(shown, str):
            print(shown)
        else:
            console.print(shown)
    for problem in answer.problems:
        print(problem, file=sys.stderr)
    return answer.code


def _console(*, quiet: bool = False) -> Console:
    """Return the console; off a terminal its lines are as wide as they need to be."""
    from rich.console import Console

    console = Console(highlight=False, quiet=quiet)
    return console if console.is_terminal else Console(highlight=False, quiet=quiet, width=10_000)


COMMANDS = {
    "run": _run,
    "ls": _ls,
    "show": _show,
    "validate": _validate,
    "check": _check,
    "items": _items,
    "leaderboard": _leaderboard,
}

if __name__ == "__main__":
    sys.exit(main())
