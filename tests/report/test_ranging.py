from dataclasses import replace

import numpy as np
import pytest
from planted_boards import board, measured, result, score
from planted_findings import catalog, finding, model, task
from scipy import stats

from vlbench.catalog.strict_yaml import Document
from vlbench.metrics.intervals import Z95
from vlbench.report.judging import Evidence
from vlbench.report.ranging import detectable, heterogeneity, judge_range, models_in

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
    return judge_range(finding(folder, ranged + ABOVE_CHANCE), known)


def verdicts(judgement):
    return [one.verdict for one in judgement.by_model.values()]


def test_each_model_has_its_own_verdict_and_one_without_a_row_none(tmp_path):
    found = judged(tmp_path, [0.6, 0.4, 0.505], named=["m0", "m1", "m2", "m3"])
    assert verdicts(found) == ["supported", "contradicted", "undecided", "missing"]
    assert found.counts == {"supported": 1, "contradicted": 1, "undecided": 1, "missing": 1}
    assert list(found.tested) == ["m0", "m1", "m2"]


def test_verdicts_are_corrected_over_the_models_that_are_tested(tmp_path):
    # 2.1 standard errors suffice for one model (1.96) and not for two (2.24).
    assert verdicts(judged(tmp_path, [0.521])) == ["supported"]
    assert verdicts(judged(tmp_path, [0.521, 0.5])) == ["undecided", "undecided"]
    # Holm: where the other one is clear, this one needs 1.96 alone.
    assert verdicts(judged(tmp_path, [0.521, 0.6])) == ["supported", "supported"]
    assert verdicts(judged(tmp_path, [0.479, 0.4])) == ["contradicted", "contradicted"]


def test_of_models_at_the_limit_one_is_called_in_at_most_5_percent(tmp_path):
    rng = np.random.default_rng(0)
    called = [
        set(verdicts(judged(tmp_path, rng.normal(0.5, 0.01, 6).tolist()))) != {"undecided"}
        for _ in range(400)
    ]
    # Two binomial standard errors of 5 %.
    assert 0.02 < np.mean(called) < 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_a_planted_difference_of_the_detectable_size_is_found_with_a_power_of_80_percent():
    size = detectable(0.01, models=3)
    z = np.random.default_rng(0).normal(size / 0.01, 1, 20_000)
    assert (z > stats.norm.isf(0.025 / 3)).mean() == pytest.approx(0.8, abs=0.01)


def test_the_detectable_difference_is_that_of_the_least_and_the_most_exact_model(tmp_path):
    low, high = judged(tmp_path, [0.6, 0.4], stderr=0.02).detectable
    assert (low, high) == pytest.approx([detectable(0.02, 2)] * 2)


def test_heterogeneity_is_that_of_all_pairs_over_the_sum_of_weights():
    effects, errors = np.array([0.1, 0.3, 0.4, 0.7, 0.2]), np.array([0.2, 0.1, 0.3, 0.1, 0.15])
    weights = errors**-2.0
    pairs = np.outer(weights, weights) * (effects[:, None] - effects) ** 2
    found = heterogeneity(effects.tolist(), errors.tolist())
    assert (found.q, found.freedom) == (pytest.approx(pairs.sum() / 2 / weights.sum()), 4)
    assert found.p == pytest.approx(stats.chi2.sf(found.q, 4))


def test_two_effects_by_hand():
    # Weights of 1 and a mean of 1.5: twice 1.5 squared; of 4.5, 3.5 are more than the 1 expected.
    found = heterogeneity([0.0, 3.0], [1.0, 1.0])
    assert (found.q, found.freedom) == (pytest.approx(4.5), 1)
    assert found.i2 == pytest.approx(3.5 / 4.5)


def test_one_model_or_no_error_has_no_heterogeneity():
    assert heterogeneity([0.1], [0.1]) is None
    assert heterogeneity([0.1, 0.2], [0.0, 0.1]) is None


def test_shared_items_make_heterogeneity_cautious():
    # Six equal models whose credits on an item correlate by 0.5: Q must reject in at most 5 %.
    rng = np.random.default_rng(0)
    common, own = rng.normal(size=(1000, 1)), rng.normal(size=(1000, 6))
    effects = 0.01 * (np.sqrt(0.5) * common + np.sqrt(0.5) * own)
    p = [heterogeneity(row.tolist(), [0.01] * 6).p for row in effects]
    assert np.mean(np.array(p) < 0.05) < 0.05


def test_models_that_differ_are_heterogeneous(tmp_path):
    assert judged(tmp_path, [0.5, 0.6, 0.7]).heterogeneity.p < 1e-6
    assert judged(tmp_path, [0.6, 0.6, 0.6]).heterogeneity.i2 == 0


def test_a_finding_of_several_comparisons_has_no_heterogeneity(tmp_path):
    rows = [result(m, wald(0.6, 0.01, chance=0.5), wald(0.7, 0.01, at={})) for m in "ab"]
    entry = LISTED % "a, b" + "ordered: [{at: {shots: 5}}, {floor: chance}, {floor: chance}]"
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    assert judge_range(finding(tmp_path, entry), known).heterogeneity is None


def test_scores_of_different_units_are_judged_and_not_put_together(tmp_path):
    rows = [result(m, wald(0.6, 0.01, chance=0.5, unit=u)) for m, u in {"a": "x", "b": "y"}.items()]
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    found = judge_range(finding(tmp_path, LISTED % "a, b" + ABOVE_CHANCE), known)
    assert verdicts(found) == ["supported", "supported"]
    assert (found.heterogeneity, found.detectable) == (None, None)


def test_a_control_that_a_side_names_is_compared_over_items_and_not_ranged_over(tmp_path):
    credit = {"a": [1] * 60 + [0] * 40, "b": [1] * 50 + [0] * 50, "control": [1] * 40 + [0] * 60}
    rows = [measured(tmp_path, name, values) for name, values in credit.items()]
    entry = LISTED % "a, b, control" + "greater: [{}, {model: control}]"
    known = Evidence({"t": board(*rows)}, catalog(task()), tmp_path)
    found = judge_range(finding(tmp_path, entry), known)
    assert list(found.by_model) == ["a", "b"]
    assert [one.compared[0].how for one in found.by_model.values()] == ["paired", "paired"]
    assert verdicts(found) == ["supported", "supported"]


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
    assert verdicts(judge_range(finding(tmp_path, entry), known)) == ["supported"]
