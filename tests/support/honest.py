"""An adapter with every capability that keeps every promise; tests break one at a time."""

import copy
from types import SimpleNamespace

import torch

from vlbench.capabilities import Cut, JointAttention, Parts, Regions, TokenVectors
from vlbench.check import check_adapter


class Honest:
    """Offers every capability, in the simplest way that keeps every promise."""

    context_length = 8
    taken = Cut()

    def preprocess(self, image):
        column = torch.tensor(image.resize((1, 1)).getpixel((0, 0))) / 255
        return column.view(3, 1, 1).expand(3, 2, 2)

    def encode_images(self, pixels):
        return pixels.flatten(1)

    def layers(self):
        return ["half", "output"]

    def encode_images_at(self, pixels, layers):
        found = {"half": pixels.flatten(1) / 2, "output": self.encode_images(pixels)}
        return {name: found[name] for name in layers}

    def encode_grid(self, pixels):
        return 2 * pixels

    def encode_texts(self, texts):
        return torch.tensor([[float(len(text))] * 12 for text in texts])

    def text_layers(self):
        return ["half", "output"]

    def encode_texts_at(self, texts, layers):
        found = {"half": self.encode_texts(texts) / 2, "output": self.encode_texts(texts)}
        return {name: found[name] for name in layers}

    def similarity(self, images, texts):
        return images @ texts.T

    def class_names(self):
        return ["dark", "bright"]

    def logits(self, pixels):
        mean = pixels.mean((1, 2, 3))
        return torch.stack([-mean, mean], 1)

    def spans(self, text):
        return [(i, i + 1) for i in range(min(len(text), 5))]

    def encode_tokens(self, texts):
        found = [self.spans(text) for text in texts]
        return [TokenVectors(spans, torch.ones(len(spans), 2)) for spans in found]

    def encode_tokens_at(self, texts, layers):
        return {name: self.encode_tokens(texts) for name in layers}

    def encode_regions(self, pictures, boxes):
        return [torch.ones(len(some), 4) for some in boxes]

    def detect(self, pictures):
        whole = [torch.tensor([[0.0, 0.0, *p.image.size]]) for p in pictures]
        sizes = [picture.image.size for picture in pictures]
        return [
            Regions(b, None, torch.ones(1), ["x"], s) for b, s in zip(whole, sizes, strict=True)
        ]

    def score_pairs(self, pictures, texts):
        return torch.tensor([float(len(text)) for text in texts]) + len(self.taken.heads)

    def parts(self):
        return Parts((2,), ("image", "text"))

    def cut(self, what):
        other = copy.copy(self)
        other.taken = what
        return other

    def score_answers(self, pictures, questions, answers):
        return torch.tensor([-float(len(answer)) for answer in answers])

    labels = "letters"

    def replies(self, items):
        return [[] for _ in items]

    def answer(self, pictures, questions):
        return [question[:3] for question in questions]

    def attend(self, pictures, texts):
        return [self.attention(text) for text in texts]

    def attention(self, text):
        weights = torch.full((1, 2, len(self.spans(text)), 4), 0.25)
        return JointAttention(self.spans(text), weights, torch.zeros(4, 4), whole=False)

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]

    def masked_lm(self):
        return Words(), Reads(7)


class Words:
    mask_token = "?"  # noqa: S105 - a token of a text

    def __len__(self):
        return 7

    def __call__(self, text, return_tensors):
        return Tokens(input_ids=torch.zeros(1, 3, dtype=torch.long))


class Tokens(dict):
    def to(self, _):
        return self


class Reads:
    """Gives each token as many logits as there are words."""

    def __init__(self, words):
        self.words = words

    def __call__(self, input_ids):
        return SimpleNamespace(logits=torch.zeros(*input_ids.shape, self.words))


def failures(adapter):
    found = [finding for finding in check_adapter(adapter) if not finding.ok]
    return {(finding.capability, finding.what): finding.why for finding in found}


def broken(**methods):
    return type("Broken", (Honest,), methods)()
