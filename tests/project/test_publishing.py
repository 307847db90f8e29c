"""The workflows of scripts/publish: they parse, they hold few rights, and their commands run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from planted_boards import board, result, score, write

from vlbench.commands.parser import parser_of

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "publish"
GITHUB = FOLDER.parents[1] / ".github" / "workflows"
WORKFLOWS, OWN = (
    {file.stem: yaml.safe_load(file.read_text()) for file in folder.glob("*.yml")}
    for folder in (FOLDER, GITHUB)
)

GIT = ["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]


def steps(workflow):
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]


def scripts(workflow):
    return [step["run"] for step in steps(workflow) if "run" in step]


def lines():
    """Return the lines of all scripts, those of the project's own workflows too."""
    jobs = [
        job for one in (WORKFLOWS, OWN) for whole in one.values() for job in whole["jobs"].values()
    ]
    texts = [step.get("run", "") for job in jobs for step in job["steps"]]
    return [line for text in texts for line in text.splitlines()]


def rights(workflow):
    whole = WORKFLOWS[workflow]
    return [whole["permissions"], *(job.get("permissions", {}) for job in whole["jobs"].values())]


def triggers(workflow):
    return set(WORKFLOWS[workflow][True])  # YAML reads the key `on` as true


def repository(folder, old, new):
    """Make a checkout of a pull request, merged, that changes published boards from old to new."""
    proposed = folder / "proposed"
    write(proposed / "leaderboards", *old)
    git(proposed, "init", "--quiet")
    (proposed / ".github" / "workflows").mkdir(parents=True)
    shutil.copy(FOLDER / "merged_changes.py", proposed / ".github" / "workflows")
    for boards in (old, new):
        write(proposed / "leaderboards", *boards)
        git(proposed, "add", "--all")
        git(proposed, "commit", "--quiet", "--message", "boards")
    return folder


def git(folder, *words):
    subprocess.run([*GIT, *words], cwd=folder, check=True)


def checked(folder):
    """Run the scripts of check.yml as GitHub does, but pip; return the exit code and the report."""
    (folder / "bin").mkdir()
    for name, words in {"vlbench": "-m vlbench", "python": ""}.items():
        shim = folder / "bin" / name
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        shim.chmod(0o755)
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    given = {"PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    environment = os.environ | given | {"PYTHONPATH": str(FOLDER.parents[1])}
    tree, check = (text for text in scripts("check") if "pip" not in text)
    for text in (tree, check):
        done = subprocess.run(["bash", "-e", "-c", text], cwd=folder, env=environment, check=False)
    return done.returncode, (folder / "report" / "comment.md").read_text()


def test_workflows_call_commands_and_targets_that_are_there():
    called = lines()
    vlbench = [
        shlex.split(line)[1:] for line in called if re.match(r"(\.venv/bin/)?vlbench ", line)
    ]
    assert [words[1] for words in vlbench] == ["build", "page"] * 2
    for words in vlbench:
        assert parser_of().parse_args(words).answer.__module__.endswith(f".{words[1]}")
    made = {line.split()[1] for line in called if line.startswith("make ")}
    assert made >= {"docs", "nightly"}
    targets = (FOLDER.parents[1] / "Makefile").read_text()
    assert [target for target in made if not re.search(rf"^{target}:", targets, re.MULTILINE)] == []


def test_there_are_three_workflows():
    assert {name: triggers(name) for name in WORKFLOWS} == {
        "site": {"push", "workflow_dispatch"},
        "check": {"pull_request"},
        "comment": {"workflow_run"},
    }
    assert WORKFLOWS["comment"][True]["workflow_run"]["workflows"] == [WORKFLOWS["check"]["name"]]


def test_only_the_jobs_that_deploy_and_comment_may_write():
    assert rights("check") == [{"contents": "read"}, {}]
    assert rights("comment") == [{}, {"actions": "read", "pull-requests": "write"}]
    assert rights("site") == [{"contents": "read"}, {}, {"pages": "write", "id-token": "write"}]


def test_nothing_of_a_pull_request_runs_where_comments_may_be_written():
    assert [step for step in steps("comment") if "uses" in step] == []
    assert not any("${{" in text for name in WORKFLOWS for text in scripts(name))


def test_actions_are_those_of_github():
    used = {
        step["uses"].split("@")[0] for name in WORKFLOWS for step in steps(name) if "uses" in step
    }
    assert used == {
        f"actions/{name}"
        for name in (
            *("checkout", "setup-python", "upload-artifact"),
            *("upload-pages-artifact", "deploy-pages"),
        )
    }


OLD = board(result("m", score()))


def test_a_pull_request_with_a_new_row_passes_and_is_told(tmp_path):
    folder = repository(tmp_path, [OLD], [board(result("m", score()), result("n", score()))])
    code, report = checked(folder)
    assert (code, report.splitlines()[0]) == (0, "**1 new row; nothing changed or lost.**")
    assert (tmp_path / "summary.md").read_text() == report


def test_a_pull_request_that_changes_a_row_fails_and_is_told(tmp_path):
    code, report = checked(repository(tmp_path, [OLD], [board(result("m", score(0.9)))]))
    assert (code, report.splitlines()[0]) == (1, "**0 new rows; 1 problem.**")


def test_a_malformed_board_is_told_in_the_report(tmp_path):
    folder = repository(tmp_path, [OLD], [board(result("m", score()), version="one")])
    code, report = checked(folder)
    assert code == 2
    assert "    vlbench: proposed/leaderboards/t.json: 'version' must be a whole number" in report


def test_the_projects_own_workflows_write_only_where_they_publish_or_open_an_issue():
    given = {
        (name, job, right)
        for name, workflow in OWN.items()
        for job, does in workflow["jobs"].items()
        for right, kind in {**workflow["permissions"], **does.get("permissions", {})}.items()
        if kind == "write"
    }
    assert given == {
        ("release", "build", "id-token"),
        ("release", "build", "attestations"),
        ("release", "upload", "id-token"),
        ("site", "deploy", "pages"),
        ("site", "deploy", "id-token"),
        *((name, job, "issues") for name, job in (("nightly", "nightly"), ("sources", "sources"))),
    }
