from dataclasses import replace

import numpy as np
from planted_boards import board, measured, result, score
from planted_findings import catalog, finding, model, task

from vlbench.catalog.strict_yaml import Document
from vlbench.metrics.intervals import Z95
from vlbench.report.judging import Evidence
from vlbench.report.ranging import models_in, verdicts

ABOVE_CHANCE = "greater: [{}, {floor: chance}]"
LISTED = "for_each: {model: [%s]}, "


def wald(value, stderr, **rest):
    """Plant a score whose interval is value +- 1.96 stderr."""
    return score(value, stderr=stderr, ci95=(value - Z95 * stderr, value + Z95 * stderr), **rest)


def judged(folder, values, stderr=0.01, named=None, **rest):
    """Judge that each model is above a chance of 0.5."""
    names = [f"m{i}" for i in range(len(values))]
    ranged = LISTED % ", ".join(named or names)
    rows = [
        result(name, wald(value, stderr, chance=0.5))
        for name, value in zip(names, values, strict=True)
    ]
    known = Evidence({"t": board(*rows)}, catalog(task(**rest)), folder)
    return verdicts(finding(folder, ranged + ABOVE_CHANCE), known)


def words(by_model):
    return [one.verdict for one in by_model.values()]


def test_each_model_has_its_own_verdict_and_one_without_a_row_none(tmp_path):
    found = judged(tmp_path, [0.6, 0.4, 0.505], named=["m0", "m1", "m2", "m3"])
    assert words(found) == ["supported", "contradicted", "undecided", "missing"]
    assert list(found) == ["m0", "m1", "m2", "m3"]


def test_verdicts_are_corrected_over_the_models_that_are_tested(tmp_path):
    # 2.1 standard errors suffice for one model (1.96) and not for two (2.24).
    assert words(judged(tmp_path, [0.521])) == ["supported"]
    assert words(judged(tmp_path, [0.521, 0.5])) == ["undecided", "undecided"]
    # Holm: where the other one is clear, this one needs 1.96 alone.
    assert words(judged(tmp_path, [0.521, 0.6])) == ["supported", "supported"]
    assert words(judged(tmp_path, [0.479, 0.4])) == ["contradicted", "contradicted"]


def test_of_models_at_the_limit_one_is_called_in_at_most_5_percent(tmp_path):
    rng = np.random.default_rng(0)
    called = [
        set(words(judged(tmp_path, rng.normal(0.5, 0.01, 6).tolist()))) != {"undecided"}
        for _ in range(400)
    ]
    # Two binomial standard errors of 5 %.
    assert 0.02 < np.mean(called) < 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_scores_of_different_units_are_judged(tmp_path):
    rows = [result(m, wald(0.6, 0.01, chance=0.5, unit=u)) for m, u in {"a": "x", "b": "y"}.items()]
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    found = verdicts(finding(tmp_path, LISTED % "a, b" + ABOVE_CHANCE), known)
    assert words(found) == ["supported", "supported"]


def test_a_control_that_a_side_names_is_compared_over_items_and_not_ranged_over(tmp_path):
    credit = {"a": [1] * 60 + [0] * 40, "b": [1] * 50 + [0] * 50, "control": [1] * 40 + [0] * 60}
    rows = [measured(tmp_path, name, values) for name, values in credit.items()]
    entry = LISTED % "a, b, control" + "greater: [{}, {model: control}]"
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    found = verdicts(finding(tmp_path, entry), known)
    assert list(found) == ["a", "b"]
    assert [one.compared[0].how for one in found.values()] == ["paired", "paired"]
    assert words(found) == ["supported", "supported"]


ADAPTER = """\
class Attends:
    def preprocess(self, image): ...
    def encode_images(self, images): ...
"""


def test_a_range_holds_those_on_the_board_that_can_and_no_control(tmp_path):
    (tmp_path / "eyes.py").write_text(ADAPTER)
    here = Document(tmp_path / "models.yaml", {}, {})
    adapters = {"sees": "eyes:Attends", "blind": "eyes:Nobody", "without_row": "eyes:Attends"}
    listed = [replace(model(k, adapter=v), document=here) for k, v in adapters.items()]
    known = catalog(task(probe="few_shot"), models=listed)
    rows = [result(name, score()) for name in ("blind", "sees[weights=w]", "timm:resnet")]
    rows.append(result("sees", score(), provenance={"control": True}))
    evidence = Evidence({"t": board(*rows)}, known, tmp_path)
    entry = "for_each: {capability: ImageEncoder}, " + ABOVE_CHANCE
    assert models_in(finding(tmp_path, entry), evidence) == ["sees[weights=w]", "timm:resnet"]
    entry = "for_each: {model: [blind, sees]}, " + ABOVE_CHANCE
    assert models_in(finding(tmp_path, entry), evidence) == ["blind"]


def test_controls_do_not_count_in_the_correction(tmp_path):
    # 2.1 standard errors suffice for one model, and not for two.
    row = result("m", wald(0.521, 0.01, chance=0.5))
    control = result("c", wald(0.5, 0.01, chance=0.5), provenance={"control": True})
    known = Evidence({"t": board(row, control)}, catalog(task()), tmp_path)
    entry = LISTED % "m, c" + ABOVE_CHANCE
    assert words(verdicts(finding(tmp_path, entry), known)) == ["supported"]
