import logging

import numpy as np
import pytest
import torch
from fakes import Reader, labelled_images

from vlbench.capabilities import TokenVectors
from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.layers import TEXTS, TOKENS, Layers
from vlbench.engine.store import Store
from vlbench.errors import SpecError

NAMES = ["first", "second", "output"]


class Layered(Reader):
    """Gives the pixels of a corner times 1, 2 and 3 at its layers, and counts its passes."""

    def __init__(self):
        super().__init__()
        self.passes, self.seen = 0, 0

    def layers(self):
        return NAMES

    def encode_images_at(self, pixels, layers):
        self.passes += 1
        self.seen += len(pixels)
        factors = {"first": 1, "second": 2, "output": 3}
        return {name: pixels[:, :, 0, 0] * factors[name] for name in layers}

    def encode_images(self, pixels):
        return pixels[:, :, 0, 0] * 3


@pytest.fixture
def column():
    return labelled_images(4, 3, test=(300, 300)).splits["test"]["image"]


def engine_of(model, folder=None, identity="known"):
    settings = ComputeSettings(torch.device("cpu"), batch_size=50)
    store = Store(folder) if folder else None
    return Engine(settings, store=store, identities={id(model): identity})


def values(model, engine, column, names=NAMES):
    layers = Layers(model, engine, names)
    at = {name: layers.engine_at(name) for name in names}
    return {name: one.features(model.encode_images, column) for name, one in at.items()}


@pytest.mark.parametrize("stored", [True, False])
def test_one_pass_computes_all_layers(column, tmp_path, stored):
    model = Layered()
    found = values(model, engine_of(model, tmp_path if stored else None), column)
    # Four of the first batch are looked at twice, the first image is measured, and batches are
    # filled up.
    assert len(column) <= model.seen <= len(column) + 100
    assert torch.equal(found["second"], 2 * found["first"])
    assert torch.equal(found["output"], 3 * found["first"])


def test_without_an_identity_nothing_is_stored_and_one_pass_does(column, tmp_path):
    model = Layered()
    found = values(model, engine_of(model, tmp_path, identity=""), column)
    assert model.seen <= len(column) + 100
    assert torch.equal(found["output"], 3 * found["first"])
    assert not [*tmp_path.rglob("*.pt")]


def test_what_is_stored_is_not_computed_again_and_the_output_is_the_models_features(
    column, tmp_path
):
    model = Layered()
    first = values(model, engine_of(model, tmp_path), column)
    model.passes = 0
    again = values(model, engine_of(model, tmp_path), column)
    assert model.passes == 0
    assert all(torch.equal(first[name], again[name]) for name in NAMES)
    plain = engine_of(model, tmp_path).features(model.encode_images, column)
    assert torch.equal(plain, first["output"])


def test_rows_and_layers_that_lack_are_added(column, tmp_path):
    model = Layered()
    values(model, engine_of(model, tmp_path), column.select(range(0, 600, 7)), ["first"])
    model.seen = 0
    found = values(model, engine_of(model, tmp_path), column, ["first", "second"])
    assert torch.equal(found["second"], 2 * found["first"])
    model.seen = 0
    values(model, engine_of(model, tmp_path), column, ["first"])
    assert model.seen == 0


def test_how_many_bytes_the_layers_are_is_said_before_they_are_computed(column, tmp_path, caplog):
    model = Layered()
    with caplog.at_level(logging.INFO, "vlbench"):
        values(model, engine_of(model, tmp_path), column)
    assert caplog.messages == ["3 layers are stored: 0.0 kB for each of 600 images, 0.0216 MB"]


def test_what_a_probe_stores_of_the_model_counts_the_layer(tmp_path):
    model = Layered()
    layers = Layers(model, engine_of(model, tmp_path), NAMES)
    built = []
    for name in ("first", "second", "first"):
        at = layers.engine_at(name)
        built.append(at.once({"what": "a training", "model": model}, lambda n=name: n))
    assert built == ["first", "second", "first"]


def test_other_models_on_the_same_engine_are_as_they_are(column):
    model, other = Layered(), Layered()
    at = Layers(model, engine_of(model), NAMES).engine_at("first")
    found, first = (at.features(one.encode_images, column) for one in (other, model))
    assert torch.equal(found, 3 * first)


@pytest.mark.parametrize(
    ("value", "why"), [(torch.nan, "NaN or infinite"), (1e20, r"row 1 values of up to 1e\+20")]
)
@pytest.mark.parametrize("stored", [True, False])
def test_a_layer_that_gives_no_numbers_is_named_with_its_row(column, value, why, stored, tmp_path):
    class Broken(Layered):
        def encode_images_at(self, pixels, layers):
            given = super().encode_images_at(pixels, layers)
            is_broken = (pixels[:, 1, :1, 0] * 255).round() == 8
            return given | {"second": torch.where(is_broken, value, given["second"])}

    model = Broken()
    with pytest.raises(ValueError, match=f"^encode_images_at second gave .*{why}"):
        values(model, engine_of(model, tmp_path if stored else None), column)


class Letters:
    """Gives texts the number of their letters, times 1 at the first layer and 2 at the output."""

    def __init__(self):
        self.passes = 0

    def text_layers(self):
        return ["first", "output"]

    def encode_texts_at(self, texts, layers):
        self.passes += 1
        lengths = torch.tensor([[float(len(text))] for text in texts])
        return {name: lengths * (1 + (name == "output")) for name in layers}

    def encode_texts(self, texts):
        return self.encode_texts_at(texts, ["output"])["output"]

    def encode_tokens_at(self, texts, layers):
        spans = [[(0, len(text))] for text in texts]
        found = self.encode_texts_at(texts, layers).items()
        return {name: [*map(TokenVectors, spans, rows[:, None])] for name, rows in found}

    def encode_tokens(self, texts):
        return self.encode_tokens_at(texts, ["output"])["output"]


def test_layers_of_texts_are_stored_by_one_pass(tmp_path):
    model, texts = Letters(), value_column(["a", "bcd"], "text")
    layers = Layers(model, engine_of(model, tmp_path), model.text_layers(), TEXTS)
    at = {name: layers.engine_at(name).features(model.encode_texts, texts) for name in layers.names}
    assert at["first"].tolist() == [[1.0], [3.0]]
    assert torch.equal(at["output"], 2 * at["first"])
    model.passes = 0
    again = Layers(model, engine_of(model, tmp_path), model.text_layers(), TEXTS)
    assert torch.equal(again.engine_at("first").features(model.encode_texts, texts), at["first"])
    assert model.passes == 0


def test_layers_of_tokens_stand_in_for_the_models_tokens_in_a_map_and_are_stored_apart(tmp_path):
    model, texts = Letters(), value_column(["a", "bcd"], "text")
    layers = Layers(model, engine_of(model, tmp_path), model.text_layers(), TOKENS)

    def firsts(at):
        encode = at.checked(model.encode_tokens)
        key = {"what": "first vectors", "model": model}
        return at.map(lambda t: [float(x.vectors[0, 0]) for x in encode(t)], texts, key=key)

    assert firsts(layers.engine_at("first")) == [1.0, 3.0]
    assert firsts(layers.engine_at("output")) == [2.0, 6.0]
    assert firsts(layers.engine_at("first")) == [1.0, 3.0]


def test_the_images_of_a_model_are_as_they_are_where_its_texts_are_layered(column):
    class Both(Layered, Letters):
        pass

    model = Both()
    at = Layers(model, engine_of(model), ["first"], TEXTS).engine_at("first")
    whole = engine_of(model).features(model.encode_images, column)
    assert torch.equal(at.features(model.encode_images, column), whole)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "encode_images_at gave no layer first"),
        ({"first": torch.zeros(4, 3, 4)}, r"layer first gave \[4, 3, 4\] for 4 rows"),
        ({"first": np.zeros((3, 2))}, r"layer first returned a numpy\.ndarray; return a torch"),
    ],
)
def test_a_layer_that_is_absent_or_no_tensor_is_named(given, why, column):
    model = Layered()
    model.encode_images_at = lambda *_: given
    with pytest.raises(ValueError, match=why):
        values(model, engine_of(model), column, ["first"])


@pytest.mark.parametrize("wrong", ["second", "output"])
def test_a_small_layer_that_depends_on_the_batch_is_refused_beside_a_large_layer(column, wrong):
    class Mixing(Layered):
        def encode_images_at(self, pixels, layers):
            given = super().encode_images_at(pixels, layers)
            return given | {"first": 1e6 * given["first"], wrong: given[wrong].flip(0)}

        def encode_images(self, pixels):
            return self.encode_images_at(pixels, NAMES)["output"]

    model = Mixing()
    with pytest.raises(SpecError, match="gives different outputs in a batch"):
        values(model, engine_of(model), column)


@pytest.mark.parametrize("stored", [True, False])
def test_a_layer_output_that_is_not_the_output_is_refused(column, stored, tmp_path):
    class Other(Layered):
        def encode_images(self, pixels):
            return pixels[:, :, 1, 0] * 4

    model = Other()
    with pytest.raises(SpecError, match="layer output differs from the result of encode_images"):
        values(model, engine_of(model, tmp_path if stored else None), column)
