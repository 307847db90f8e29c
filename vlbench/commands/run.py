"""`vlbench run`: run models on tasks and write leaderboards."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlbench.catalog.catalog import read_catalog
from vlbench.catalog.library_names import split_names
from vlbench.catalog.sources import PUBLISHED, RESULTS, has_boards
from vlbench.catalog.specs import IMAGES
from vlbench.commands import FAILED, USAGE, Answer
from vlbench.commands.parser import (
    add_cache,
    add_data,
    add_dtype,
    add_images,
    add_model,
    add_output,
    add_params,
    data_dirs,
    options_of,
    parser_of,
    positive,
)
from vlbench.commands.streams import announce_torch
from vlbench.errors import SpecError, UnknownNameError, counted, unknown

if TYPE_CHECKING:  # these import torch or YAML
    from vlbench.catalog.strict_yaml import Document
    from vlbench.engine.processes import Processes
    from vlbench.run.execute import Report
    from vlbench.run.plan import Plan

# Options that a file cannot set.
NOT_IN_FILES = frozenset({"answer", "config"})

# Options that may name code; a file may set them only if the command line has --trust.
NAMES_CODE = frozenset({"model", "model_args"})

# Two options that exclude each other; an option on the command line overrides both in a file.
CACHE = ("cache_dir", "no_cache")

# Set in a launched process: the process id of its launcher.
LAUNCHER = "VLBENCH_LAUNCHER"


# The task that runs on a user's questions.
QUESTIONS = "questions_table"


def add_options(run: argparse.ArgumentParser) -> None:
    """Add the options of a run."""
    run.add_argument(
        "-m",
        "--model",
        metavar="NAME[,...]",
        help="names and globs; hf:ORG/NAME, timm:NAME, open_clip:ARCHITECTURE/TAG, "
        "torchvision:NAME/WEIGHTS, openai:NAME@URL, recorded:PATH; or path/to/file.py:Class",
    )
    run.add_argument("-t", "--tasks", metavar="all|NAME|TAG|GLOB[,...]", help="which tasks to run")
    of_tasks = f"--tasks that read them, such as knn_images (default: the tasks tagged {IMAGES})"
    add_images(run, of_tasks)
    run.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a YAML file of these options; the command line overrides it",
    )
    add_model(run)
    add_dtype(run)
    run.add_argument("--name", help="the name of the rows, instead of the model's name")
    add_params(run)
    add_data(run, download=True)
    add_output(run, of_run=True)
    add_cache(run)
    run.add_argument(
        "--batch-size",
        type=_batch_size,
        default=32,
        metavar="N|auto",
        help="images per batch (default: 32); auto: the fastest on a CPU, the largest on a GPU",
    )
    run.add_argument(
        "--limit", type=positive, metavar="N", help="use N rows per split; no board is written"
    )
    run.add_argument(
        "--processes",
        type=positive,
        metavar="N",
        help="number of processes (default: one per visible GPU, or 1)",
    )
    _add_planning(run)


def _add_planning(run: argparse.ArgumentParser) -> None:
    """Add the options for what the plan prints, and which rows count as done."""
    run.add_argument("--dry-run", action="store_true", help="print the plan, and stop")
    run.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print why tasks are skipped, kept or lack data",
    )
    run.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a task is skipped or its data are missing",
    )
    run.add_argument(
        "--overwrite", action="store_true", help="rerun even if the boards already have the rows"
    )


def _batch_size(text: str) -> int | None:
    return None if text == "auto" else positive(text)


def answer(arguments: argparse.Namespace) -> Answer:
    """Print the plan, run it and print the scores; return the problems and the exit code."""
    launcher = int(os.environ.pop(LAUNCHER, "0"))
    # The launching process has already printed the plan and earlier messages.
    logging.disable(logging.CRITICAL if launcher else logging.NOTSET)
    if arguments.questions or arguments.images:
        arguments.tasks = arguments.tasks or (QUESTIONS if arguments.questions else IMAGES)
    if not (arguments.model and arguments.tasks):
        raise UnknownNameError("pass --model and --tasks, or give them in a file for --config")
    models = list(dict.fromkeys(split_names(arguments.model)))
    tasks = arguments.tasks.split(",")
    catalog, wrong = read_catalog(arguments.include_path)
    if not wrong:  # the plan reports what is wrong
        catalog.require(models, tasks)  # before torch is imported
    options = options_of(arguments)
    announce_torch("reading the data of the tasks")
    from vlbench.bench import planned_run
    from vlbench.commands.printing import print_plan
    from vlbench.engine.launch import count_processes, end_with_launcher, launch
    from vlbench.system.console import open_console

    with end_with_launcher(launcher), planned_run(models, tasks, options) as (planned, processes):
        size = count_processes(arguments.processes, options.device)
        logging.disable(logging.NOTSET)
        print_plan(
            open_console(quiet=launcher > 0 or not processes.is_main),
            planned,
            verbose=arguments.verbose or arguments.dry_run or arguments.strict,
        )
        if arguments.dry_run:
            return Answer([], _describe_broken(planned), FAILED if planned.broken else 0)
        if size > processes.size and any(job.status == "run" for job in planned.jobs):
            return Answer(code=launch(size, arguments.typed, {LAUNCHER: str(os.getpid())}))
        ended = run_plan(planned, processes, strict=arguments.strict)
        processes.leave()
    if launcher and not processes.is_main:
        return Answer()
    return ended._replace(problems=[*ended.problems, *_describe_unread(arguments.output)])


def run_plan(planned: Plan, processes: Processes, *, strict: bool = False) -> Answer:
    """Run the plan and print the scores; return the problems and the exit code."""
    from vlbench.bench import run
    from vlbench.commands.printing import open_bar, print_report
    from vlbench.system.console import open_console

    console = open_console(quiet=not processes.is_main)
    with open_bar(console, planned) as bar:
        report = run(planned, processes, bar)
    print_report(console, planned, report)
    problems = [f"vlbench: {name} did not load: {why}" for name, why in report.not_loaded.items()]
    return _answer_of(planned, report, [*problems, *_describe_broken(planned)], strict=strict)


def _describe_broken(planned: Plan) -> list[str]:
    """Return the broken tasks that might have been meant, after a line with their number."""
    count = len(planned.broken)
    head = f"vlbench: {counted(count, 'task')} left out because the file is broken:"
    return [head, *planned.broken] if count else []


def _describe_unread(output: Path) -> list[str]:
    """Return a line on the user's boards that commands no longer read after a run wrote others."""
    from vlbench.report.rows import models_of_ones_own
    from vlbench.report.texts import few

    models = models_of_ones_own(PUBLISHED) if output == RESULTS and has_boards(RESULTS) else []
    way = f"pass --output {PUBLISHED} for the rows of {few(models)}"
    return [f"vlbench: commands now read ./{RESULTS}; {way}"] if models else []


def _answer_of(planned: Plan, report: Report, problems: list[str], *, strict: bool) -> Answer:
    """Return the problems and the exit code of a run."""
    statuses = {job.status for job in planned.jobs} | {r.status for r in report.results}
    statuses |= {"unavailable"} if report.absent else set()
    if not statuses & {"ok", "kept"}:
        problems = [*problems, "vlbench: nothing ran; see the reasons above"]
        return Answer(problems=problems, code=FAILED)
    if any(job.task.named and job.task.spec.name in report.absent for job in planned.jobs):
        return Answer(problems=problems, code=USAGE)
    refused = {"failed", *({"skipped", "unavailable"} if strict else ())}
    failed = bool(statuses & refused or planned.broken)
    return Answer(problems=problems, code=FAILED if failed else 0)


def insert_config(typed: argparse.Namespace, words: Sequence[str]) -> list[str]:
    """Return the words of a run after those of its config file; later words override."""
    defaults = vars(parser_of().parse_args(["run"]))
    return ["run", *read_config(typed.config, vars(typed), defaults), *words[1:]]


def read_config(file: Path, arguments: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return the options in a file as words of the command line.

    `arguments` are the options on the command line, `defaults` those of an empty command line.
    Relative folders are relative to the current folder, as on the command line. Raises SpecError,
    with file and line, for an unknown option, or a value that the command line would not accept.
    """
    from vlbench.catalog.strict_yaml import load_yaml
    from vlbench.code.functions import names_file

    document = load_yaml(file)
    words: list[str] = []
    cached = any(arguments[name] != defaults[name] for name in CACHE)
    for key, value in document.values.items():
        name = str(key).replace("-", "_")
        if name not in defaults or name in NOT_IN_FILES:
            options = defaults.keys() - NOT_IN_FILES
            raise SpecError(f"{document.where(str(key))}: {unknown('option', str(key), options)}")
        if value is None or (cached and name in CACHE):
            continue
        if name == "trust":
            raise SpecError(
                f"{document.where(str(key))}: {key} cannot be set in a file; pass --trust"
            )
        given_words = [*_words(document, str(key), value, defaults[name])]
        is_code = name in NAMES_CODE and any(map(names_file, given_words))
        if (is_code or name == "include_path") and not arguments["trust"]:
            why = f"{key} names code to run; if you trust it, pass --trust"
            raise SpecError(f"{document.where(str(key))}: {why}")
        if name == "data_dir":  # a folder on the command line replaces that of the same name
            typed = data_dirs(arguments[name])
            texts = [word.partition("=")[2] for word in given_words]
            given_words = [
                f"--data-dir={text}" for text in texts if not {*data_dirs([text])} & {*typed}
            ]
        words += given_words
    return words


def _words(document: Document, key: str, value: Any, default: Any) -> Iterator[str]:
    option, where = f"--{key.replace('_', '-')}", document.where(key)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise SpecError(f"{where}: {key} must be true or false, not {value!r:.40}")
        yield from [option] if value else []
    elif isinstance(default, list):  # an option that may be repeated
        for text in _texts(where, key, value):
            yield f"{option}={text}"
    else:
        texts = _texts(where, key, value)
        if len(texts) > 1 and any("," in text for text in texts):
            raise SpecError(f"{where}: {key} has a value that contains a comma")
        yield f"{option}={','.join(texts)}"


def _texts(where: str, key: str, value: Any) -> Sequence[str]:
    if isinstance(value, dict):
        value = [f"{k}={v}" for k, v in value.items()]
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str | int | float) for part in values):
        raise SpecError(f"{where}: {key} must be a text, a number, or a list of these")
    return [str(part) for part in values]
