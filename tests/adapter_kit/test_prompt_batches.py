from types import SimpleNamespace

import pytest
import torch

from vlbench.adapter_kit.vlm.prompt_batches import Head, OneByOne, last_places
from vlbench.errors import CannotDo

IDS = torch.tensor([[5, 6, 7, 8]])


def test_the_last_ids_of_rows_are_found_among_the_places_that_are_kept():
    kept, places = last_places([3, 6], 2)
    assert kept.tolist() == [1, 2, 4, 5]
    assert places.tolist() == [[0, 1], [2, 3]]


def test_pixels_are_what_is_not_of_tokens():
    inputs = {"input_ids": IDS, "token_type_ids": IDS, "pixel_values": torch.ones(1)}
    assert list(Head([5, 6], inputs, "tiny").pixels()) == ["pixel_values"]


def test_a_whole_pass_attends_to_all_and_keeps_the_types_of_the_head():
    given = {"input_ids": IDS, "attention_mask": IDS, "token_type_ids": IDS}
    runner = OneByOne(SimpleNamespace(device="cpu"), Head([5, 6], given, "tiny"))
    found = runner._whole([9, 9, 9])
    assert found["input_ids"].tolist() == [[5, 6, 9, 9, 9]]
    assert found["attention_mask"].tolist() == [[5, 6, 1, 1, 1]]
    assert found["token_type_ids"].tolist() == [[5, 6, 0, 0, 0]]


def test_an_input_of_tokens_is_refused():
    head = Head([5, 6], {"input_ids": IDS, "token_mask": IDS}, "tiny", ["token_mask"])
    with pytest.raises(CannotDo, match="tiny takes token_mask for each token of a prompt"):
        OneByOne(SimpleNamespace(device="cpu"), head)._whole([9])
