"""What ROSITA does as no other port; the rest is in test_ports.py."""

import datetime as dt
import json

import pytest
from ported import tiny_folder
from ports import ROSITA, WIDTH
from tiny_joint import picture

from vlbench.errors import WeightsError


@pytest.fixture
def state(tmp_path):
    return ROSITA.state(tmp_path)


@pytest.fixture
def tokenised(real_data, tmp_path):
    """The original code's tokens of real texts, and an adapter that knows their words."""
    texts = json.loads((real_data / "ports/rosita/tokenization_real_vocab.json").read_text())
    pairs = {(i, w) for one in texts for w, i in zip(one["tokens"], one["input_ids"][1:])}  # noqa: B905
    known = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", **dict(pairs)}
    folder = tiny_folder(tmp_path, vocab_size=30522, max_position_embeddings=40)
    words = [known.get(i, f"[unused{i}]") for i in range(30522)]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    return texts, ROSITA.drawn(folder)


def test_texts_become_the_originals_tokens(tokenised):
    texts, model = tokenised
    ids = model._inputs([picture(1, 2048)] * 4, [one["text"] for one in texts])[0].ids
    assert ids.tolist() == [one["input_ids"] for one in texts]


def test_spans_are_those_of_the_text_with_its_punctuation(tokenised):
    text = tokenised[0][1]["text"]
    (found,) = tokenised[1].attend([picture(1, 2048)], [text])
    pieces = [text[slice(*span)] for span in found.spans]
    assert " ".join(pieces) == "Two kids and 1 dog play on the T-s hir t_s hop s stairs"


def test_punctuation_is_no_token(tmp_path, state):
    model = ROSITA.load(tmp_path, state)
    assert model.attend([picture(3, WIDTH)], ["?!"])[0].spans == []
    assert model.count_tokens(["a cat!"]) == [4]


def test_a_part_that_is_no_dict_is_missing(tmp_path, state):
    ported = ROSITA._replace(layout=lambda kept: {**ROSITA.layout(kept), "pooler": None})
    with pytest.raises(WeightsError, match=r"2 missing: pooler\.dense\.weight"):
        ported.load(tmp_path, state)


def test_an_object_in_place_of_a_weight_is_no_weight(tmp_path, state):
    with pytest.raises(WeightsError, match=r"1 missing: pooler\.dense\.bias$"):
        ROSITA.load(tmp_path, {**state, "pooler.dense.bias": dt.date(2021, 1, 1)})
