"""Chance and floors of a task's primary score, as its probe computes them, if no row is shipped.

Values that depend on the data of a run are described in words: the run's row has the number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from vlbench.catalog.specs import TaskSpec
from vlbench.data.scenes.world import CATEGORIES, NOUNS, SEEN_CATEGORIES, SEEN_NOUNS

# The number of classes of each loader whose data sets always have this number.
CLASSES = {
    "cifar10": 10,
    "cifar100": 100,
    "cub": 200,
    "digits": 10,
    "fashion_mnist": 10,
    "imagenet": 1000,
    "mnist": 10,
    "svhn": 10,
}
# The captions of an item, and the test images, of each loader or subset with more than two or one.
CAPTIONS = {"controlled_images": 4, "controlled_clevr": 4}
TEST_IMAGES = {"karpathy": 5000, "karpathy_flickr30k": 1000}

# The fraction of classes that a zero-shot projection is trained on.
SEEN = 0.7


class Levels(NamedTuple):
    """Chance, in words or as a fraction, and the names of floors."""

    chance: str | Callable[[TaskSpec], str]
    floors: tuple[str, ...] = ()


def levels(spec: TaskSpec) -> tuple[str, str]:
    """Return chance and floors of a task in words."""
    found = RULES[spec.probe.rpartition(":")[2], spec.primary["metric"]]
    chance = found.chance if isinstance(found.chance, str) else found.chance(spec)
    own = [spec.params["floor"]] if "floor" in spec.params else spec.params.get("floors") or {}
    floors = [*found.floors, *own, *(["trigram"] if spec.params.get("language_model") else ())]
    return chance, ", ".join(one.replace("-", "_") for one in floors)


def _classes(spec: TaskSpec) -> int | None:
    """Return the number of classes of a task; None if only its images determine it."""
    loader = str(spec.data["loader"]).rpartition(":")[2]
    chosen = spec.params.get("categories")
    if isinstance(chosen, Mapping):
        chosen = chosen[spec.primary_score["at"]["categories"]]
    if chosen:
        return len(chosen)
    if loader == "objects":
        kinds = NOUNS if spec.data.get("fine") else CATEGORIES
        seen = SEEN_NOUNS if spec.data.get("fine") else SEEN_CATEGORIES
        return len(seen if spec.data.get("things") == "seen" else kinds)
    return CLASSES.get(loader)


def _one_in(count: int | None, otherwise: str) -> str:
    return f"1/{count:,}" if count else f"1 / {otherwise}"


def _one_class(spec: TaskSpec) -> str:
    return _one_in(_classes(spec), "classes")


def _one_unseen(spec: TaskSpec) -> str:
    classes = _classes(spec)
    return _one_in(classes and classes - int(SEEN * classes), "unseen classes")


def _success(spec: TaskSpec) -> str:
    """Return the probability that a random class is not the right one."""
    classes, goal = _classes(spec), spec.primary_score["at"]["goal"]
    if goal == "untargeted":
        return f"{classes - 1:,}/{classes:,}" if classes else "1 - 1 / classes"
    return _one_in(classes, "classes")


def _one_text(spec: TaskSpec) -> str:
    loader = str(spec.data["loader"]).rpartition(":")[2]
    if loader in {"images", "questions", "recorded_items"}:
        return "1 / answers of an item"
    return _one_in(CAPTIONS.get(spec.data.get("subset", ""), 2), "")


def _in_pool(spec: TaskSpec) -> str:
    """Return k of the candidates that retrieval chooses from."""
    loader = str(spec.data["loader"]).rpartition(":")[2]
    sizes = (spec.params.get("pool"), spec.params.get("images"), TEST_IMAGES.get(loader))
    return _one_in(next((one for one in sizes if one), None), "images")


def _one_neighbour(spec: TaskSpec) -> str:
    return f"{spec.params['k']} / (images - 1)"


def _one_object(spec: TaskSpec) -> str:
    return f"1/{spec.primary_score['at']['objects']}"


def _one_patch(spec: TaskSpec) -> str:
    return f"1/{spec.params['pools']['size']}, or more if a pool is smaller"


OF_CLASSES = Levels(_one_class, ("majority_class",))
OF_REGIONS = ("random_region", "largest_region", "most_confident_region")
OF_QUESTIONS = ("another_image", "text_alone", "frequent_answer", "response_bias")
LENGTHS = ("longest_text", "shortest_text")

RULES: Mapping[tuple[str, str], Levels] = {
    ("caption_cross", "win_rate_vs_cross_entropy"): Levels("1/2"),
    ("caption_patterns", "prefers_reference"): Levels("1/2", ("another_image", "text_only")),
    ("caption_patterns", "prefers_reference_gain_from_image"): Levels("0"),
    ("caption_templates", "accuracy_gain_from_image"): Levels("0"),
    ("noun_count", "prefers_reference_gain_from_image"): Levels("0"),
    ("noun_replacement", "prefers_original_gain_from_image"): Levels("0"),
    ("caption_similarity", "mutual_knn"): Levels(_one_neighbour),
    ("classification", "accuracy"): OF_CLASSES,
    ("clustering", "accuracy"): Levels(
        "random clusters, by the row of a run", ("majority_class", "shuffled_labels")
    ),
    ("description_length", "compression"): Levels(
        "none; the floors take its place", ("shuffled_labels", "class_frequencies")
    ),
    ("few_shot", "accuracy"): OF_CLASSES,
    ("knn", "accuracy"): OF_CLASSES,
    ("readout", "gap_beyond_random"): Levels("0"),
    ("robustness", "success"): Levels(_success),
    ("robustness", "success_given_correct"): Levels(_success),
    ("rsa", "reliability"): Levels("0", ("class_permutations",)),
    ("rsa_text", "prompt_reliability"): Levels("0", ("class_permutations",)),
    ("similarity", "cka_debiased"): Levels("0"),
    ("text_similarity", "cka_debiased"): Levels("0"),
    ("transfer", "accuracy"): OF_CLASSES,
    ("transfer", "accuracy_augmented"): OF_CLASSES,
    ("word_similarity", "word_pair_spearman"): Levels("0", ("word_permutations",)),
    ("word_space", "analogy_accuracy"): Levels("1 / (words - 3)", ("majority_answer",)),
    ("zero_shot", "accuracy"): OF_CLASSES,
    ("zero_shot_projection", "accuracy"): Levels(_one_unseen, ("majority_class", "shuffled_words")),
    ("ablation", "accuracy"): Levels(_one_text),
    ("ablation", "drop"): Levels("0"),
    ("entity_grounding", "split_half_accuracy"): Levels(
        "a random region, by the row of a run", OF_REGIONS
    ),
    ("entity_grounding", "pointing_accuracy"): Levels("a random column, by the row of a run"),
    ("syntactic_grounding", "split_half_accuracy"): Levels(
        "a random region, by the row of a run", OF_REGIONS
    ),
    ("syntactic_grounding_things", "split_half_accuracy"): Levels(
        "a random region, by the row of a run", OF_REGIONS
    ),
    ("choice", "text_accuracy"): Levels(_one_text, ("another_image", "response_bias", *LENGTHS)),
    ("choice", "text_accuracy_macro"): Levels(
        _one_text, ("another_image", "response_bias", *LENGTHS)
    ),
    ("choice", "group_score"): Levels("1/6", ("another_image", *LENGTHS)),
    ("questions", "accuracy"): Levels(_one_text, OF_QUESTIONS),
    ("questions", "accuracy_macro"): Levels("7/18", OF_QUESTIONS),
    ("questions", "accuracy_recorded_reading_macro"): Levels("8/21", OF_QUESTIONS),
    ("questions", "pair_accuracy"): Levels("1/4", OF_QUESTIONS),
    ("retrieval", "recall"): Levels(_in_pool),
    ("retrieval_in_pools", "recall"): Levels(_in_pool),
    ("question_generation", "cider_gain_from_image"): Levels("0"),
    ("object_label_alignment", "accuracy"): Levels(_one_object, ("shuffled_words",)),
    ("patch_retrieval", "recall"): Levels(_one_patch, ("shuffled_words",)),
    ("zero_shot_alignment", "accuracy_unseen"): Levels(_one_object, ("shuffled_words",)),
    ("zero_shot_alignment_regions", "accuracy_unseen"): Levels(_one_object, ("shuffled_words",)),
}
