import pytest
import torch
import transformers
from tiny_joint import CPU
from tiny_vlm import WRITERS

from vlbench.adapter_kit.vlm.prompt_batches import continue_rows, run_prefix

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11]])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = WRITERS["llava"](tmp_path_factory.mktemp("llava"))
    return transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()


@torch.no_grad()
def test_rows_after_a_prefix_are_read_as_in_a_whole_pass(model):
    inputs = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}
    prefix = run_prefix(model, inputs, 4)
    assert (prefix.length, prefix.start, prefix.axes) == (4, 4, 0)
    rows = [[9, 10, 11], [20, 21]]
    found = continue_rows(model, prefix, rows).logits
    for row, logits in zip(rows, found, strict=True):
        whole = model(input_ids=torch.tensor([[5, 6, 7, 8, *row]])).logits[0, 4:]
        torch.testing.assert_close(logits[: len(row)], whole, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_prefix_may_be_continued_again(model):
    prefix = run_prefix(model, {"input_ids": IDS}, 4)
    first, again = (continue_rows(model, prefix, [[9, 10]]).logits for _ in range(2))
    assert torch.equal(first, again)


@torch.no_grad()
def test_positions_of_three_axes_go_on_after_the_image(tmp_path):
    folder = WRITERS["qwen3"](tmp_path)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    image = model.config.image_token_id
    ids = torch.tensor([[5, *[image] * 4, 6, 7]])
    inputs = {
        "input_ids": ids,
        "mm_token_type_ids": (ids == image).long(),
        "pixel_values": torch.randn(16, 384, generator=torch.Generator(CPU).manual_seed(0)),
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
    }
    prefix = run_prefix(model, inputs, 6)
    # One text, an image two tokens wide and high, one text: the next is at 1 + 2 + 1.
    assert (prefix.length, prefix.start, prefix.axes) == (6, 4, 3)
    whole = model(**inputs).logits[0, 6:]
    model.model.rope_deltas = None
    found = continue_rows(model, prefix, [[7]]).logits[0]
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)
