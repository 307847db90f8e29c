import pytest

from vlbench.data.words import last_token, tokens_at, word_spans
from vlbench.errors import DataError

SPANS = [(0, 1), (2, 5), (5, 7), (8, 12)]


def test_each_word_is_found_after_the_one_before_it():
    assert word_spans("a cat, a hat", ["a", "cat", ",", "a", "hat"]) == [
        (0, 1),
        (2, 5),
        (5, 6),
        (7, 8),
        (9, 12),
    ]


def test_a_word_that_the_text_lacks_is_named_with_its_place():
    with pytest.raises(DataError, match="caption 'a cat' has no word 'a' after character 5"):
        word_spans("a cat", ["a", "cat", "a"])


@pytest.mark.parametrize(
    ("start", "stop", "tokens"), [(2, 7, [1, 2]), (1, 2, []), (4, 9, [1, 2, 3]), (12, 20, [])]
)
def test_tokens_overlap_the_characters(start, stop, tokens):
    assert tokens_at(SPANS, start, stop) == tokens
    assert last_token(SPANS, start, stop) == (tokens[-1] if tokens else None)
