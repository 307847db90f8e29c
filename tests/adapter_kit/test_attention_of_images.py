import pytest
import torch

from vlbench.adapter_kit.attention import cross_attention, one_stream_attention, patch_boxes

# Of two pairs: the first text has one token with a span, the second two.
SPANS = [[None, (0, 3), None, None], [None, (0, 1), (2, 5), None]]
BOXES = [torch.rand(2, 4), torch.rand(1, 4)]


def layers(*shape):
    return list(torch.rand(3, 2, 4, *shape, generator=torch.Generator().manual_seed(0)))


def test_one_stream_gives_the_rows_of_tokens_and_the_columns_of_boxes():
    given = layers(6, 6)
    first, second = one_stream_attention(given, SPANS, BOXES, start=4)
    torch.testing.assert_close(first.weights, torch.stack(given)[:, 0, :, 1:2, 4:6])
    torch.testing.assert_close(second.weights, torch.stack(given)[:, 1, :, 1:3, 4:5])
    assert (first.spans, second.spans) == ([(0, 3)], [(0, 1), (2, 5)])
    assert first.boxes is BOXES[0]
    assert first.whole
    assert second.whole


def test_cross_attention_has_the_boxes_in_its_first_columns():
    given = layers(4, 2)
    first, second = cross_attention(given, SPANS, BOXES)
    torch.testing.assert_close(first.weights, torch.stack(given)[:, 0, :, 1:2])
    torch.testing.assert_close(second.weights, torch.stack(given)[:, 1, :, 1:3, :1])
    assert not first.whole


def test_weights_are_float32_for_any_dtype_of_the_model():
    given = [layer.bfloat16() for layer in layers(4, 2)]
    assert cross_attention(given, SPANS, BOXES)[0].weights.dtype == torch.float32


def test_a_text_without_tokens_and_a_picture_without_boxes_are_empty():
    found = cross_attention(layers(4, 2)[:1], [[None] * 4, SPANS[1]], [BOXES[0], torch.empty(0, 4)])
    assert [one.weights.shape for one in found] == [(1, 4, 0, 2), (1, 4, 2, 0)]


def test_a_pair_without_boxes_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        cross_attention(layers(4, 2), SPANS, BOXES[:1])


def test_patches_cover_the_image_row_by_row():
    boxes = patch_boxes(2, 3, (60, 40))
    assert boxes.tolist() == [
        *([0, 0, 20, 20], [20, 0, 40, 20], [40, 0, 60, 20]),
        *([0, 20, 20, 40], [20, 20, 40, 40], [40, 20, 60, 40]),
    ]
