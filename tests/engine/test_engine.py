import weakref
from pathlib import Path

import pytest
import torch
from fakes import ConstantModel, Lengths, PlantedFeatures, labelled_images, planted_image
from PIL import Image
from sources import write
from torch import Tensor

from vlbench.capabilities import Cut, Picture, Regions
from vlbench.code.plugins import load_file
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.engine import KnownModel, features_key, map_key, once_key
from vlbench.engine.pass_checks import REPEATED, SOME
from vlbench.engine.shards import SHARD
from vlbench.engine.store import Store
from vlbench.errors import CannotDo, DataError, SpecError

CPU = torch.device("cpu")
MANY = labelled_images(300, 300).splits["train"]["image"]


class Counting(PlantedFeatures):
    """Counts the images that pass through it."""

    passed = 0

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.passed += len(pixels)
        return super().encode_images(pixels)


def engine_for(model, folder: Path, batch_size: int = 32) -> Engine:
    place = ComputeSettings(CPU, batch_size=batch_size)
    return Engine(place, store=Store(folder), identities={id(model): "a model"})


@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
def test_features_come_in_the_order_of_the_column_with_every_batch_size(batch_size):
    engine, planted = Engine(ComputeSettings(CPU, batch_size=batch_size)), torch.randn(1200, 5)
    encode = PlantedFeatures(planted).encode_images
    for rows in ([*range(600)], [7, 599, 0, 7]):
        assert torch.equal(engine.features(encode, MANY.select(rows)), planted[rows])


def test_a_stored_image_never_passes_through_the_model_again(tmp_path):
    model = Counting(torch.randn(1200, 5))
    first = engine_for(model, tmp_path).features(model.encode_images, MANY)
    passed = model.passed
    second = engine_for(model, tmp_path).features(model.encode_images, MANY)
    assert model.passed == passed
    assert torch.equal(first, second)


def test_only_rows_that_the_store_lacks_are_computed(tmp_path):
    model = Counting(torch.randn(1200, 5))
    engine_for(model, tmp_path).features(model.encode_images, MANY.select(range(100, 400)))
    engine_for(model, tmp_path).features(model.encode_images, MANY)
    # Each engine passes some of its first batch again, and some of others, and fills up the last.
    assert 600 < model.passed < 600 + 2 * REPEATED * 10 + 2 * 32


class SeesTheBatch(PlantedFeatures):
    """Rounds differently in batches of other sizes, as libraries do."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        return super().encode_images(pixels) + 1e-7 * len(pixels)

    def encode_texts(self, texts: list[str]) -> Tensor:
        return torch.tensor([[float(len(text)), 1.0] for text in texts]) + 1e-7 * len(texts)


@pytest.mark.parametrize("size", [7, 32, 1000])
@pytest.mark.parametrize("others", [range(1), range(100, 400), range(0, 600, 7)])
def test_features_do_not_depend_on_the_rows_that_another_task_has_stored(tmp_path, size, others):
    model, texts = SeesTheBatch(torch.randn(1200, 5)), value_column([*map(str, range(600))], "text")
    for encode, rows in ((model.encode_images, MANY), (model.encode_texts, texts)):
        alone = engine_for(model, tmp_path / "alone", size).features(encode, rows)
        first = engine_for(model, tmp_path / "both", size).features(encode, rows.select(others))
        after = engine_for(model, tmp_path / "both", size).features(encode, rows)
        assert torch.equal(after, alone)
        assert torch.equal(first, alone[[*others]])


def test_a_damaged_shard_is_computed_again(tmp_path):
    model = Counting(torch.randn(1200, 5))
    first = engine_for(model, tmp_path).features(model.encode_images, MANY)
    shard = min(tmp_path.rglob("*.pt"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert torch.equal(engine_for(model, tmp_path).features(model.encode_images, MANY), first)
    assert 600 + SHARD < model.passed < 600 + SHARD + 2 * REPEATED * 10


def test_a_model_without_an_identity_is_never_stored(tmp_path):
    column = labelled_images(3, 3).splits["train"]["image"]
    model = PlantedFeatures(torch.randn(12, 5))
    Engine(ComputeSettings(CPU), store=Store(tmp_path)).features(model.encode_images, column)
    assert not list(tmp_path.rglob("*.pt"))


def test_texts_need_no_preprocessing_and_an_empty_column_has_no_features():
    texts = value_column(["a", "bcd"], "text")
    assert Engine.for_tests().features(Lengths().encode_texts, texts).tolist() == [[1.0], [3.0]]
    none = Engine.for_tests().features(ConstantModel().encode_images, MANY.select([]))
    assert none.shape == (0, 0)


class MeanColour:
    """Keeps the picture's size; its feature is the mean of red."""

    def preprocess(self, image: Image.Image) -> Tensor:
        return torch.full((3, image.height, image.width), image.getpixel((0, 0))[0] / 255)

    def encode_images(self, pixels: Tensor) -> Tensor:
        return pixels.mean((2, 3))


class RaggedMeanColour(MeanColour):
    """Says that its pixels differ in size."""

    ragged = True


def pictures_of_two_sizes() -> Column:
    stored = [Image.new("RGB", (4 + i % 2, 4), (i * 50, 0, 0)) for i in range(5)]
    return Column("sizes", "image", stored, range(5))


def test_a_ragged_adapter_gets_batches_of_one_size_and_keeps_the_order():
    encode = RaggedMeanColour().encode_images
    features = Engine.for_tests().features(encode, pictures_of_two_sizes())
    assert torch.allclose(features[:, 0] * 255, torch.tensor([0.0, 50, 100, 150, 200]))


def test_sizes_that_differ_without_ragged_are_an_error_that_says_so():
    why = r"^test_engine.py:\d+: preprocess gave sizes .* ragged = True"
    with pytest.raises(SpecError, match=why):
        Engine.for_tests().features(MeanColour().encode_images, pictures_of_two_sizes())


def regions(i: int) -> Regions:
    return Regions(torch.full((1, 4), float(i)), None, None, None, (4, 4))


class Unreadable:
    """A stored column whose second image is broken."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> Image.Image:
        if row == 1:
            raise DataError("train/cat/2.jpg: truncated")
        return Image.new("RGB", (4, 4))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_is_an_error_with_its_name_in_workers_too(workers):
    column = Column("broken", "image", Unreadable(), range(2))
    engine = Engine(ComputeSettings(CPU, batch_size=1, workers=workers))
    for ask in (engine.map, engine.features):
        with pytest.raises(DataError, match=r"^train/cat/2\.jpg: truncated$"):
            ask(ConstantModel().encode_images, column)


def test_map_gives_one_output_an_example_in_order_and_refuses_a_function_that_loses_one():
    numbers, texts = value_column(range(5)), value_column(list("abcde"), "text")
    joined = Engine.for_tests().map(lambda n, t: [*map("{}{}".format, n, t)], numbers, texts)
    assert joined == ["0a", "1b", "2c", "3d", "4e"]
    with pytest.raises(ValueError, match="4 outputs for 5 rows"):
        Engine.for_tests().map(lambda n: n[1:], numbers)


@pytest.mark.parametrize("workers", [0, 2])
def test_map_loads_images_and_pictures_in_workers_beside_other_columns(workers):
    pictures = [Picture(planted_image(i, i), regions(i)) for i in range(5)]
    picture = Column("pictures", "picture", pictures, range(5))
    number = value_column(range(10, 15))

    def look(pictures, numbers):
        reds = [one.image.getpixel((0, 0))[0] for one in pictures]
        sums = [one.regions.boxes.sum().item() for one in pictures]
        return [*zip(reds, sums, numbers, strict=True)]

    engine = Engine(ComputeSettings(CPU, batch_size=2, workers=workers))
    seen = engine.map(look, picture, number)
    assert seen == [(i, 4.0 * i, 10 + i) for i in range(5)]


def test_map_stores_only_under_a_key(tmp_path):
    calls = []
    engine = Engine(ComputeSettings(CPU), store=Store(tmp_path))
    column = value_column(range(3))
    for key in (None, {"what": "square"}, {"what": "square"}):
        outputs = engine.map(lambda n: calls.append(1) or [x * x for x in n], column, key=key)
        assert outputs == [0, 1, 4]
    assert len(calls) == 2


def test_nothing_is_stored_under_a_key_of_a_model_without_an_identity(tmp_path):
    model = Lengths()
    engine = Engine(ComputeSettings(CPU), store=Store(tmp_path), identities={id(model): ""})
    for given in ([1], [2]):
        found = engine.map(lambda _, o=given: o, value_column([0]), key={"model": model})
        assert found == engine.once({"model": model}, lambda o=given: o) == given
    with pytest.raises(TypeError, match=r"cannot digest a .*Lengths"):
        engine.once({"model": Lengths()}, lambda: 1)


def test_map_one_by_one_stores_each_example_as_soon_as_it_is_done(tmp_path):
    def invert(numbers):
        return [1 / n for n in numbers]

    engine, key = Engine(ComputeSettings(CPU), store=Store(tmp_path)), {"what": "1 / n"}
    with pytest.raises(ZeroDivisionError):
        engine.map(invert, value_column([1, 2, 0, 4]), key=key, one_by_one=True)
    assert len(list(tmp_path.rglob("*.pt"))) == 2
    outputs = engine.map(invert, value_column([1, 2, 4]), key=key, one_by_one=True)
    assert outputs == [1.0, 0.5, 0.25]


def test_map_stores_ragged_tensors(tmp_path):
    engine = Engine(ComputeSettings(CPU), store=Store(tmp_path))
    column = value_column(range(3))
    first = engine.map(lambda n: [torch.ones(x) for x in n], column, key={"what": "ones"})
    again = engine.map(lambda _: pytest.fail("recomputed"), column, key={"what": "ones"})
    assert [v.tolist() for v in first] == [v.tolist() for v in again] == [[], [1.0], [1.0, 1.0]]


def test_once_builds_once_for_a_key(tmp_path):
    model = ConstantModel()
    key = {"what": "probe", "model": model, "seed": 0}
    first = engine_for(model, tmp_path).once(key, lambda: torch.ones(2))
    again = engine_for(model, tmp_path).once(key, lambda: pytest.fail("built again"))
    other = engine_for(model, tmp_path).once(key | {"seed": 1}, lambda: torch.zeros(2))
    assert torch.equal(first, again)
    assert torch.equal(other, torch.zeros(2))


def test_a_copy_may_be_trained_while_the_live_model_stays():
    live = torch.nn.Linear(2, 1)
    copied = Engine.for_tests().copy(live)
    with torch.no_grad():
        copied.weight += 1
    assert not torch.equal(live.weight, copied.weight)


class Reuses(PlantedFeatures):
    """Gives the same memory for every batch."""

    def encode_images(self, pixels: Tensor) -> Tensor:
        if not hasattr(self, "buffer"):
            self.buffer = torch.empty(32, self.features.shape[1])
        return self.buffer[: len(pixels)].copy_(super().encode_images(pixels))


def test_an_adapter_may_use_its_memory_again():
    planted = torch.randn(200, 3)
    column = labelled_images(50, 50).splits["train"]["image"]
    features = Engine.for_tests().features(Reuses(planted).encode_images, column)
    assert torch.equal(features, planted[:100])


def test_a_model_without_a_name_is_called_like_its_class():
    model, engine = ConstantModel(), Engine.for_tests()
    assert engine.name_of(model) == "ConstantModel"
    known = {id(model): KnownModel("a-name")}
    assert Engine(ComputeSettings(CPU), known=known).name_of(model) == "a-name"


def test_features_of_random_weights_are_stored_under_an_identity_of_their_own(tmp_path):
    model, untrained = PlantedFeatures(torch.ones(8, 2)), PlantedFeatures(torch.zeros(8, 2))
    known = {id(model): KnownModel("a-name", untrained=lambda draw: (untrained, f"draw {draw}"))}
    options = {"store": Store(tmp_path), "identities": {id(model): "a model"}, "known": known}
    column = labelled_images(4).splits["test"]["image"]
    for _ in range(2):
        engine = Engine(ComputeSettings(CPU), **options)
        with engine.untrained(model, 1) as network:
            assert engine.name_of(network) == "a-name with random weights, draw 1"
            features = [engine.features(one.encode_images, column) for one in (model, network)]
            assert [float(own.mean()) for own in features] == [1, 0]


def test_each_draw_of_random_weights_is_stored_separately_and_forgotten_afterwards(tmp_path):
    model, column = PlantedFeatures(torch.ones(8, 2)), labelled_images(4).splits["test"]["image"]

    def draw(number):
        return PlantedFeatures(torch.full((8, 2), float(number))), f"draw {number}"

    known = {id(model): KnownModel("a-name", untrained=draw)}
    engine = Engine(ComputeSettings(CPU), store=Store(tmp_path), known=known)
    for number in (1, 2):
        with engine.untrained(model, number) as network:
            assert float(engine.features(network.encode_images, column).mean()) == number
        assert engine.name_of(network) == "PlantedFeatures"
        freed = weakref.ref(network)
        del network
        assert freed() is None


def test_a_model_of_no_line_has_no_network_with_random_weights():
    with pytest.raises(CannotDo, match=r"models\.yaml"):
        Engine.for_tests().untrained(ConstantModel(), 1).__enter__()


def rolled(self, pixels: Tensor) -> Tensor:
    return PlantedFeatures.encode_images(self, pixels).roll(1, 0)


Rolls = type("Rolls", (PlantedFeatures,), {"encode_images": rolled})


def test_features_that_depend_on_their_batch_are_refused_before_anything_is_stored(tmp_path):
    model, column = Rolls(torch.randn(12, 5)), labelled_images(6).splits["train"]["image"]
    why = r"Rolls\.rolled gives different outputs in a batch of 32 than"
    with pytest.raises(SpecError, match=why):
        engine_for(model, tmp_path).features(model.encode_images, column)
    assert not list(tmp_path.rglob("*.pt"))


def test_a_method_is_tried_first_in_the_life_of_an_engine_and_with_batch_4_16_and_so_on(tmp_path):
    model, column = Counting(torch.randn(12, 5)), labelled_images(6).splits["train"]["image"]
    engine = Engine.for_tests()
    for _ in range(5):
        engine.features(model.encode_images, column)
    assert model.passed == 5 * 32 + REPEATED + 2 * SOME
    # What is stored is not passed again either.
    stored = Counting(torch.randn(12, 5))
    for _ in range(2):
        engine_for(stored, tmp_path).features(stored.encode_images, column)
    assert stored.passed == 32 + REPEATED


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda pixels: pixels.permute(1, 2, 0), r"torch\.float32 \[4, 4, 3\]"),
        (lambda pixels: pixels * 255, "values from 0 to 2"),
        (lambda pixels: (pixels * 255).byte(), r"torch\.uint8 \[3, 4, 4\]"),
        (lambda pixels: pixels - 0.5, "values from -0.5 to -0.492"),
    ],
)
def test_pixels_of_another_shape_or_range_are_refused(change, found):
    pixels = {"preprocess": lambda self, image: change(ConstantModel.preprocess(self, image))}
    model = type("Other", (ConstantModel,), pixels)()
    column = labelled_images(0, 0, 3).splits["train"]["image"]
    with pytest.raises(SpecError, match=rf"^test_engine\.py:\d+: preprocess gave {found}; return"):
        Engine.for_tests().features(model.encode_images, column)


def one_row(value):
    planted = torch.ones(8, 2)
    planted[5] = torch.tensor([0, value])
    return planted


FAR = {1e38: "1e[+]38", 3e15: "3e[+]15", -1e20: "1e[+]20", 1e-38: "1e-38", 1e-45: "1.4e-45"}
UP = "values of up to"
TO = r".* into 1e-15 to 1e\+15$"
REFUSED = [
    (one_row(torch.nan), "encode_images gave NaN or infinite values for row 1"),
    (torch.zeros(8, 2, 2), r"gave \[4, 2, 2\] for 4 rows; return \[N, D\]"),
    (torch.zeros(8, 0), "wanted float32"),
    (torch.zeros(8, 2, dtype=torch.int64), "wanted float32"),
    # Float32 does not hold their squares.
    *((one_row(x), rf"^encode_images gave row 1 {UP} {far}, {TO}") for x, far in FAR.items()),
]


@pytest.mark.parametrize(("planted", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_can_be_no_features_is_refused(planted, message):
    column = labelled_images(2, 2).splits["test"]["image"]
    with pytest.raises(ValueError, match=message):
        Engine.for_tests().features(PlantedFeatures(planted).encode_images, column)


def test_a_row_of_zeros_is_no_tiny_row():
    planted = torch.zeros(8, 2)
    planted[5] = torch.tensor([1e-45, 1e-15])
    column = labelled_images(2, 2).splits["test"]["image"]
    features = Engine.for_tests().features(PlantedFeatures(planted).encode_images, column)
    assert torch.equal(features, planted[4:])


IMAGES = labelled_images(2).splits["train"]["image"]


class Model: ...


def compute(): ...


def made_by(folder, text):
    """Return a column whose values a file's class makes."""
    stored = load_file(write(folder / "loader.py", text)).Stored()
    return Column("the same content", "image", stored, range(2))


STORED = "class Stored:\n    def __getitem__(self, i):\n        return i\n"


def test_features_are_kept_apart_by_model_method_and_column():
    other = labelled_images(3).splits["train"]["image"]
    given = [("a", "f", IMAGES), ("b", "f", IMAGES), ("a", "g", IMAGES), ("a", "f", other)]
    keys = {features_key(model, compute, method, column) for model, method, column in given}
    assert len(keys) == 4


def test_features_are_shared_by_selections_of_a_column_and_outputs_of_functions_are_not():
    part = IMAGES.select([1])
    assert features_key("a", compute, "f", IMAGES) == features_key("a", compute, "f", part)
    assert map_key([compute], [IMAGES], {"k": 1}, {}) != map_key([compute], [part], {"k": 1}, {})


def test_the_code_that_makes_a_columns_values_counts(tmp_path):
    texts = {"a": STORED, "b": STORED, "c": STORED.replace("return i", "return -i")}
    columns = [made_by(tmp_path / name, text) for name, text in texts.items()]
    keys = [features_key("a", compute, "f", column) for column in columns]
    assert keys[0] == keys[1] != keys[2]


def test_a_model_counts_by_its_identity_and_one_without_has_no_key():
    model = Model()
    keys = [once_key(compute, {"model": model}, {id(model): known}) for known in ("a", "b", "")]
    assert keys[0] != keys[1]
    assert keys[2] is None
    assert map_key([compute], [IMAGES], {"model": model}, {id(model): ""}) is None
    assert features_key("", compute, "f", IMAGES) is None


def test_code_that_no_file_holds_has_no_key():
    space = {"__name__": "a_notebook"}
    exec("def f(): ...\n", space)  # noqa: S102 - as a notebook does
    assert once_key(space["f"], {"k": 1}, {}) is None


def test_tensors_and_plain_values_count_by_content():
    given = [torch.ones(2), torch.zeros(2), None, [1, "a"]]
    keys = {once_key(compute, {"x": value}, {}) for value in given}
    assert len(keys) == 4
    assert once_key(compute, {"x": torch.ones(2)}, {}) in keys
    assert map_key([compute], [value_column(["a"], "text")], {"k": 1}, {})


class Areas:
    """Encodes a region as its box's width and height."""

    calls = 0

    def encode_regions(self, pictures, boxes):
        self.calls += 1
        return [own[:, 2:] - own[:, :2] for own in boxes]


def with_boxes(*boxes):
    own = torch.tensor(boxes).float()
    return Picture(None, Regions(own, torch.zeros(len(own), 3), None, None, (9, 9)))


def test_regions_get_the_vectors_of_an_encoder_and_are_encoded_once(tmp_path):
    pictures = [with_boxes([0, 0, 1, 2], [1, 1, 4, 2]), with_boxes([2, 0, 9, 9])]
    column = Column("pictures", "picture", pictures, [0, 1], ["a.png", "b.png"])
    split, encoder = Split({"picture": column}), Areas()
    seen = engine_for(encoder, tmp_path).encode_regions(encoder, split)
    assert [one.vectors.tolist() for one in seen["regions"]] == [[[1, 2], [3, 1]], [[7, 9]]]
    boxes = [one.regions.boxes.tolist() for one in pictures]
    assert [one.boxes.tolist() for one in seen["regions"]] == boxes
    assert seen["regions"].examples().ids == ["a.png", "b.png"]
    calls = encoder.calls
    again = engine_for(encoder, tmp_path).encode_regions(encoder, split)
    assert (again["regions"].key, encoder.calls) == (seen["regions"].key, calls)


def test_a_picture_without_regions_cannot_be_encoded_by_its_regions():
    column = Column("pictures", "picture", [with_boxes([0, 0, 1, 1]), Picture(None, None)], [0, 1])
    with pytest.raises(DataError, match="a picture has no regions"):
        Engine.for_tests().encode_regions(Areas(), Split({"picture": column}))


class Cuttable(Lengths):
    """Encodes a text as its length, or as the number of heads that are taken away."""

    heads = ()

    def parts(self):
        raise NotImplementedError

    def cut(self, what):
        cut = Cuttable()
        cut.heads = what.heads
        return cut

    def encode_texts(self, texts):
        return torch.full((len(texts), 1), float(len(self.heads) or 9))


@pytest.mark.parametrize("identity", ["a model", ""])
def test_features_of_a_cut_model_are_never_taken_for_those_of_another(identity, tmp_path):
    texts, model = value_column(["a", "bb"], ["1", "2"]), Cuttable()
    some, all_of_it = Cut(heads=((0, 1),)), Cut(heads=((0, 0), (0, 1)))
    for _ in range(2):
        known = {id(model): identity}
        engine = Engine(ComputeSettings(CPU), store=Store(tmp_path), identities=known)
        models = [model, *(engine.cut(model, what) for what in (some, all_of_it) * 20)]
        found = [engine.features(one.encode_texts, texts)[0].item() for one in models]
        assert found == [9.0, *[1.0, 2.0] * 20]
        keys = {map_key([len], [texts], {"model": one}, engine._identities) for one in models}
        assert len(keys) == (3 if identity else 1)
        assert known == {id(model): identity}


def test_a_cut_model_has_the_models_name_and_stays_alive():
    model = Cuttable()
    engine = Engine(ComputeSettings(CPU), known={id(model): KnownModel("tiny")})
    seen = {id(engine.cut(model, Cut())) for _ in range(20)}
    assert len(seen) == 20
    assert engine.name_of(engine.cut(engine.cut(model, Cut()), Cut())) == "tiny"
