"""The least and the greatest value that each metric can have.

The unit does not tell: a drop is a fraction, too, and may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

Bounds = tuple[float, float]

FRACTION: Bounds = (0.0, 1.0)
SIGNED: Bounds = (-1.0, 1.0)  # correlations, and differences of two fractions
COUNT: Bounds = (0.0, inf)

BOUNDS: Mapping[str, Bounds] = {
    "accuracy": FRACTION,
    "accuracy_augmented": FRACTION,
    "accuracy_caption_form": FRACTION,
    "accuracy_code_rule": FRACTION,
    "accuracy_cosine": FRACTION,
    "accuracy_euclidean": FRACTION,
    "accuracy_hungarian": FRACTION,
    "accuracy_no_layer_norm": FRACTION,
    "accuracy_normalised_texts": FRACTION,
    "accuracy_raw_prompt_mean": FRACTION,
    "accuracy_seen": FRACTION,
    "accuracy_template": FRACTION,
    "accuracy_top5": FRACTION,
    "accuracy_unseen": FRACTION,
    # Of two ways to put items into classes; see scikit-learn's adjusted_rand_score.
    "adjusted_rand": (-0.5, 1.0),
    "analogy_accuracy": FRACTION,
    "analogy_accuracy_unconstrained": FRACTION,
    "attention_on_gold": FRACTION,
    "best_active_head_accuracy": FRACTION,
    "best_head_accuracy": FRACTION,
    "clean_accuracy": FRACTION,
    "head_accuracy": FRACTION,
    "layer_accuracy": FRACTION,
    "mean_rdm_correlation": SIGNED,
    "mutual_exclusivity": FRACTION,
    "n_classes": COUNT,
    "normalized_mutual_information": FRACTION,
    "pointing_accuracy": FRACTION,
    "prompt_reliability": SIGNED,
    "rdm_correlation": SIGNED,
    "rdm_kendall": SIGNED,
    "rdm_spearman": SIGNED,
    "reliability": SIGNED,
    "retrieval": FRACTION,
    "split_half_accuracy": FRACTION,
    "success": FRACTION,
    "success_early_stop": FRACTION,
    "success_early_stop_given_correct": FRACTION,
    "success_given_correct": FRACTION,
    "template_drop": SIGNED,
    "train_accuracy": FRACTION,
    "upper_bound": FRACTION,
    "visual_word_accuracy": FRACTION,
    "word_pair_pearson": SIGNED,
    "word_pair_pearson_unconstrained": SIGNED,
    "word_pair_spearman": SIGNED,
    "word_pair_spearman_unconstrained": SIGNED,
    "zero_distances": COUNT,
}


def outside(metric: str, value: float) -> bool:
    """Return whether a value cannot be one of the metric; False where its bounds are unknown."""
    low, high = BOUNDS.get(metric, (-inf, inf))
    return not low <= value <= high
