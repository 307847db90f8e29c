"""The command line: argv -> plan -> run -> print. The only place that prints or exits.

Help and listings import no torch, so whatever does is imported by the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vlbench
from vlbench.errors import OutputError, UnknownNameError, VlbenchError, WeightsError

if TYPE_CHECKING:
    from rich.console import Console

    from vlbench.bench import Plan, Report

EXIT_CODES = """exit codes:
  0  everything that could run ran
  1  something failed, or nothing ran
  2  an error in the command, in a file, or absent data of a task named by you
"""
FAILED, USAGE = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = _parser().parse_args(_spelled(sys.argv[1:] if argv is None else argv))
    try:
        code: int = arguments.command(arguments)
    except (OutputError, WeightsError) as error:
        print(f"vlbench: {error}", file=sys.stderr)
        return FAILED
    except VlbenchError as error:
        print(f"vlbench: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print(
            "vlbench: stopped; what is done is kept, and the same command goes on", file=sys.stderr
        )
        return 130
    return code


def _spelled(argv: Sequence[str]) -> list[str]:
    """Return argv with `run` where it is left out, and options spelled with hyphens."""
    words = []
    for word in argv:
        name, equals, value = word.partition("=")
        words.append(name.replace("_", "-") + equals + value if word[:2] == "--" else word)
    flat = bool(words) and words[0][:1] == "-" and words[0] not in {"-h", "--help", "--version"}
    return ["run", *words] if flat else words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vlbench",
        description="Probe what vision and vision-and-language models know, and how.",
        epilog="`vlbench --model NAME --tasks all` is short for `vlbench run ...`.\n\n"
        + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vlbench {vlbench.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    ls = _add(commands, "ls", "list what there is", _ls)
    ls.add_argument("kind", choices=["tasks", "models", "probes", "data"])
    show = _add(commands, "show", "show what a task or a model is", _show)
    show.add_argument("name", metavar="TASK|MODEL")
    for listing in (ls, show):
        listing.add_argument("--json", action="store_true", help="print JSON")
    check = _add(commands, "validate", "check task files and models.yaml files", _validate)
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    check = _add(commands, "check", "check that an adapter keeps the contract", _check)
    check.add_argument("model", metavar="MODEL")
    _add_model_options(check)
    boards = commands.add_parser("leaderboard", help="look at boards").add_subparsers(required=True)
    show = _add(boards, "show", "print boards as tables", _leaderboard_show)
    show.add_argument("tasks", nargs="*", metavar="TASK", help="default: every board")
    show.add_argument("--output", type=Path, default=Path("leaderboards"), metavar="DIR")
    return parser


def _add(commands: Any, name: str, about: str, command: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=about, description=about)
    parser.set_defaults(command=command)
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
    parser.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    parser.add_argument("--dtype", default="float32", help="what adapters compute in")
    parser.add_argument("--offline", action="store_true", help="do not even try to reach the hub")


def _add_run(commands: Any) -> None:
    run = _add(commands, "run", "run models on tasks and write leaderboards", _run)
    run.add_argument(
        "--model", required=True, metavar="NAME[,...]", help="names, or path/to/file.py:Class"
    )
    run.add_argument(
        "--tasks", required=True, metavar="all|NAME|TAG|GLOB[,...]", help="which tasks to run"
    )
    _add_model_options(run)
    run.add_argument("--name", help="the name of the rows, in place of the model's")
    run.add_argument(
        "--data-dir",
        action="append",
        default=[],
        metavar="[NAME=]DIR",
        help="where data lie: in place of $VLBENCH_DATA, or the root of one loader or task",
    )
    run.add_argument("--download", action="store_true", help="fetch data that can be fetched")
    run.add_argument(
        "--output",
        type=Path,
        default=Path("leaderboards"),
        metavar="DIR",
        help="where boards are written (default: ./leaderboards)",
    )
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
    run.add_argument("--limit", type=_positive, metavar="N", help="N rows a split; writes no board")
    run.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    run.add_argument(
        "--strict", action="store_true", help="exit 1 if anything is skipped or absent"
    )
    run.add_argument("--overwrite", action="store_true", help="run again what boards already hold")


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not '{text}'")
    return int(text)


def _batch_size(text: str) -> int | None:
    return None if text == "auto" else _positive(text)


def _run(arguments: argparse.Namespace) -> int:
    from vlbench.bench import plan, run
    from vlbench.progress import Bar

    options = _options(arguments)
    planned = plan(arguments.model.split(","), arguments.tasks.split(","), options)
    console = _console(quiet=not planned.processes.is_main)
    _print_plan(console, planned)
    if arguments.dry_run:
        return 0
    with Bar(console) as bar:
        report = run(planned, bar)
    planned.processes.leave()
    return _finish(console, planned, report, strict=arguments.strict)


def _options(arguments: argparse.Namespace) -> Any:
    from vlbench.options import Options, default_cache

    given = vars(arguments)
    names = ("name", "download", "include_path", "output", "batch_size", "device", "dtype")
    picked = {name: given[name] for name in (*names, "limit", "offline", "overwrite")}
    cache = None if arguments.no_cache else arguments.cache_dir or default_cache()
    return Options(
        model_args=_model_args(arguments.model_args),
        data_dir=_data_dirs(arguments.data_dir),
        cache_dir=cache,
        **picked,
    )


def _model_args(text: str) -> dict[str, Any]:
    from vlbench.strict_yaml import scalar

    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for key, equals, _ in pairs:
        if not equals:
            raise UnknownNameError(f"--model-args wants k=v,...; '{key}' has no '='")
    return {key.strip(): scalar(value) for key, _, value in pairs}


def _data_dirs(words: Sequence[str]) -> dict[str, Path]:
    pairs = [word.partition("=") for word in words]
    return {key if equals else "": Path(value if equals else key) for key, equals, value in pairs}


def _print_plan(console: Console, planned: Plan) -> None:
    from vlbench.leaderboard.tables import plain_table

    rows = [[c.model.name, c.task.spec.name, c.status, c.reason] for c in planned.cells]
    console.print(plain_table(["model", "task", "plan", "why"], rows))


def _finish(console: Console, planned: Plan, report: Report, *, strict: bool) -> int:
    """Print the scores and what did not run, and return the exit code."""
    from vlbench.leaderboard.tables import score_table

    rows: dict[str, list[Any]] = {}
    for result in report.results:
        rows.setdefault(result.task, []).append(result.row())
    for cell in planned.cells:
        rows.setdefault(cell.task.spec.name, []).extend([cell.row] if cell.row else [])
    primaries = {cell.task.spec.name: cell.task.primary for cell in planned.cells}
    for task, found in rows.items():
        if any(row["status"] == "ok" for row in found):
            ok = [row for row in found if row["status"] == "ok"]
            console.print(score_table(task, primaries[task], ok))
    for name, why in report.not_loaded.items():
        print(f"vlbench: {name} did not load: {why}", file=sys.stderr)
    statuses = {c.status for c in planned.cells} | {r.status for r in report.results}
    if not statuses & {"ok", "kept"}:
        print("vlbench: nothing ran; the reasons stand above", file=sys.stderr)
        return FAILED
    refused = {"failed", *({"skipped", "unavailable"} if strict else ())}
    return FAILED if statuses & refused else 0


def _ls(arguments: argparse.Namespace) -> int:
    from vlbench.listing import list_things

    rows = list_things(arguments.kind, arguments.include_path)
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return 0
    from vlbench.leaderboard.tables import plain_table

    cells = [[row["name"], ", ".join(row["tags"]), row["about"]] for row in rows]
    _console().print(plain_table(["name", "tags", "about"], cells))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from vlbench.catalog import load_catalog
    from vlbench.listing import show_thing

    shown = show_thing(load_catalog(arguments.include_path), arguments.name)
    if arguments.json:
        print(json.dumps(shown, indent=1))
        return 0
    import yaml

    print(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True), end="")
    return 0


def _validate(arguments: argparse.Namespace) -> int:
    from vlbench.validating import validate

    found = validate(arguments.paths)
    for file, problem in found.items():
        print(problem or f"{file}: ok", file=sys.stderr if problem else sys.stdout)
    return USAGE if any(found.values()) else 0


def _check(arguments: argparse.Namespace) -> int:
    from vlbench.bench import load_model
    from vlbench.check import check_adapter
    from vlbench.options import Options

    options = Options(
        model_args=_model_args(arguments.model_args),
        include_path=arguments.include_path,
        device=arguments.device,
        dtype=arguments.dtype,
        offline=arguments.offline,
    )
    adapter, without = load_model(arguments.model, options)
    findings = check_adapter(adapter, without=without, device=options.torch_device())
    for finding in findings:
        mark = "ok    " if finding.ok else "FAILED"
        print(
            f"{mark} {finding.capability}: {finding.what}"
            + (f": {finding.why}" if finding.why else "")
        )
    return 0 if findings and all(finding.ok for finding in findings) else FAILED


def _leaderboard_show(arguments: argparse.Namespace) -> int:
    from vlbench.leaderboard.boards import read_board
    from vlbench.leaderboard.tables import board_tables

    names = arguments.tasks or sorted(f.stem for f in arguments.output.glob("*.json"))
    boards = {name: read_board(arguments.output / f"{name}.json") for name in names}
    absent = [name for name, board in boards.items() if board is None]
    if absent or not boards:
        raise UnknownNameError(f"no board {', '.join(absent) or 'at all'} in {arguments.output}")
    console = _console()
    for board in boards.values():
        for table in board_tables(board or {}):
            console.print(table)
    return 0


def _console(*, quiet: bool = False) -> Console:
    """Return the console; off a terminal its lines are as wide as they need to be."""
    from rich.console import Console

    console = Console(highlight=False, quiet=quiet)
    return console if console.is_terminal else Console(highlight=False, quiet=quiet, width=10_000)


if __name__ == "__main__":
    sys.exit(main())
