"""Boxes of image tokens, held against what each token turns out to see."""

import pytest
import torch
import transformers
from PIL import Image, ImageDraw
from tiny_vlm import CHAT, WRITERS, tokenizer

from vlbench.adapter_kit.attention import overlap_shares
from vlbench.adapter_kit.images import image_features
from vlbench.adapter_kit.vlm.image_tokens import LAYOUTS, TokenGrid, TokenView, _place, locate
from vlbench.errors import CannotDo

# Wide, tall, and odd pictures; the last is enlarged.
SIZES = [(190, 64), (70, 200), (131, 97), (40, 30)]
# How far inside a block resizing can hide its edges, and how far outside show them, as a share of
# the picture's side. A token of these models is a quarter of a view wide.
HIDDEN, SHOWN = 0.06, 0.12


# PaliGemma's processor reads a tensor in a way that NumPy will no longer allow.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


# PaliGemma 2 sees as PaliGemma does.
@pytest.fixture(scope="module", params=sorted(WRITERS.keys() - {"paligemma2"}))
def local(request, tmp_path_factory):
    """A model whose vision tower mixes no patches, and its processor."""
    folder = WRITERS[request.param](tmp_path_factory.mktemp(request.param))
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    for name, weight in model.named_parameters():
        if any(part in name for part in ("out_proj", "attn.proj", "projection_layer")):
            weight.data.zero_()
    return model, transformers.AutoProcessor.from_pretrained(folder)


def inputs_of(processor, image):
    special = processor.image_token
    made = processor(images=[image], text=[special + "a"], return_tensors="pt")
    names = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "labels")
    return made["input_ids"][0], {k: v for k, v in made.items() if k not in names}


def with_block(size, block):
    image = Image.new("RGB", size, "navy")
    ImageDraw.Draw(image).rectangle(block, fill="yellow")
    return image


@torch.no_grad()
def changed_tokens(local, size, block):
    """Return the boxes of all tokens, and which of them see a block of another colour."""
    model, processor = local
    found = []
    for image in (Image.new("RGB", size, "navy"), with_block(size, block)):
        ids, inputs = inputs_of(processor, image)
        found.append(image_features(model, inputs))
    count = int((ids == model.config.image_token_id).sum())
    tokens = locate(model.config.model_type, TokenView(processor, inputs, size, count))
    return tokens, (found[0] - found[1]).abs().amax(1)[tokens.places] > 1e-3


def meets(boxes, block):
    low, high = torch.maximum(boxes[:, :2], block[:2]), torch.minimum(boxes[:, 2:], block[2:])
    return (low < high).all(1)


@pytest.mark.parametrize("size", SIZES)
def test_a_token_sees_what_lies_in_its_box(local, size):
    sides = torch.tensor([*size, *size])
    for corner in ((0.1, 0.15), (0.45, 0.55), (0.7, 0.3)):
        block = torch.tensor([*corner, corner[0] + 0.2, corner[1] + 0.25]) * sides
        tokens, changed = changed_tokens(local, size, [*map(int, block)])
        inward = torch.tensor([1, 1, -1, -1]) * sides
        assert changed[meets(tokens.boxes, block + HIDDEN * inward)].all()
        assert not changed[~meets(tokens.boxes, block - SHOWN * inward)].any()


@pytest.mark.parametrize("size", SIZES)
def test_boxes_of_a_view_are_disjoint_and_lie_in_the_picture(local, size):
    model, processor = local
    ids, inputs = inputs_of(processor, Image.new("RGB", size))
    count = int((ids == model.config.image_token_id).sum())
    seen = TokenView(processor, inputs, size, count)
    boxes = locate(model.config.model_type, seen).boxes
    assert (boxes >= 0).all()
    assert (boxes[:, 2:] <= torch.tensor(size) + 1e-3).all()
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    views = LAYOUTS[model.config.model_type](seen)
    counts = [len(_place(view, size)[0]) for view in views]
    for view, own in zip(views, areas.split(counts), strict=True):
        left, top, right, bottom = view.seen
        width, height = min(right, size[0]) - max(left, 0), min(bottom, size[1]) - max(top, 0)
        assert own.sum() == pytest.approx(width * height, rel=1e-4)


def test_the_whole_picture_comes_before_its_tiles(local):
    model, processor = local
    ids, inputs = inputs_of(processor, Image.new("RGB", (190, 64)))
    count = int((ids == model.config.image_token_id).sum())
    kind = model.config.model_type
    first = LAYOUTS[kind](TokenView(processor, inputs, (190, 64), count))[0]
    assert first.seen == ((63, 0, 127, 64) if kind == "llava" else (0, 0, 190, 64))


def test_padding_has_no_box():
    places, boxes = _place(TokenGrid(5, 3, 2, (0, -30, 40, 60), extra=1), (40, 60))
    assert places.tolist() == [8, 9, 11, 12]
    assert boxes.tolist() == [[0, 0, 20, 30], [20, 0, 40, 30], [0, 30, 20, 60], [20, 30, 40, 60]]


def test_a_token_that_sees_some_padding_has_the_rest():
    boxes = _place(TokenGrid(0, 2, 1, (-10, -10, 30, 30)), (20, 20))[1]
    assert boxes.tolist() == [[0, 0, 20, 10], [0, 10, 20, 20]]


def test_llava_undoes_padding_to_a_square():
    processor = transformers.LlavaProcessor(
        transformers.LlavaImageProcessor(
            do_pad=True, size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
        ),
        tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT,
    )
    _, inputs = inputs_of(processor, Image.new("RGB", (80, 40)))
    boxes = locate("llava", TokenView(processor, inputs, (80, 40), 16)).boxes
    assert boxes.tolist()[:2] == [[0, 0, 20, 20], [20, 0, 40, 20]]
    assert len(boxes) == 8


def test_a_model_with_a_resampler_has_no_boxes():
    with pytest.raises(CannotDo, match="the positions of idefics2's image tokens in a picture"):
        locate("idefics2", TokenView(None, {}, (10, 10), 64))


def test_tokens_that_have_no_place_are_told():
    with pytest.raises(CannotDo, match="25 of 26 image tokens of gemma3 have a position"):
        locate("gemma3", TokenView(None, {}, (10, 10), 26))


def test_a_box_shares_itself_out_by_area():
    cells = torch.tensor([[0, 0, 10, 10], [10, 0, 20, 10.0]])
    boxes = torch.tensor([[5, 0, 20, 5], [0, 0, 10, 10], [14, 4, 14, 9], [30, 0, 40, 9.0]])
    shares = overlap_shares(boxes, cells)
    assert shares.tolist() == [[pytest.approx(1 / 3), pytest.approx(2 / 3)], [1, 0], [0, 1], [0, 1]]
