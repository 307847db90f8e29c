"""Models that know nothing of their inputs get chance from every shipped task."""

from pathlib import Path

import pytest
import torch
import yaml
from item_means import item_means, of_means, scores_with_items, told
from pyarrow.parquet import read_table

import vlbench
from vlbench.catalog.catalog import load_catalog
from vlbench.code.functions import load_object

CATALOG = load_catalog()
# A long task trains a language model several times; its probe's own tests have planted floors.
TASKS = sorted(
    name
    for name, spec in CATALOG.tasks.items()
    if "embedded" in spec.tags
    and "slow" not in spec.tags
    and not spec.group
    # Of a control no network with random weights can be made, so that it is skipped.
    and spec.probe != "readout"
)

Control = load_object("controls:Control", [Path(__file__).parents[2] / "model_adapters"])

# A classifier has a fixed number of classes; that of the controls has ten, like the digits.
ARGUMENTS = {"robustness_scenes": {"classes": 8}, "classification_scenes": {"classes": 8}}

# Regions that are all the same go to one word of a companion, which may be an unseen one: then the
# unseen gain what the seen lose, and over both it is chance.
PREFERS_A_WORD = {
    "zero_shot_alignment_regions_scenes": ("accuracy_unseen", "accuracy_seen", "mutual_exclusivity")
}

# Sums of credits are kept in float32 there.
ROUNDED = {"syntactic_grounding_scenes": 1e-8, "entity_grounding_scenes": 1e-8}

# Correlations are no means over items.
WITHOUT_ITEMS = {"rsa_scenes", "rsa_scenes_text"}
WITHOUT_ITEMS |= {"similarity_scenes", "text_similarity_scenes", "caption_similarity_scenes"}
# Nor is a ratio.
NO_MEAN = {"robustness_digits", "robustness_scenes", "description_length_scenes"}

# What counts as chance where a score has no standard error.
NEAR = 0.01


@pytest.fixture(scope="module")
def cache(scenes_cache):
    return scenes_cache / "vlbench"


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """A source with the VSEP tasks, of two epochs: what knows nothing learns nothing in more."""
    folder = tmp_path_factory.mktemp("brief")
    (folder / "tasks").mkdir()
    for task in filter(is_vsep, TASKS):
        values = dict(CATALOG.tasks[task].document.values)
        training = values["params"]["training"] | {"epochs": 2}
        values["params"] = values["params"] | {"training": training}
        (folder / "tasks" / f"{task}_brief.yaml").write_text(yaml.safe_dump(values))
    return folder


def is_vsep(task):
    return "vsep" in CATALOG.tasks[task].tags


@pytest.fixture
def rows(cache, brief):
    """Run a model on tasks that take the same arguments of it, and return their rows."""

    def run(model, tasks, **options):
        if isinstance(model, str):
            options["model_args"] = ARGUMENTS.get(tasks[0], {})
        names = [f"{task}_brief" if is_vsep(task) else task for task in tasks]
        options |= {"include_path": [brief], "cache_dir": cache, "batch_size": 256}
        results = vlbench.evaluate(model, names, **options)
        assert {result.task: result.reason for result in results if result.status != "ok"} == {}
        bare = [one for result in results for one in result.scores if not has_something_beside(one)]
        assert [told(score) for score in bare] == []
        found = {result.task: result for result in results}
        return {task: found[name] for task, name in zip(tasks, names, strict=True)}

    return run


def scored_by(result, items):
    """Return whether the primary score has items."""
    place = result.primary["metric"], *sorted(result.primary["at"].items())
    return place in item_means(items)


def judged(result, passed_over=()):
    """Return the scores of a row that have a chance level, less those passed over."""
    with_chance = [score for score in result.scores if score.chance is not None]
    assert with_chance
    return [score for score in with_chance if not score.metric.startswith(tuple(passed_over))]


def has_something_beside(score):
    """Return whether a score has a chance or a floor, or says why it has neither."""
    return score.chance is not None or score.floors or score.no_chance


def includes_chance(score, errors=0.0):
    low, high = score.ci95 or (score.value, score.value)
    error = NEAR if score.stderr is None else errors * score.stderr
    return low <= score.chance <= high or abs(score.value - score.chance) <= error


def beside_chance(task, result):
    """Return the scores of a model without a random number that are not exactly chance."""
    return [
        f"{task}: {told(score)}"
        for score in judged(result, PREFERS_A_WORD.get(task, ()))
        if abs(score.value - score.chance) > ROUNDED.get(task, 1e-9)
        and not ((score.draws or score.halves) and includes_chance(score))
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_for_everything_scores_chance(task, rows):
    assert beside_chance(task, rows("constant", [task])[task]) == []


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_noise_scores_chance_within_its_error_and_the_mean_of_its_items(task, rows, tmp_path):
    result = rows("random-scores", [task], output=tmp_path)[task]
    found = judged(result)
    assert [told(score) for score in found if not includes_chance(score, errors=4)] == []
    assert ("items" in result.artifacts) == (task not in WITHOUT_ITEMS)
    for saved in (a for name, a in result.artifacts.items() if name == "items"):
        items = of_means(read_table(tmp_path / saved["file"]))
        assert item_means(items) == pytest.approx(scores_with_items(result.scores, items), abs=1e-7)
        assert scored_by(result, items) or task in NO_MEAN


class BoxesAlone:
    """Encodes given boxes as noise, and detects none of its own."""

    def __init__(self):
        self._control = Control(device=torch.device("cpu"), noise=True)

    def encode_regions(self, pictures, boxes):
        return self._control.encode_regions(pictures, boxes)


@pytest.mark.nightly
@pytest.mark.parametrize("task", [name for name in TASKS if "_regions_" in name])
def test_noise_for_gold_boxes_scores_chance_within_its_error(task, rows):
    found = judged(rows(BoxesAlone(), [task])[task])
    assert [told(score) for score in found if not includes_chance(score, errors=4)] == []
