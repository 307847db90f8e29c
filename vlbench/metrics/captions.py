"""Metrics of captions: BLEU, ROUGE-L, CIDEr, METEOR and SPICE through pycocoevalcap.

Each metric has statistics per image, so that a jackknife over images scores each caption once. The
idf of CIDEr is always computed from all references. A metric of Hugging Face `evaluate`,
`evaluate:NAME_OR_PATH`, has a single number for all images, and no interval.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from vlbench.errors import DataError, SpecError, TooFewRows, counted
from vlbench.metrics.corpus import CORPORA, ORDERS, TREEBANK
from vlbench.metrics.evaluated import PREFIX, Evaluated, Value
from vlbench.metrics.intervals import Estimate, Floats, clustered_ratio, estimate_of_sums
from vlbench.metrics.java import (
    Meteor,
    coco_caption,
    find_java,
    find_spice,
    jar,
    one_line,
    run_java,
    spice,
)

# Words that coco-caption leaves out. Brackets stay, because they are in lower case by then.
PUNCTUATION = frozenset(
    "'' ' `` ` -LRB- -RRB- -LCB- -RCB- . ? ! , : - -- ... ;".split()  # noqa: SIM905 - a long list
)

TOKENIZER = "edu.stanford.nlp.process.PTBTokenizer"
BLEU = tuple(f"bleu_{n}" for n in ORDERS)
# Names, in the order of coco-caption.
CAPTION_METRICS = (*BLEU, "meteor", "rouge_l", "cider", "spice")
# Captions of each image.
Captions = Mapping[Hashable, Sequence[str]]
# Maps captions to their words, joined by single spaces.
Words = Callable[[Sequence[str]], list[str]]
# The caption of an image and its references, in words.
Pair = tuple[str, list[str]]
# Statistics [N, S] of the pairs of N images.
Scorer = Callable[[Sequence[Pair]], Floats]


def treebank_words(captions: Sequence[str]) -> list[str]:
    """Return captions in lower-case Penn Treebank words, as coco-caption reads them.

    One Java process tokenises all captions. Punctuation is left out, so that a caption may become
    empty.
    """
    if not captions:
        return []
    words = ["-cp", jar("tokenizer/stanford-corenlp-3.4.1.jar"), TOKENIZER]
    lines = [one_line(caption) for caption in captions]
    words += ["-preserveLines", "-lowerCase"]
    lines_out = run_java("words of captions", words, lines, texts=len(lines)).split("\n")
    if len(lines_out) != len(lines) + 1:
        raise DataError(
            f"words of captions: Java returned {len(lines_out) - 1} of {len(lines)} lines"
        )
    words_out = [line.rstrip().split(" ") for line in lines_out[:-1]]
    return [" ".join(word for word in text if word not in PUNCTUATION) for text in words_out]


def plain_words(captions: Sequence[str]) -> list[str]:
    r"""Return captions unchanged except for line ends, as in qgevalcap.

    Nothing is left out or lower-cased; ROUGE-L reads two spaces as an empty word between them.

    Example:
        >>> plain_words(["A  cat,\nasleep."])
        ['A  cat, asleep.']
    """
    return [" ".join(caption.splitlines()) for caption in captions]


def require_installed(names: Iterable[str]) -> None:
    """Raise DataAbsent if a package or Java that these metrics need is absent; import nothing.

    The names may have the suffix of Penn Treebank words.
    """
    every = {f"{name}{suffix}" for name in CAPTION_METRICS for suffix in ("", TREEBANK)}
    requested = every.intersection(names)
    if requested:
        coco_caption()
    if any(name.startswith(("meteor", "spice")) or name.endswith(TREEBANK) for name in requested):
        find_java()


class CaptionScore(NamedTuple):
    """A metric over images, and its statistics [images, S] in the order of the captions.

    `vlbench.metrics.corpus` names the statistics of BLEU and METEOR. Other metrics have the score
    of each image, and metrics of `evaluate` have no statistics (S = 0).
    """

    estimate: Estimate | Value
    statistics: Floats


class CaptionMetrics:
    """The metrics of these names, a context manager that ends METEOR's process.

    `words` tokenises texts; $VLBENCH_DATA/spice contains the jars that SPICE needs. Raises
    SpecError for an unknown metric, DataAbsent if Java, a package or a jar is absent, and DataError
    for a metric of `evaluate` that cannot be loaded.
    """

    def __init__(
        self,
        names: Sequence[str] = CAPTION_METRICS[:-1],
        *,
        words: Words = treebank_words,
    ) -> None:
        others = [name for name in names if name.startswith(PREFIX)]
        unknown = sorted(set(names) - set(CAPTION_METRICS) - set(others))
        if unknown or not names:
            choices = ", ".join((*CAPTION_METRICS, f"{PREFIX}NAME_OR_PATH"))
            raise SpecError(f"metrics of captions: unknown {unknown}; there are {choices}")
        self._words, self._open = words, ExitStack()
        if len(others) < len(names):
            coco_caption()
        scorers: dict[str, Scorer] = {**dict.fromkeys(BLEU, _bleu)}
        scorers |= {"rouge_l": _rouge, "cider": _cider}
        if "spice" in names:
            scorers["spice"] = partial(spice, jars=find_spice())
        if "meteor" in names:
            scorers["meteor"] = self._open.enter_context(Meteor()).statistics
        self._names = list(names)
        self._scorers = {name: scorers[name] for name in names if name not in others}
        self._others = {name: Evaluated(name) for name in others}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def __call__(
        self, captions: Captions, references: Captions, *, words: Words | None = None
    ) -> dict[str, CaptionScore]:
        """Return each metric of one caption for each image, against the image's references.

        `words` tokenises the texts of this call (None: the tokeniser of the object). A caption
        without words scores 0; a reference without words is left out. Raises DataError for an image
        without exactly one caption, or without a reference; TooFewRows for fewer than two images.
        """
        _check(captions, references)
        pairs = _pairs(captions, references, words or self._words) if self._scorers else []
        results = {scorer: scorer(pairs) for scorer in dict.fromkeys(self._scorers.values())}
        scored = {
            name: _caption_score(name, results[scorer]) for name, scorer in self._scorers.items()
        }
        texts = [captions[image][0] for image in captions]
        others = [list(references[image]) for image in captions]
        no_statistics = np.empty((len(texts), 0))
        scored |= {
            name: CaptionScore(metric(texts, others), no_statistics)
            for name, metric in self._others.items()
        }
        return {name: scored[name] for name in self._names}


def _pairs(captions: Captions, references: Captions, words: Words) -> list[Pair]:
    """Return captions and references in words, in the order of the captions."""
    tokenised = iter(words([text for image in captions for text in captions[image]]))
    by_image = {image: next(tokenised) for image in captions}
    tokenised = iter(words([text for image in captions for text in references[image]]))
    others = {image: [next(tokenised) for _ in references[image]] for image in captions}
    pairs = [(by_image[image], [one for one in others[image] if one.strip()]) for image in captions]
    for image, (_, kept) in zip(captions, pairs, strict=True):
        if not kept:
            raise DataError(f"image {image!r}: no reference has a word")
    return pairs


def _check(captions: Captions, references: Captions) -> None:
    for image, texts in captions.items():
        if isinstance(texts, str) or len(texts) != 1:
            raise DataError(f"image {image!r} has {len(texts)} captions; give a list of one")
        if isinstance(references.get(image), str) or not references.get(image):
            raise DataError(f"image {image!r} has no list of references")
    silent = [image for image in references if image not in captions]
    if silent:
        raise DataError(
            f"{counted(len(silent), 'image')} with references but no caption, {silent[0]!r} "
            "first; leave out their references"
        )
    if len(captions) < 2:
        raise TooFewRows(f"metrics of captions need two images; there are {len(captions)}")


def _caption_score(name: str, statistics: Floats) -> CaptionScore:
    if name in CORPORA:
        return CaptionScore(estimate_of_sums(statistics, CORPORA[name].formula), statistics)
    return CaptionScore(clustered_ratio(statistics[:, 0], np.ones(len(statistics))), statistics)


def _bleu(pairs: Sequence[Pair]) -> Floats:
    """Return the statistics [N, 10] of BLEU with the length of the closest reference."""
    from pycocoevalcap.bleu.bleu_scorer import cook_refs, cook_test  # noqa: PLC0415 - as below

    cooked = [cook_test(text, cook_refs(others), "closest") for text, others in pairs]
    rows = [(*row["correct"], *row["guess"], row["testlen"], row["reflen"]) for row in cooked]
    return np.array(rows, np.float64)


def _rouge(pairs: Sequence[Pair]) -> Floats:
    """Return ROUGE-L [N, 1]."""
    from pycocoevalcap.rouge.rouge import Rouge  # noqa: PLC0415 - as below

    rouge = Rouge()
    return np.array([[rouge.calc_score([text], others)] for text, others in pairs], np.float64)


def _cider(pairs: Sequence[Pair]) -> Floats:
    """Return CIDEr [N, 1] with the idf of all references of the pairs."""
    # Imported here and above, so that listings do not wait for it.
    from pycocoevalcap.cider.cider_scorer import CiderScorer  # noqa: PLC0415

    scorer = CiderScorer()
    for caption, others in pairs:
        scorer += (caption, others)
    return np.array(scorer.compute_score()[1], np.float64)[:, None]
