import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from vlbench.probes.question_generation.bert_gen import additive, left_to_right, one_pass

# X of one token and padding beside X of two.
VALID = torch.tensor([[True, False], [True, True]])
KINDS = [torch.float32, torch.float16, torch.bfloat16]


def drawn(*rows):
    """Return a mask from rows of # for what is seen and . for what is not."""
    return [[cell == "#" for cell in row] for row in rows]


def test_a_question_sees_x_and_what_stands_before_it():
    # Columns: two of X, then two of the question.
    padded, whole = left_to_right(VALID, 2).tolist()
    assert padded == drawn("#...", "#...", "#.#.", "#.##")
    assert whole == drawn("##..", "##..", "###.", "####")


def test_in_one_pass_each_mask_sees_the_tokens_before_its_place_and_itself():
    # Columns: two of X, y_1 and y_2, m_1 to m_3.
    padded, whole = one_pass(VALID, 3).tolist()
    of_x, of_question = ("##.....", "##....."), ("###....", "####...")
    assert whole == drawn(*of_x, *of_question, "##..#..", "###..#.", "####..#")
    assert padded == [[row[0], False, *row[2:]] for row in whole]


def test_a_question_of_one_token_is_predicted_from_x_alone():
    assert one_pass(VALID, 1).tolist() == [drawn("#..", "#..", "#.#"), drawn("##.", "##.", "###")]
    assert left_to_right(VALID, 0).tolist() == [drawn("#.", "#."), drawn("##", "##")]


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_a_mask_sees_in_one_pass_what_the_same_place_sees_from_left_to_right(tokens):
    n = VALID.shape[1]
    found, expected = one_pass(VALID, tokens), left_to_right(VALID, tokens)
    for t in range(tokens):
        place = n + tokens - 1 + t
        own = [*range(n + t), place]
        assert torch.equal(found[:, place][:, own], expected[:, n + t, : n + t + 1])
        assert found[:, place].sum(1).tolist() == expected[:, n + t].sum(1).tolist()


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_not_seen_gets_no_attention_and_no_row_is_empty(dtype):
    sees = one_pass(VALID, 3)
    mask = additive(sees, dtype)
    assert (mask.dtype, mask.shape) == (dtype, (2, 1, 7, 7))
    scores = torch.randn(2, 1, 7, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    attention = (scores + mask).softmax(-1)[:, 0]
    assert torch.equal(attention > 0, sees)


def test_the_sum_attends_as_the_library_does_with_who_sees_whom():
    rng = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 7, 8, generator=rng)
    sees = one_pass(VALID, 3)
    found, expected = (
        scaled_dot_product_attention(query, key, value, attn_mask=mask)
        for mask in (additive(sees, torch.float32), sees[:, None])
    )
    torch.testing.assert_close(found, expected)
