import math
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from sources import write

from vlbench.boards.board import read_board
from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.catalog.findings import IN_TURN, load_findings, task_problems
from vlbench.errors import SpecError
from vlbench.report.similarities import joined, similarities, similarity_rows

BOARDS = Path(__file__).parents[2] / "leaderboards"
TEXT = """\
paper: "arXiv:0000.00000"
title: A Paper
models: {two: [a, b]}
findings:
  - {finding: It is so., where: Table 1, task: t, model: two, metric: accuracy, within: [0, 1]}
  - {finding: It sings., needs: a microphone}
"""


@pytest.fixture
def findings(tmp_path):
    def load(text):
        (spec,) = load_findings(write(tmp_path / "ours.yaml", text), tmp_path)
        return spec

    return load


def test_findings_are_named_by_their_file_and_say_what_it_says(findings):
    spec = findings(TEXT)
    assert (spec.name, spec.paper, spec.title) == ("ours", "arXiv:0000.00000", "A Paper")
    first, second = spec.findings
    assert (first.text, first.where, first.place) == ("It is so.", "Table 1", f"{spec.file}:5")
    assert (second.needs, second.comparisons) == ("a microphone", ())


def test_a_user_needs_no_paper(findings):
    spec = findings("findings: [{finding: It sings., needs: a microphone}]\n")
    assert (spec.paper, spec.title, spec.findings[0].where) == ("", "", "")


PROBLEMS = [
    ("title:", "titel:", 2, "'titel' is unknown; did you mean 'title'"),
    ("[a, b]", "[]", 3, "'two' is empty; list its models"),
    ("[a, b]", "a", 3, "'models.two' must be a list of texts, not 'a'"),
    ("{two: [a, b]}", "[a]", 3, "'models' must be a mapping, not"),
    ("where:", "were:", 5, r"'findings\[0\].were' is unknown; did you mean 'where'"),
    ("{finding: It sings.,", "{", 6, r"'findings\[1\].finding' is missing"),
    (", needs: a microphone", "", 6, "a finding must have exactly one of .*; this finding has 0"),
    (
        "within: [0, 1]",
        "within: [0, 1], needs: x",
        5,
        "a finding must have exactly one of .* has 2",
    ),
    ("within: [0, 1]", "within: [0, 1], by: 1", 5, "'by' belongs to 'greater'"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), PROBLEMS)
def test_a_problem_is_told_with_file_and_line(findings, old, new, line, message):
    with pytest.raises(SpecError, match=rf"ours.yaml:{line}: {message}"):
        findings(TEXT.replace(old, new))


@pytest.mark.parametrize("text", ["title: A Paper\n", "findings: []\n"])
def test_a_file_without_findings_is_refused(findings, text):
    with pytest.raises(SpecError, match=r"ours.yaml: 'findings' is missing or empty; list them"):
        findings(text)


def test_the_problems_of_all_findings_stand_in_one_message(findings):
    with pytest.raises(SpecError, match=r"(?s)ours.yaml:5: .*ours.yaml:6: "):
        findings(TEXT.replace("within", "inside").replace("needs", "wants"))


def test_a_task_that_no_source_has_is_told_once_with_its_line(findings):
    text = TEXT.replace("within: [0, 1]", "each: {at: [{n: 1}, {n: 2}]}, within: [0, 1]")
    (problem,) = task_problems(findings(text), {})
    assert "ours.yaml:5: no task is named 't'" in problem


def shipped():
    """Yield every shipped finding."""
    for spec in load_all_findings(load_catalog()).values():
        yield from spec.findings


def sides():
    """Yield every side of every shipped finding."""
    for finding in shipped():
        yield from finding.sides


def test_each_of_the_five_papers_has_its_findings():
    papers = {spec.name: spec.paper for spec in load_all_findings(load_catalog()).values()}
    assert papers == {
        "bert_gen": "arXiv:2002.10832",
        "captions": "arXiv:2210.09550",
        "generalization": "arXiv:2104.08313",
        "visualbert": "ACL 2020, 2020.acl-main.469",
        "vsep": "arXiv:2107.12021",
    }


def test_shipped_findings_are_of_listed_models():
    models = load_catalog().models
    # A summary holds the text tower of a model under a name of its own.
    named = {model.removesuffix(" (text)") for side in sides() for model in side.models}
    named |= {model for finding in shipped() if finding.range for model in finding.range.models}
    assert named - set(models) == {IN_TURN}


def test_no_shipped_finding_judges_a_head_that_its_own_images_chose():
    assert [one for one in sides() if one.metric.startswith("best_")] == []


def probe_of(task):
    """Return the module of a task's probe; all probes of one give the same scores."""
    return task.probe.partition(":")[0].rpartition(".")[2]


# What findings read of the probes of which no board is shipped.
TEXTS = ("bleu_4", "meteor", "rouge_l", "cider", "perplexity", "length", "nouns", "unique_nouns")
UNSHIPPED = {
    "caption_patterns": {
        "match_score",
        "match_score_gain",
        "pattern_ratio",
        "prefix_ratio",
        "spice",
    }
    | {f"{metric}{gain}" for metric in TEXTS for gain in ("", "_gain")},
    "caption_cross": {"match_score", "win_rate_vs_cross_entropy"},
    "object_label_alignment": {"accuracy", "accuracy_no_layer_norm", "template_drop"},
    "patch_retrieval": {"recall"},
    "question_generation": {"cider", "cls_similarity"},
    "robustness": {"success"},
    "syntactic_grounding": {"split_half_accuracy", "layer_accuracy", "most_confident_region"},
    "zero_shot_alignment": {"accuracy", "accuracy_unseen", "mutual_exclusivity"},
}

# What the probe of words says.
WORD_SPACE = {
    f"{metric}{which}"
    for metric in ("analogy_accuracy", "word_pair_pearson", "word_pair_spearman")
    for which in ("", "_unconstrained")
} | {"visual_word_accuracy", "majority_answer", "majority_word", "shuffled_labels", "", "chance"}


def test_shipped_findings_are_of_scores_and_floors_that_their_probes_give():
    tasks = load_catalog().tasks
    given = defaultdict(set, {probe: names | {"", "chance"} for probe, names in UNSHIPPED.items()})
    given["word_space"] |= WORD_SPACE
    boards = [read_board(file) for file in BOARDS.glob("*.json")]
    for board in boards:
        scores = [score for row in board.results for score in row.scores]
        names = {name for s in scores for name in (s.metric, *s.floors)} | {"", "chance"}
        given[probe_of(tasks[board.task])] |= names
    # What the summary of a group of matrices says; summaries are built, and not in git.
    members, _ = joined(BOARDS, [board for board in boards if board.task.startswith("rsa_")])
    for row in similarity_rows(members, similarities(members)):
        given[""] |= {name for s in row["scores"] for name in (s["metric"], *s["floors"])} | {""}
    for side in sides():
        named = {task for name in side.tasks for task in tasks[name].group or [name]}
        probes = {probe_of(tasks[task]) for task in named}
        probes = {""} if side.metric == "rdm_correlation" else probes
        assert all({side.metric, side.floor} <= given[probe] for probe in probes), side


LISTS = "models: {two: [a, b]}\n"
BASE = "{finding: It is so., task: t, metric: accuracy, "


@pytest.fixture
def compared(tmp_path):
    def load(entry):
        file = write(tmp_path / "ours.yaml", f"{LISTS}findings:\n  - {BASE}{entry}}}\n")
        (spec,) = load_findings(file, tmp_path)
        return list(spec.findings[0].comparisons)

    return load


def test_a_lead_is_of_the_first_side_over_the_second(compared):
    (found,) = compared("greater: [{model: a}, {model: b}]")
    assert [side.models for side in found.sides] == [["a"], ["b"]]
    assert (found.low, found.high) == (0, math.inf)


def test_a_lead_may_have_a_margin(compared):
    (found,) = compared("greater: [{model: a}, {model: b}], by: -0.01")
    assert found.low == -0.01


def test_an_order_is_a_lead_of_each_over_the_next(compared):
    found = compared("ordered: [{model: a}, {model: b}, {model: c}]")
    assert [[s.models[0] for s in one.sides] for one in found] == [["a", "b"], ["b", "c"]]


def test_a_range_is_of_one_side(compared):
    (found,) = compared("model: a, within: [0.25, 1]")
    assert (found.low, found.high, len(found.sides)) == (0.25, 1, 1)


def test_a_side_says_what_sets_it_apart_and_takes_the_rest_from_the_finding(compared):
    (found,) = compared(
        "model: a, at: {n: 2}, greater: [{at: {k: 1}}, {metric: other, at: {n: 3}}]"
    )
    first, second = found.sides
    assert (first.models, first.tasks, first.metric, first.at) == (
        ["a"], ["t"], "accuracy", [{"n": 2, "k": 1}]
    )  # fmt: skip
    assert (second.metric, second.at) == ("other", [{"n": 3}])
    assert (first.label, second.label) == ("k 1", "other, n 3")


def test_a_name_stands_for_its_list_of_models(compared):
    (found,) = compared("greater: [{model: two}, {model: [c, two]}]")
    assert [side.models for side in found.sides] == [["a", "b"], ["c", "a", "b"]]
    assert found.sides[0].label == "two"


def test_a_side_may_be_the_mean_over_conditions(compared):
    (found,) = compared("model: a, at: {r: x}, greater: [{at: [{n: 1}, {n: 2}]}, {at: {n: 3}}]")
    assert found.sides[0].at == [{"r": "x", "n": 1}, {"r": "x", "n": 2}]


def test_each_stands_for_every_combination(compared):
    found = compared("each: {model: two, at: [{n: 1}, {n: 2}]}, greater: [{}, {floor: chance}]")
    assert [one.case for one in found] == ["a, n 1", "a, n 2", "b, n 1", "b, n 2"]
    assert [(one.sides[0].models, one.sides[0].at) for one in found][1] == (["a"], [{"n": 2}])
    assert [one.sides[1].floor for one in found] == ["chance"] * 4


def test_what_a_side_names_comes_before_each(compared):
    found = compared("each: {model: [b, c]}, greater: [{model: a}, {}]")
    assert [[s.models[0] for s in one.sides] for one in found] == [["a", "b"], ["a", "c"]]


WRONG_COMPARISONS = [
    ("greater: [{model: a}]", "'greater' has two sides, not 1"),
    ("greater: [{model: a}, {model: b}, {model: c}]", "'greater' has two sides, not 3"),
    ("ordered: [{model: a}]", "'ordered' has two sides or more, not 1"),
    ("model: a, within: [1]", r"'findings\[0\].within' must be a list of 2 numbers, not a list"),
    ("model: a, within: [x, 1]", r"'findings\[0\].within\[0\]' must be a number, not 'x'"),
    ("model: a, within: [0.9, 0.1]", r"'within' is \[low, high\]; 0.9 is above 0.1"),
    ("within: [0, 1]", "'model' is missing, in this side and in the finding"),
    (
        "greater: [a, b]",
        r"'findings\[0\].greater\[0\]' must be a mapping of model, task, metric, at, floor, ",
    ),
    (
        "greater: [{modle: a}, {model: b}]",
        r"'findings\[0\].greater\[0\].modle' is unknown; did you mean 'model'",
    ),
    (
        "greater: [{model: [1]}, {model: b}]",
        r"'findings\[0\].greater\[0\].model\[0\]' must be a text, not 1",
    ),
    (
        "greater: [{model: a, at: [3]}, {model: b}]",
        r"'findings\[0\].greater\[0\].at\[0\]' must be a mapping, not 3",
    ),
    ("greater: [{model: a, at: []}, {model: b}]", "'at' lists no conditions"),
    ("each: {at: []}, model: a, within: [0, 1]", "'at' is empty"),
    (
        "each: {model: [3]}, within: [0, 1]",
        r"'findings\[0\].each.model\[0\]' must be a text, not 3",
    ),
    (
        "each: {task: [3]}, model: a, within: [0, 1]",
        r"'findings\[0\].each.task\[0\]' must be a text, not 3",
    ),
    (
        "each: {metric: [x]}, model: a, within: [0, 1]",
        r"'findings\[0\].each.metric' is unknown; there are model, task",
    ),
]


@pytest.mark.parametrize(("entry", "message"), WRONG_COMPARISONS)
def test_what_is_no_comparison_is_told_with_its_line(compared, entry, message):
    with pytest.raises(SpecError, match=rf"ours.yaml:3: {message}"):
        compared(entry)


TWO = "greater: [{floor: chance}, {}]"


@pytest.fixture
def ranging(tmp_path):
    def load(entry):
        text = f"{LISTS}findings:\n  - {{finding: It is so., metric: accuracy, {entry}}}\n"
        (spec,) = load_findings(write(tmp_path / "ours.yaml", text), tmp_path)
        return list(spec.findings)

    return load


def test_a_finding_may_range_over_the_models_with_a_capability(ranging):
    (finding,) = ranging(
        "task: t, for_each: {capability: JointAttender}, greater: [{}, {model: a}]"
    )
    assert (finding.range.capabilities, finding.range.models) == (["JointAttender"], [])
    assert [side.models for side in finding.sides] == [[IN_TURN], ["a"]]


def test_of_each_model_a_ranging_finding_says_what_a_finding_about_it_would(ranging):
    (finding,) = ranging("task: t, for_each: {model: [b]}, greater: [{}, {model: a}]")
    (plain,) = ranging("task: t, greater: [{model: b}, {model: a}]")
    assert finding.of("b") == replace(plain, place=finding.place)


def test_a_finding_may_range_over_a_list_by_its_name(ranging):
    (finding,) = ranging(f"task: t, for_each: {{model: two}}, {TWO}")
    assert finding.range.models == ["a", "b"]


def test_a_finding_is_a_finding_of_its_own_on_each_task_that_it_ranges_over(ranging):
    findings = ranging(f"for_each: {{model: two, task: [t, u]}}, {TWO}")
    assert [finding.tasks for finding in findings] == [["t"], ["u"]]


WRONG_RANGES = [
    ("for_each: {}", "'for_each' must have either capability or model"),
    (
        "for_each: {model: a, capability: JointAttender}",
        "'for_each' must have either capability or",
    ),
    ("for_each: {model: a}, model: b", "'for_each' gives the models; only a side may name another"),
    ("for_each: {model: []}", "'model' is empty"),
    ("for_each: {model: a, task: []}", "'task' is empty"),
    ("for_each: {capability: JointAtender}", "no capability is named 'JointAtender'; did you"),
    ("for_each: {models: a}", r"'findings\[0\].for_each.models' is unknown; did you mean 'model'"),
    (
        "for_each: {model: two}, each: {model: [a]}",
        "every side names a model; leave out 'model' in one side",
    ),
]


@pytest.mark.parametrize(("entry", "message"), WRONG_RANGES)
def test_a_range_that_cannot_be_is_told_with_its_line(ranging, entry, message):
    with pytest.raises(SpecError, match=rf"ours.yaml:3: {message}"):
        ranging(f"task: t, {entry}, {TWO}")


def test_what_vlbench_cannot_show_ranges_over_nothing(ranging):
    with pytest.raises(SpecError, match="'for_each' is only for a comparison"):
        ranging("for_each: {model: a}, needs: a microphone")
