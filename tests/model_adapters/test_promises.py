"""What is promised of adapters, asked of the tiny model of each that promises it."""

import inspect
import json
import re

import huggingface_hub
import pytest
import torch
import transformers
from ports import WIDTH
from tiny_joint import CPU, SPANS, TEXTS, TINY, adapter, broken_promises, picture, write_words
from tiny_models import KIN, TINY_MODELS
from torch import nn

from vlbench.capabilities import Picture
from vlbench.catalog.catalog import load_catalog
from vlbench.engine.pass_checks import tensors
from vlbench.errors import CannotDo, DataError, WeightsError

# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

PICTURES = [
    picture(count, WIDTH, seed=i, size=size)
    for i, (count, size) in enumerate([(3, (60, 40)), (5, (48, 32)), (1, (30, 90))])
]
METHODS = (
    *("encode_images", "logits", "encode_texts", "encode_tokens", "encode_grid"),
    *("encode_regions", "detect", "score_pairs", "attend"),
)
# What reads a picture itself, and what a head is for.
OF_PICTURES, OF_HEADS = METHODS[5:], ("logits", "class_names", "score_pairs", "masked_lm")


def each(promises):
    """Return a mark: each tiny model that promises something."""
    names = [name for name, tiny in TINY_MODELS.items() if promises(tiny)]
    return pytest.mark.parametrize("name", names)


def has(method):
    return lambda tiny: hasattr(adapter(tiny.adapter), method)


@torch.no_grad()
def outputs(model, method, pictures=PICTURES, texts=TEXTS):
    """Return what a method of an adapter gives, for each example."""
    given = [pictures] if method in OF_PICTURES else []
    if method in {"encode_images", "encode_grid", "logits"}:
        given = [torch.stack([model.preprocess(one.image) for one in pictures])]
    if method == "encode_regions":
        given += [[one.regions.boxes for one in pictures]]
    if method in {"encode_texts", "encode_tokens", "score_pairs", "attend"}:
        given += [texts]
    return getattr(model, method)(*given)


def answer(model, method, *examples):
    """Return the tensors that a method of an adapter gives, one for each example."""
    return tensors(method, outputs(model, method, *examples))


def numbers(output):
    """Return all numbers of an output: its tensors, spans and sizes."""
    fields = output._asdict() if hasattr(output, "_asdict") else {"whole": output}
    return {k: v for k, v in fields.items() if v is not None and k != "labels"}


def answers(model):
    """Return what each method of an adapter gives, one tensor for each example, by its name."""
    found = {m: answer(model, m) for m in METHODS if hasattr(model, m)}
    assert found
    return found


def apart(one, other):
    return not all(x.shape == y.shape and torch.allclose(x, y) for x, y in zip(one, other))  # noqa: B905


@pytest.mark.parametrize("name", [*TINY_MODELS, *KIN])
def test_the_contract_holds(name, opened):
    tiny = opened(name).tiny
    assert broken_promises(opened(name).model, region_width=WIDTH, without=tiny.without) == []


@each(lambda tiny: tiny.drawn is not None)
def test_random_weights_obey_their_seed_alone(name, opened):
    tiny, _, given, _ = opened(name)
    drawn = []
    for i, seed in enumerate((0, 0, 1)):
        torch.manual_seed(i)
        before = torch.get_rng_state()
        drawn.append(answers(tiny.load(given | tiny.drawn, init_seed=seed)))
        assert torch.equal(torch.get_rng_state(), before)
    first, same, other = drawn
    for method, one in first.items():
        assert all(map(torch.equal, one, same[method]))
    assert any(apart(first[method], other[method]) for method in first)


@each(lambda tiny: tiny.drawn)
def test_weights_are_frozen_in_evaluation_mode_and_float32(name, opened):
    parts = [part for part in vars(opened(name).model).values() if isinstance(part, nn.Module)]
    weights = [weight for part in parts for weight in part.parameters()]
    assert not any(module.training for part in parts for module in part.modules())
    assert not any(weight.requires_grad for weight in weights)
    assert {weight.dtype for weight in weights} == {torch.float32}


@each(lambda tiny: tiny.adapter != "torchvision_detector:TorchvisionDetector")
def test_half_precision_still_gives_float32(name, opened):
    tiny, _, given, _ = opened(name)
    found = answers(tiny.load(given, dtype=torch.bfloat16))
    assert {one.dtype for tensors in found.values() for one in tensors} == {torch.float32}


@each(lambda _: True)
def test_neighbours_change_nothing(name, opened):
    model = opened(name).model
    methods = [method for method in METHODS if hasattr(model, method)]
    assert methods
    for method in methods:
        for i, one in enumerate(outputs(model, method)):
            (alone,) = outputs(model, method, PICTURES[i : i + 1], TEXTS[i : i + 1])
            torch.testing.assert_close(numbers(alone), numbers(one), rtol=1e-4, atol=1e-5)


OF_TEXTS = ("encode_texts", "encode_tokens", "score_pairs", "attend")
MARKS = [f"cat {mark} dog" for mark in ("[SEP] [PAD]", "<pad> </s>", "<|endoftext|>")]


def reads_texts(tiny):
    return any(has(method)(tiny) for method in OF_TEXTS)


def require_alike_alone(model, texts):
    """Fail unless each of three texts alone has its finite answer in the batch."""
    for method in [method for method in OF_TEXTS if hasattr(model, method)]:
        for i, one in enumerate(outputs(model, method, PICTURES, texts)):
            (alone,) = outputs(model, method, PICTURES[i : i + 1], texts[i : i + 1])
            torch.testing.assert_close(numbers(alone), numbers(one), rtol=1e-4, atol=1e-5)
        assert all(one.isfinite().all() for one in answer(model, method, PICTURES, texts))


@each(reads_texts)
def test_an_empty_and_a_long_text_have_the_same_answer_beside_others(name, opened):
    require_alike_alone(opened(name).model, ["", "cat", "cat " * 90])


# What generates refuses its own marks inside a text.
@each(lambda tiny: reads_texts(tiny) and tiny.adapter != "hf_vlm:HfVlm")
def test_a_text_with_a_tokenizers_marks_has_the_same_answer_beside_others(name, opened):
    require_alike_alone(opened(name).model, MARKS)


def test_every_adapter_that_reads_texts_has_a_line():
    adapters = {spec.adapter for spec in load_catalog().models.values() if spec.adapter}
    readers = {one for one in adapters if any(hasattr(adapter(one), m) for m in OF_TEXTS)}
    assert len(readers) > 10
    assert readers <= {tiny.adapter for tiny in TINY_MODELS.values()}


@each(reads_texts)
def test_the_padding_side_of_a_tokenizers_files_changes_nothing(name, tmp_path):
    tiny = TINY_MODELS[name]
    given = tiny.write(tmp_path)
    right = tiny.load(given)
    file = tmp_path / "tokenizer_config.json"
    config = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    file.write_text(json.dumps(config | {"padding_side": "left"}), "utf-8")
    left = tiny.load(given)
    for method in [method for method in OF_TEXTS if hasattr(right, method)]:
        torch.testing.assert_close(answer(left, method), answer(right, method))


@each(lambda tiny: tiny.limit)
def test_what_passes_the_limit_is_cut_and_counted(name, opened):
    tiny, model = opened(name).tiny, opened(name).model
    assert model.context_length == tiny.limit
    counts = model.count_tokens(["", "cat " * 90])
    assert counts[0] == tiny.marks
    assert counts[1] == 90 + tiny.marks or (tiny.marks == 0 and counts[1] > 90)
    long, kept = ["cat " * 90], ["cat " * (tiny.limit - tiny.marks)]
    for method in METHODS:
        if hasattr(model, method) and method not in {"encode_images", "encode_regions"}:
            one, other = (answer(model, method, PICTURES[:1], texts) for texts in (long, kept))
            torch.testing.assert_close(one, other)


@each(lambda tiny: tiny.lost)
def test_a_weight_that_is_missing_or_of_another_shape_is_named(name, tmp_path):
    tiny = TINY_MODELS[name]
    given = tiny.write(tmp_path)
    # A library names the weights of an encoder alone without its name, of others after `model`.
    names = [tiny.lost, tiny.lost.partition(".")[2]][: 1 + (tiny.lost.count(".") > 2)]
    lost = rf"(model\.)?({'|'.join(map(re.escape, names))})"
    tiny.edit(tmp_path, lambda state: {k: v for k, v in state.items() if k != tiny.lost})
    with pytest.raises(WeightsError, match=rf"(lacks 1 weights|1 missing): {lost}$"):
        tiny.load(given)
    tiny.edit(tmp_path, lambda state: {**state, tiny.lost: torch.ones(3, 1)})
    with pytest.raises(WeightsError, match=rf"1 (weights )?of another shape: {lost} [\[(]3, 1"):
        tiny.load(given)


@each(lambda tiny: tiny.refused)
def test_weights_without_a_head_do_the_rest(name, tmp_path):
    tiny = TINY_MODELS[name]
    given = tiny.write(tmp_path)
    whole = tiny.load(given)
    tiny.behead(tmp_path)
    model = tiny.load(given)
    refused = [method for method in OF_HEADS if hasattr(model, method)]
    for method in refused:
        with pytest.raises(CannotDo, match=f"{tiny.refused}$"):
            answer(model, method) if method in METHODS else getattr(model, method)()
    rest = [method for method in METHODS if hasattr(model, method) and method not in refused]
    assert rest
    for method in rest:
        torch.testing.assert_close(answer(model, method), answer(whole, method))


def needs_images(tiny):
    return tiny.needs_images and not tiny.regions and any(has(m)(tiny) for m in OF_PICTURES)


@each(needs_images)
def test_a_picture_without_an_image_is_named(name, opened):
    model = opened(name).model
    pictures = [PICTURES[0], Picture(None, PICTURES[1].regions)]
    for method in [method for method in OF_PICTURES if hasattr(model, method)]:
        with pytest.raises(DataError, match="picture 1 of the batch has no image"):
            answer(model, method, pictures, TEXTS[:2])


@each(has("encode_regions"))
def test_no_boxes_have_no_vectors(name, opened):
    model = opened(name).model
    boxes = [PICTURES[0].regions.boxes, torch.empty(0, 4)]
    some, none = model.encode_regions(PICTURES[:2], boxes)
    assert none.shape == (0, some.shape[1])


@each(lambda tiny: tiny.marks and has("attend")(tiny))
def test_a_row_of_attention_is_a_word(name, opened):
    model = opened(name).model
    found = model.attend(PICTURES[:1], TEXTS[1:2])[0]
    assert found.spans == SPANS
    assert found.weights.shape[2:] == (2, len(found.boxes))


@each(lambda tiny: tiny.regions)
def test_regions_of_another_width_are_refused_with_both_widths(name, opened):
    with pytest.raises(DataError, match=r"picture 1 .* 9 wide; the model reads width 8( or 2)?$"):
        opened(name).model.attend([PICTURES[0], picture(2, 9)], TEXTS[:2])


@each(lambda tiny: tiny.regions)
def test_regions_in_another_order_get_their_own_attention(name, opened):
    seen, order = PICTURES[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    model = opened(name).model
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)
    assert torch.equal(one.boxes[order], other.boxes)


@each(lambda tiny: tiny.regions == "refused")
def test_a_picture_of_no_regions_is_refused(name, opened):
    with pytest.raises(DataError, match=r"picture 1 of the batch has no regions$"):
        opened(name).model.attend([PICTURES[0], picture(0, WIDTH)], TEXTS[:2])


@each(lambda tiny: tiny.regions == "no columns")
def test_a_picture_of_no_regions_has_no_columns(name, opened):
    found = opened(name).model.attend([picture(0, WIDTH), PICTURES[0]], TEXTS[:2])
    assert [one.weights.shape[-1] for one in found] == [0, 3]


@each(lambda tiny: tiny.published)
def test_offline_published_weights_and_the_way_around_are_named(name, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    for library in (huggingface_hub, transformers.utils.hub):
        monkeypatch.setattr(library.constants, "HF_HUB_CACHE", str(tmp_path))
    tiny = TINY_MODELS[name]
    pinned = {"revision": "3d74"} if "3d74" in tiny.published else {}
    message = rf"{tiny.published}.*: this run is offline; .* --model-args weights=PATH"
    with pytest.raises(WeightsError, match=message) as caught:
        adapter(tiny.adapter)(device=CPU, **pinned)
    assert "cannot be downloaded from" in str(caught.value)


def reads_weights(tiny):
    return "weights" in inspect.signature(adapter(tiny.adapter)).parameters


@each(reads_weights)
def test_absent_weights_are_named(name, opened, tmp_path):
    tiny, _, given, _ = opened(name)
    with pytest.raises(WeightsError, match=r"no (file|folder|file or folder) of .*nowhere\.pt"):
        tiny.load(given | {"weights": str(tmp_path / "nowhere.pt")})


@each(lambda tiny: tiny.kind)
def test_a_model_of_another_type_is_refused(name, tmp_path):
    transformers.BertConfig(**TINY).save_pretrained(tmp_path)
    kind = TINY_MODELS[name].kind
    expected = f"is a model of type bert; this adapter reads type {kind}"
    with pytest.raises(CannotDo, match=expected):
        adapter(TINY_MODELS[name].adapter)(device=CPU, architecture=write_words(tmp_path))
