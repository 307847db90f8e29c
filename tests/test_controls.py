"""Models that know nothing of their inputs get chance from every probe."""

from pathlib import Path

import pytest
import torch

import vlbench
from vlbench.catalog.catalog import load_catalog
from vlbench.resolve import load_object

CATALOG = load_catalog()
TASKS = sorted(
    name for name, spec in CATALOG.tasks.items() if "embedded" in spec.tags and not spec.group
)
GOLD = [name for name in TASKS if "_regions_" in name]
Control = load_object("controls:Control", [Path(__file__).parents[1] / "model_adapters"])

# A classifier has a fixed number of classes; that of the controls has ten, like the digits.
ARGUMENTS = {"robustness_scenes": {"classes": 8}}

# Scores by the beginning of their names, where knowing nothing of the images is not chance: a probe
# remembers its own train images; word vectors are learned from texts, whatever the images say.
KNOWS_MORE = {
    "transfer_digits": ("train_accuracy",),
    "transfer_scenes": ("train_accuracy",),
    "word_space_embedded": ("analogy_accuracy", "word_pair_"),
}
# An image is compared with the mean of its class, of which it is a part.
COUNTS_ITSELF = {"word_space_embedded": ("visual_word_accuracy",)}

# Regions that are all the same go to one word of a companion, which may be an unseen one.
PREFERS_A_WORD = {"zero_shot_alignment_regions_scenes"}

# Sums of credits are kept in float32 there.
ROUNDED = {"syntactic_grounding_scenes": 1e-8}

# What counts as chance where a score has no standard error.
NEAR = 0.01


@pytest.fixture(scope="module")
def cache(scenes_cache):
    return scenes_cache / "vlbench"


def scores(model, task, cache, passed_over=()):
    """Return the scores of a task that have a chance level, less those passed over."""
    named = {"model_args": ARGUMENTS.get(task, {})} if isinstance(model, str) else {}
    (result,) = vlbench.evaluate(model, task, cache_dir=cache, batch_size=256, **named)
    assert result.status == "ok", result.reason
    with_chance = [score for score in result.scores if score.chance is not None]
    assert with_chance
    return [score for score in with_chance if not score.metric.startswith(tuple(passed_over))]


def told(score):
    return f"{score.metric} {dict(score.at)}: {score.value} +- {score.stderr}, not {score.chance}"


def includes_chance(score, errors=0.0):
    low, high = score.ci95 or (score.value, score.value)
    error = NEAR if score.stderr is None else errors * score.stderr
    return low <= score.chance <= high or abs(score.value - score.chance) <= error


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_the_same_answer_for_everything_scores_chance(task, cache):
    wrong = [
        score
        for score in scores("constant", task, cache, KNOWS_MORE.get(task, ()))
        if abs(score.value - score.chance) > ROUNDED.get(task, 1e-9)
        and not ((score.draws or task in PREFERS_A_WORD) and includes_chance(score))
    ]
    assert [told(score) for score in wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_noise_scores_chance_within_its_error(task, cache):
    passed_over = KNOWS_MORE.get(task, ()) + COUNTS_ITSELF.get(task, ())
    found = scores("random-scores", task, cache, passed_over)
    assert [told(score) for score in found if not includes_chance(score, errors=4)] == []


class BoxesAlone:
    """Encodes given boxes as noise, and detects none of its own."""

    def __init__(self):
        self._control = Control(device=torch.device("cpu"), noise=True)

    def encode_regions(self, pictures, boxes):
        return self._control.encode_regions(pictures, boxes)


@pytest.mark.slow
@pytest.mark.parametrize("task", GOLD)
def test_noise_for_gold_boxes_scores_chance_within_its_error(task, cache):
    found = scores(BoxesAlone(), task, cache)
    assert [told(score) for score in found if not includes_chance(score, errors=4)] == []
