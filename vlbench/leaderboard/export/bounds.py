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

CIDER: Bounds = (0.0, 10.0)
CIDER_GAIN: Bounds = (-10.0, 10.0)

# Differences of counts, and matching scores, of which some are logits.
ANY: Bounds = (-inf, inf)

BOUNDS: Mapping[str, Bounds] = {
    "accuracy": FRACTION,
    "accuracy_another_image": FRACTION,
    "accuracy_augmented": FRACTION,
    "accuracy_caption_form": FRACTION,
    "accuracy_code_rule": FRACTION,
    "accuracy_cosine": FRACTION,
    "accuracy_euclidean": FRACTION,
    "accuracy_hungarian": FRACTION,
    "accuracy_no_layer_norm": FRACTION,
    "accuracy_normalised_texts": FRACTION,
    "accuracy_raw_prompt_mean": FRACTION,
    "accuracy_scored": FRACTION,
    "accuracy_seen": FRACTION,
    "accuracy_template": FRACTION,
    "accuracy_text_only": FRACTION,
    "accuracy_tied": FRACTION,
    "accuracy_top5": FRACTION,
    "accuracy_unseen": FRACTION,
    # Of two ways to put items into classes; see scikit-learn's adjusted_rand_score.
    "adjusted_rand": (-0.5, 1.0),
    "analogy_accuracy": FRACTION,
    "analogy_accuracy_unconstrained": FRACTION,
    "attention_on_gold": FRACTION,
    "best_active_head_accuracy": FRACTION,
    "best_head_accuracy": FRACTION,
    "bleu_1": FRACTION,
    "bleu_1_gain": SIGNED,
    "bleu_1_ptb": FRACTION,
    "bleu_2": FRACTION,
    "bleu_2_gain": SIGNED,
    "bleu_2_ptb": FRACTION,
    "bleu_3": FRACTION,
    "bleu_3_gain": SIGNED,
    "bleu_3_ptb": FRACTION,
    "bleu_4": FRACTION,
    "bleu_4_gain": SIGNED,
    "bleu_4_ptb": FRACTION,
    "chosen": FRACTION,
    "chosen_another_image": FRACTION,
    "chosen_text_only": FRACTION,
    "cider": CIDER,
    "cider_gain": CIDER_GAIN,
    "cider_gain_from_image": CIDER_GAIN,
    "cider_ptb": CIDER,
    "class_accuracy": FRACTION,
    "clean_accuracy": FRACTION,
    "cls_similarity": SIGNED,
    "distinct_questions": FRACTION,
    "head_accuracy": FRACTION,
    "layer_accuracy": FRACTION,
    "length": COUNT,
    "length_gain": ANY,
    "match_score": ANY,
    "match_score_gain": ANY,
    "match_score_of_others": FRACTION,
    "match_score_of_others_gain": SIGNED,
    "mean_rdm_correlation": SIGNED,
    "meteor": FRACTION,
    "meteor_gain": SIGNED,
    "meteor_ptb": FRACTION,
    "mutual_exclusivity": FRACTION,
    "n_classes": COUNT,
    "nonzero_advantages": FRACTION,
    "normalized_mutual_information": FRACTION,
    "noun_accuracy": FRACTION,
    "noun_precision": FRACTION,
    "noun_precision_gain": SIGNED,
    "noun_recall": FRACTION,
    "noun_recall_gain": SIGNED,
    "nouns": COUNT,
    "nouns_gain": ANY,
    "outscores_ce": FRACTION,
    "outscores_ce_of_others": FRACTION,
    "outscores_ce_tied": FRACTION,
    "pattern_ratio": FRACTION,
    "perplexity": COUNT,
    "perplexity_gain": ANY,
    "pointing_accuracy": FRACTION,
    "prefers_original": FRACTION,
    "prefers_original_another_image": FRACTION,
    "prefers_original_text_only": FRACTION,
    "prefers_original_tied": FRACTION,
    "prefers_reference": FRACTION,
    "prefers_reference_another_image": FRACTION,
    "prefers_reference_text_only": FRACTION,
    "prefers_reference_tied": FRACTION,
    "prefix_ratio": FRACTION,
    "prompt_reliability": SIGNED,
    "question_length": COUNT,
    "questions_seen_in_training": FRACTION,
    "rdm_correlation": SIGNED,
    "rdm_kendall": SIGNED,
    "rdm_spearman": SIGNED,
    "reliability": SIGNED,
    "retrieval": FRACTION,
    "rises": FRACTION,
    "rises_another_image": FRACTION,
    "rises_text_only": FRACTION,
    "rises_tied": FRACTION,
    "rouge_l": FRACTION,
    "rouge_l_gain": SIGNED,
    "rouge_l_ptb": FRACTION,
    "score_drop": ANY,
    "slope": ANY,
    "spice": FRACTION,
    "spice_gain": SIGNED,
    "split_half_accuracy": FRACTION,
    "success": FRACTION,
    "success_early_stop": FRACTION,
    "success_early_stop_given_correct": FRACTION,
    "success_given_correct": FRACTION,
    "template_drop": SIGNED,
    "train_accuracy": FRACTION,
    "unique_nouns": COUNT,
    "unique_nouns_gain": ANY,
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
