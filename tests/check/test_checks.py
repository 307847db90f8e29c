from types import SimpleNamespace

import pytest
import torch
from honest import Honest, Reads, Words, broken, failures

from vlbench.capabilities import PROBABILITY, JointAttention, NoAnswer, Regions, TokenVectors
from vlbench.check import checks
from vlbench.check.samples import draw_samples
from vlbench.errors import CannotDo


def test_normalised_pixels_are_out_of_range():
    why = failures(broken(preprocess=lambda s, image: Honest.preprocess(s, image) * 4 - 2))
    message = why["Classifier", "preprocess gives float32 [3, H, W] in [0, 1]"]
    assert message.startswith("an image of (56, 40) becomes values from ")
    assert message.endswith(". Move Normalize from preprocess into encode_images.")


def test_vectors_of_numpy_are_named_with_the_way_out():
    why = failures(broken(encode_images=lambda *_: torch.zeros(3, 2).numpy()))
    message = "encode_images returned a numpy.ndarray; return a torch.Tensor [N, D]"
    assert message in why["ImageEncoder", "gradients reach pixels"]


def test_pixels_of_bytes_are_refused():
    why = failures(broken(preprocess=lambda s, image: Honest.preprocess(s, image).byte()))
    message = why["ImageEncoder", "preprocess gives float32 [3, H, W] in [0, 1]"]
    assert message == "an image of (56, 40) becomes torch.uint8 [3, 2, 2]"


def test_sizes_that_differ_must_be_declared():
    keeping = {"preprocess": lambda _, image: torch.zeros(3, image.height, image.width)}
    promise = ("ImageEncoder", "one size for all images")
    assert "sizes are [(1, 1), (40, 56)]" in failures(broken(**keeping))[promise]
    assert promise not in failures(broken(**keeping, ragged=True))


TOKENS = {
    "no characters (0, 99)": [(0, 99)],
    "do not ascend": [(1, 2), (0, 1)],
    "has 1 spans and 2 vectors": [(0, 1)],
}


@pytest.mark.parametrize("complaint", TOKENS)
def test_spans_outside_the_text_or_out_of_order_are_shown(complaint):
    spans = TOKENS[complaint]
    vectors = torch.ones(2 if "vectors" in complaint else len(spans), 2)
    tokens = TokenVectors(spans, vectors)
    why = failures(broken(encode_tokens=lambda _, texts: [tokens for _ in texts]))
    assert complaint in why["TokenEncoder", "spans ascend inside the text"]


def attending(*, shape, value, whole=False):
    spans = [(i, i + 1) for i in range(shape[2])]
    one = JointAttention(spans, torch.full(shape, value), torch.zeros(4, 4), whole)
    return broken(attend=lambda *given: [one for _ in given[2]])


@pytest.mark.parametrize(
    ("adapter", "complaint"),
    [
        (attending(shape=(1, 1, 2, 3), value=0.3), "3 columns, 4 boxes"),
        (attending(shape=(1, 1, 2, 4), value=0.1), "rows sum to 0.4..0.4; whole is False"),
        (attending(shape=(1, 1, 2, 4), value=0.5, whole=True), "rows sum to 2..2"),
        (attending(shape=(1, 1, 2, 4), value=-0.1, whole=True), "rows sum to -0.4..-0.4"),
    ],
)
def test_attention_that_is_no_share_is_shown(adapter, complaint):
    assert complaint in failures(adapter)["JointAttender", "a row is a share of attention"]


def test_attention_over_more_than_the_image_may_sum_to_less():
    why = failures(attending(shape=(1, 1, 2, 4), value=0.1, whole=True))
    assert ("JointAttender", "a row is a share of attention") not in why


def detecting(boxes, labels=("x",), size=None):
    found = Regions(torch.tensor(boxes), None, None, list(labels), (56, 40))
    return broken(
        detect=lambda _, pictures: [found._replace(size=size or p.image.size) for p in pictures]
    )


@pytest.mark.parametrize(
    ("adapter", "complaint"),
    [
        (detecting([[0.0, 0.0, 99.0, 1.0]]), "boxes leave an image of (56, 40)"),
        (detecting([[1.0, 0.0, 0.0, 1.0]]), "boxes leave an image of (56, 40)"),
        (detecting([[0.0, 0.0, 1.0, 1.0]], labels=()), "1 boxes, but [None, None, 0] of the rest"),
        (detecting([[0.0, 0.0, 1.0, 1.0]], size=(40, 56)), "is given as (40, 56)"),
    ],
)
def test_regions_that_disagree_are_shown(adapter, complaint):
    assert complaint in failures(adapter)["Detector", "regions agree and are inside the image"]


MASK = "logits for every word"
ANSWERED = "log-likelihoods, also without a picture if declared"


def unseen(_, pictures, _questions, answers):
    """Score answers to pictures only."""
    scores = [-1.0 if picture.image else float("nan") for picture in pictures]
    assert len(answers) == len(scores)
    return torch.tensor(scores)


@pytest.mark.parametrize(
    ("adapter", "promise", "complaint"),
    [
        (
            broken(class_names=lambda _: ["one"]),
            ("Classifier", "a logit for each class name"),
            "1 class names, 2 logits",
        ),
        (
            broken(
                score_pairs=lambda *pairs: torch.full((len(pairs[1]),), 54.0),
                score_kind=PROBABILITY,
            ),
            ("ImageTextScorer", "scores of the kind in score_kind"),
            "a score of 54; a probability must be in [0, 1], up to 0.001",
        ),
        (
            broken(similarity=lambda _, images, texts: images @ texts[:1].T),
            ("SharedSpace", "a number for each pair, in any batch"),
            "3 images and 2 texts give (3, 1), 3 finite",
        ),
        (
            broken(similarity=lambda _, images, texts: (images @ texts.T / 100).softmax(1)),
            ("SharedSpace", "a number for each pair, in any batch"),
            "a pair scored by itself differs by",
        ),
        (
            broken(similarity=lambda _, images, texts: images.mul_(2) @ texts.T),
            ("SharedSpace", "a number for each pair, in any batch"),
            "it changes the vectors that it is given",
        ),
        (
            broken(count_tokens=lambda _, texts: [min(8, len(text.split())) for text in texts]),
            ("TextEncoder", "counts what it cuts"),
            "500 sentences have 8 tokens, one sentence has 7; the limit is 8",
        ),
        (
            broken(count_tokens=lambda *_: [1]),
            ("TextEncoder", "counts what it cuts"),
            "7 texts have 1 counts",
        ),
        (
            broken(encode_grid=lambda _, pixels: pixels.mean((2, 3))),
            ("GridEncoder", "one float32 output per example"),
            "float32 of 3 dimensions expected",
        ),
        (
            broken(encode_regions=lambda *given: [torch.ones(3, 4) for _ in given[2]]),
            ("RegionEncoder", "a vector for each box"),
            "pictures with 3 and 1 boxes give [3, 3] vectors",
        ),
        (
            broken(score_answers=lambda *given: torch.ones(len(given[3]))),
            ("AnswerScorer", ANSWERED),
            "a score of 1; a log-likelihood must be at most 0, up to 0.001",
        ),
        (
            broken(score_answers=unseen, reads_text_alone=True),
            ("AnswerScorer", ANSWERED),
            "without a picture, scores are NaN or infinite",
        ),
        (
            broken(answer=lambda *_: "blue"),
            ("Answerer", "the same texts in any batch"),
            "3 questions gave 'blue'; return a list of 3 texts",
        ),
        (
            broken(answer=lambda *given: [str(len(given[2]))] * len(given[2])),
            ("Answerer", "the same texts in any batch"),
            "the word cat only.' is answered with '1' by itself, but otherwise with '3'",
        ),
        (
            broken(masked_lm=lambda _: (SimpleNamespace(mask_token=None), None)),
            ("MaskedLanguageModel", MASK),
            "the tokenizer has no mask token",
        ),
        (
            broken(masked_lm=lambda _: (Words(), Reads(2))),
            ("MaskedLanguageModel", MASK),
            "logits are (1, 3, 2), for (texts, tokens, words) (1, 3, 7)",
        ),
    ],
)
def test_a_promise_of_one_capability_that_is_broken_says_how(adapter, promise, complaint):
    assert complaint in failures(adapter)[promise]


def test_names_that_nobody_knows_are_no_broken_promise():
    def unknown(_):
        raise CannotDo("nobody knows")

    assert failures(broken(class_names=unknown)) == {}


def test_no_answer_may_be_given_for_a_question():
    silent = broken(answer=lambda *given: [NoAnswer("refused")] * len(given[2]))
    assert failures(silent) == {}


@pytest.mark.parametrize(
    ("layers", "found", "message"),
    [
        (["a", "a", "output"], None, "names must differ, with `output` last"),
        (["output", "a"], None, "names must differ, with `output` last"),
        (["a", "output"], {"a": 0, "output": 0}, "asked for `output`, it gives"),
        (["a", "output"], {"output": 1}, "`output` differs from the output without layers"),
    ],
)
def test_layers_that_are_not_as_promised_are_said(layers, found, message):
    class Wrong(Honest):
        def layers(self):
            return layers

        def encode_images_at(self, pixels, layers):
            del layers
            return {name: pixels.flatten(1) + more for name, more in found.items()}

    assert message in checks.layers(Wrong(), draw_samples(torch.device("cpu"), 5))


@pytest.mark.parametrize("kind", ["text", "token"])
def test_layers_of_texts_that_are_not_as_promised_are_said(kind):
    class Wrong(Honest):
        names, more = ("first", "output"), 0

        def text_layers(self):
            return self.names

        def encode_texts_at(self, texts, layers):
            return {name: self.encode_texts(texts) + self.more for name in layers}

        def encode_tokens_at(self, texts, layers):
            tokens = self.encode_tokens(texts)
            more = [one._replace(vectors=one.vectors + self.more) for one in tokens]
            return dict.fromkeys(layers, more)

    check, samples = getattr(checks, f"{kind}_layers"), draw_samples(torch.device("cpu"), 5)
    adapter = Wrong()
    assert check(adapter, samples) == ""
    adapter.more = 1
    assert "`output` differs from the output without layers" in check(adapter, samples)
    adapter.names = ("output", "first")
    assert "names must differ, with `output` last" in check(adapter, samples)
