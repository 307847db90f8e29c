"""An adapter that depends on its batch, or on chance, is refused with its method: never scored."""

import pytest
import torch
from honest import Honest
from PIL import Image
from trials import rng_of

from vlbench.capabilities import JointAttention, Picture, Regions, TokenVectors
from vlbench.engine.pass_checks import Repeating
from vlbench.errors import SpecError

WORDS = ("cat", "dog", "red", "hat", "two", "mat")


class Planted(Honest):
    """Gives every example outputs of its own, in each capability."""

    def vector(self, seed, *shape):
        return torch.rand(shape or 12, generator=torch.Generator().manual_seed(seed)) + 0.1

    def encode_images(self, pixels):
        return pixels.flatten(1) @ self.vector(0, 12, 12)

    def logits(self, pixels):
        return pixels.flatten(1) @ self.vector(1, 12, 5)

    def encode_texts(self, texts):
        return torch.stack([self.vector(hash_of(text)) for text in texts])

    def score_pairs(self, pictures, texts):
        return self.encode_texts(texts)[:, 0]

    def encode_tokens(self, texts):
        return [TokenVectors([(0, 1)] * 2, self.vector(hash_of(text), 2, 4)) for text in texts]

    def encode_regions(self, pictures, boxes):
        return [self.vector(int(box.sum()), len(box), 4) for box in boxes]

    def detect(self, pictures):
        seeds = [picture.image.getpixel((0, 0))[0] for picture in pictures]
        return [Regions(self.vector(s, 3, 4), None, None, None, (4, 4)) for s in seeds]

    def attend(self, pictures, texts):
        seeds = [hash_of(text) for text in texts]
        weights = [self.vector(seed, 1, 2, 2, 4).softmax(3) for seed in seeds]
        return [JointAttention([(0, 1)] * 2, w, torch.zeros(4, 4), whole=False) for w in weights]


def hash_of(text):
    return sum(i * ord(letter) for i, letter in enumerate(text, 1))


def examples(method, count, rng):
    """Return the arguments of a method for so many distinct examples."""
    images = [Image.new("RGB", (4, 4), (i * 7, 255 - i * 3, i)) for i in range(count)]
    texts = [f"{i} {rng.choice(WORDS)}" for i in range(count)]
    pictures = [Picture(image, None) for image in images]
    boxes = [torch.tensor([[0.0, 0, i + 1, 4]]) for i in range(count)]
    return {
        **dict.fromkeys(("encode_images", "logits"), (torch.rand(count, 3, 2, 2),)),
        **dict.fromkeys(("encode_texts", "encode_tokens"), (texts,)),
        **dict.fromkeys(("score_pairs", "attend"), (pictures, texts)),
        "encode_regions": (pictures, boxes),
        "detect": (pictures,),
    }[method]


METHODS = (
    *("encode_images", "logits", "encode_texts", "score_pairs"),
    *("encode_tokens", "encode_regions", "detect", "attend"),
)


def ordered(order):
    """Return what gives the outputs in another order, drawn or of their number."""
    return lambda outputs, rng, _: [outputs[i] for i in order(len(outputs), rng)]


def scaled(factor):
    """Return what multiplies the tensors of outputs; `factor` of a tensor, all, and the number."""

    def change(outputs, rng, calls):
        fields = {"vectors", "boxes", "weights"}

        def of_one(one):
            if isinstance(one, torch.Tensor):
                return one * factor(one, outputs, rng, calls)
            parts = {k: v for k, v in one._asdict().items() if k in fields and v is not None}
            return one._replace(**{k: v * factor(v, outputs, rng, calls) for k, v in parts.items()})

        return [of_one(one) for one in outputs]

    return change


def dropped(one, _, rng, __):
    kept = torch.rand(one.shape, generator=torch.Generator().manual_seed(rng.randrange(2**31)))
    return (kept > rng.uniform(0.05, 0.5)).float() + 1e-3 * rng.random()


# What an adapter may do to its outputs that depends on the batch, or on chance.
WAYS = {
    "shuffled": ordered(lambda n, rng: rng.sample(range(n), n)),
    "rolled": ordered(lambda n, _: [(i + 1) % n for i in range(n)]),
    "reversed": ordered(lambda n, _: range(n)[::-1]),
    "the first of all": ordered(lambda n, _: [0] * n),
    "dropped at random": scaled(dropped),
    "noise": scaled(lambda _, __, rng, ___: 1 + 0.01 * rng.uniform(-1, 1)),
    "scaled by the size of the batch": scaled(lambda _, outputs, *__: 1 / len(outputs)),
    "drifting with each call": scaled(lambda _, __, ___, calls: 1 + 0.001 * calls),
}


def broken(method, way, rng):
    """Return an adapter one of whose methods depends on its batch."""
    calls = [0]

    def wrong(self, *values):
        calls[0] += 1
        outputs = WAYS[way](list(getattr(Planted, method)(self, *values)), rng, calls[0])
        return torch.stack(outputs) if method in METHODS[:4] else outputs

    wrong.__name__ = method
    return type("Broken", (Planted,), {method: wrong})()


def scored(method, number):
    """Return what was not refused of a broken adapter; empty where it was, by its name."""
    rng = rng_of(method, number)
    way, count = rng.choice([*WAYS]), rng.randint(2, 40)
    try:
        Repeating(getattr(broken(method, way, rng), method))(*examples(method, count, rng))
    except SpecError as error:
        named = f"Broken.{method} gives different outputs in a batch of {count} than " in str(error)
        return "" if named else str(error)
    return f"{number}: {way}, {count} examples"


@pytest.mark.parametrize("method", METHODS)
def test_an_adapter_that_depends_on_its_batch_is_refused(method, mutants):
    assert list(filter(None, (scored(method, n) for n in range(mutants // len(METHODS))))) == []


@pytest.mark.parametrize("method", METHODS)
def test_an_adapter_that_keeps_its_promise_is_not_refused(method):
    for count in (1, 2, 5, 33):
        values = examples(method, count, rng_of(method, count))
        assert len(Repeating(getattr(Planted(), method))(*values)) == count
