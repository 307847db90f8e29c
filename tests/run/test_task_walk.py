"""From the text of a task's YAML to a `Task` in a straight walk through few files."""

import sys
from itertools import groupby
from pathlib import Path

import vlbench
import vlbench.data.scenes
import vlbench.probes.matching.questions  # so that no import runs within the walk
from vlbench.catalog import strict_yaml
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.listed_capabilities import shipped_probes
from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import load_tasks
from vlbench.run.options import Options
from vlbench.run.task import resolve_task

PACKAGE = str(Path(vlbench.__file__).parent)
NAME = "questions_scenes"
MOST_CHANGES = 8


def files_walked(function):
    """Return the file of vlbench that runs, each time that it is another one."""
    files = []

    def note(frame, event, _):
        frame = {"call": frame, "return": frame.f_back}.get(event)
        file = frame.f_code.co_filename if frame else ""
        if file.startswith(PACKAGE) and files[-1:] != [file]:
            files.append(file)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return [str(Path(file).relative_to(PACKAGE)) for file in files]


def test_a_task_is_resolved_in_a_straight_walk(monkeypatch):
    monkeypatch.delenv("VLBENCH_DATA", raising=False)
    options, tasks, source = Options(), {}, shipped_source()
    file = load_catalog().tasks[NAME].document.file
    # These are read once in a run, by the first task.
    assert "vlbench" in options.trusted
    assert options.data_folder is None
    assert NAME.removesuffix("_scenes") in shipped_probes()

    strict_yaml._parse_once.cache_clear()

    def resolve():
        tasks[NAME] = load_tasks(file, source)[0]
        resolve_task(Catalog(tasks, {}), NAME, named=True, options=options)

    walked, files = files_walked(resolve), "system/files.py"
    assert walked.count(files) == 2, walked  # is the file's name one, and what is its text
    # What reads, changes and yields plain values calls back for each of them.
    rest = [file for file in walked[walked.index(files, 3) + 1 :] if file != "schema.py"]
    from_text = [file for file, _ in groupby(rest)]
    assert from_text[0] == "catalog/strict_yaml.py"
    assert from_text[-1] == "run/task.py"
    assert len(from_text) - 1 <= MOST_CHANGES, from_text
