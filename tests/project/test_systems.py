"""docs/experiments.md's table of the papers' systems, and what CLIP runs of the embedded tasks."""

import importlib
from pathlib import Path

import pytest

from vlbench.catalog.catalog import load_catalog
from vlbench.run.model import fit, resolve_model
from vlbench.run.options import Options
from vlbench.run.task import resolve_task


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "scripts"))
    return importlib.import_module("systems")


def test_the_table_is_what_the_plan_says(script):
    text = script.PAGE.read_text("utf-8")
    assert script.with_table(text) == text
    assert text.count(script.START) == text.count(script.END) == 1


def test_a_cell_counts_what_runs_and_names_what_is_lacking(script):
    gaps = ["", "Detector or RegionEncoder", "TokenEncoder"]
    assert script._cell(gaps) == "1: no Detector, RegionEncoder, TokenEncoder"
    assert script._cell(gaps[1:2]) == "none: no Detector, RegionEncoder"
    assert script._cell([""]) == "all"


def test_the_papers_systems_are_there_once(script):
    assert len(script.SYSTEMS) == len(set(script.SYSTEMS)) == 14 + 10
    assert set(script.SYSTEMS) <= load_catalog().models.keys()


@pytest.mark.parametrize("name", ["clip-rn50", "clip-vit-b-32", "tiny-clip", "clip-vit-b-32-hf"])
def test_clip_runs_every_embedded_task_that_its_architecture_can(name):
    catalog, options = load_catalog(), Options()
    model = resolve_model(catalog, name, options)
    tasks = [resolve_task(catalog, one, False, options) for one in catalog.task_names(["embedded"])]
    gaps = {task.spec.name: fit(model, task.needs)[1] for task in tasks}
    assert {task: gap for task, gap in gaps.items() if gap} == {
        "ablation_scenes": "Intervenable",
        "classification_scenes": "Classifier",
        "entity_grounding_scenes": "JointAttender",
        "syntactic_grounding_scenes": "JointAttender",
        "question_generation_scenes": "MaskedLanguageModel",
        "questions_scenes": "AnswerScorer or Answerer or Recording",
    }
