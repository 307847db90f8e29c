import html

import pytest
import torch
import transformers
from tiny_joint import CPU, TINY, WORDS, write_words
from tokenizers import ByteLevelBPETokenizer

from vlbench.adapter_kit.text import (
    UNLIMITED,
    TextReader,
    clean_text,
    position_limit,
    text_vectors,
    token_span,
    token_vectors,
)
from vlbench.errors import CannotDo


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    transformers.BertConfig(**TINY).save_pretrained(folder)
    return transformers.AutoTokenizer.from_pretrained(write_words(folder))


@pytest.fixture(scope="module")
def without_special_tokens(tmp_path_factory):
    """A tokenizer of GPT-2, which adds no special tokens to a text."""
    folder = tmp_path_factory.mktemp("bpe")
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(["a cat"] * 2, special_tokens=["<|endoftext|>"], vocab_size=270)
    bpe.save_model(str(folder))
    transformers.GPT2Config(vocab_size=270).save_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def test_texts_become_a_padded_batch_with_the_span_of_each_token(words):
    batch, spans = TextReader(words, 16, CPU).read(["two dogs", "A cat!"])
    assert batch["input_ids"].tolist() == [[2, 11, 13, 3, 0], [2, 5, 6, 15, 3]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1, 0], [1] * 5]
    assert spans[0] == [None, (0, 3), (4, 8), None, None]
    assert spans[1] == [None, (0, 1), (2, 5), (5, 6), None]
    assert "offset_mapping" not in batch


def test_a_text_is_cut_to_the_limit_and_counted_whole(words):
    reader = TextReader(words, 5, CPU)
    assert reader.limit == 5
    assert reader.tokens(["cat " * 9])["input_ids"].tolist() == [[2, 6, 6, 6, 3]]
    assert reader.count(["cat " * 9, "cat", ""]) == [11, 3, 2]


def test_the_tokenizers_own_limit_counts_where_it_is_lower(words):
    assert TextReader(words, 10**40, CPU).limit == words.model_max_length


def test_texts_can_be_padded_to_the_limit_without_a_forced_mask(words, monkeypatch):
    monkeypatch.setattr(words, "model_input_names", ["input_ids"])
    batch = TextReader(words, 6, CPU, pad_to_limit=True).tokens(["two dogs"])
    assert {name: ids.tolist() for name, ids in batch.items()} == {
        "input_ids": [[2, 11, 13, 3, 0, 0]]
    }


def test_an_empty_text_has_its_special_tokens(words):
    batch, spans = TextReader(words, 16, CPU).read([""])
    assert batch["input_ids"].tolist() == [[2, 3]]
    assert spans == [[None, None]]


def test_an_empty_text_without_special_tokens_is_the_end_of_a_text(without_special_tokens):
    batch, spans = TextReader(without_special_tokens, 16, CPU).read(["", "cat"])
    assert batch["input_ids"][0, 0] == without_special_tokens.eos_token_id
    assert set(spans[0]) == {None}
    assert TextReader(without_special_tokens, 16, CPU).count([""]) == [0]


def test_a_tokenizer_without_spans_still_makes_batches(words, monkeypatch):
    reader = TextReader(words, 16, CPU)
    monkeypatch.setattr(type(words), "is_fast", False)
    assert reader.tokens(["a cat"])["input_ids"].tolist() == [[2, 5, 6, 3]]
    with pytest.raises(CannotDo, match="no fast tokenizer, so its tokens have no spans"):
        reader.read(["a cat"])


@pytest.mark.parametrize(
    ("start", "end", "span"),
    [(0, 1, (0, 1)), (1, 5, (2, 5)), (1, 2, (1, 2)), (4, 6, (4, 5)), (0, 0, None), (5, 9, None)],
)
def test_a_span_leaves_out_white_space_unless_it_is_all_there_is(start, end, span):
    assert token_span("a cat ", start, end) == span


def test_vectors_are_those_of_the_tokens_with_a_span():
    states = torch.arange(12.0).view(2, 3, 2)
    found = token_vectors(states, [[None, (0, 3), (4, 8)], [None, None, None]])
    assert found[0].spans == [(0, 3), (4, 8)]
    assert found[0].vectors.tolist() == [[2, 3], [4, 5]]
    assert found[1].spans == []
    assert found[1].vectors.shape == (0, 2)


def test_a_text_is_the_mean_of_its_own_tokens_or_of_its_special_ones():
    states = torch.arange(16.0).view(2, 4, 2)
    attended = torch.tensor([[True, True, True, True], [True, True, False, False]])
    found = text_vectors(states, [[None, (0, 3), (4, 8), None], [None] * 4], attended)
    assert found.tolist() == [[3, 4], [9, 10]]


def test_the_vocabulary_of_these_tests_is_read(words):
    assert words.convert_ids_to_tokens([2, 11, 13]) == [WORDS[i] for i in (2, 11, 13)]


def lower(text):
    return " ".join(html.unescape(html.unescape(text)).split()).lower()


CLEANED = [
    ("A  Cat\n", "a cat", ["A", "  ", "C", "a", "t"]),
    ("x&eacute;y", "xéy", ["x", "&eacute;", "y"]),
    ("&lt;b&gt;", "<b>", ["&lt;", "b", "&gt;"]),
    ("a&nbsp;&#98;", "a b", ["a", "&nbsp;", "&#98;"]),
    ("&amp;lt;b", "<b", ["&amp;lt;", "b"]),
    ("AT&T", "at&t", ["A", "T", "&", "T"]),
    ("&nbsp; \t", "", []),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "clean", "sources"), CLEANED)
def test_each_character_of_a_clean_text_knows_what_it_was_made_of(text, clean, sources):
    found = clean_text(text, lower)
    assert found.text == clean
    assert [text[start:end] for start, end in found.characters] == sources


def test_a_span_of_a_clean_text_becomes_one_of_the_text_as_given():
    found = clean_text("A  &lt;Cat&gt;", lower)
    assert (found.given((2, 4)), found.given(None)) == ((3, 8), None)


def test_what_is_not_cleaned_word_by_word_is_aligned_as_a_whole():
    found = clean_text("ab cd ef", lambda text: text.replace("b c", "-"))
    assert [*zip(found.text, found.characters, strict=True)] == [
        ("a", (0, 1)),
        ("-", (1, 4)),
        ("d", (4, 5)),
        (" ", (5, 6)),
        ("e", (6, 7)),
        ("f", (7, 8)),
    ]


def test_characters_beyond_those_compared_have_no_place():
    found = clean_text("ab cd ef " * 200, lambda text: text.replace("b c", "-"))
    assert found.given((1, 2)) == (1, 4)
    assert found.given((600, 601)) is None


def test_what_cleaning_adds_stands_for_the_character_before_it():
    assert clean_text("ab", lambda text: f"{text}!").characters == [(0, 1), (1, 2), (1, 2)]


SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 8, "vocab_size": 20, "max_position_embeddings": 12}
ROBERTAS = ("Roberta", "XLMRoberta", "Camembert", "MPNet", "Longformer", "Data2VecText", "IBert")


def network(kind, **options):
    config = getattr(transformers, f"{kind}Config")(**SMALL | options)
    return getattr(transformers, f"{kind}Model")(config).eval()


@pytest.mark.parametrize("kind", [*ROBERTAS, "Bert", "Electra", "MobileBert"])
def test_a_text_of_the_limit_is_read_and_none_longer(kind):
    options = {"attention_window": 4} if kind == "Longformer" else {}
    model = network(kind, **options)
    limit = position_limit(model, model.config)
    assert limit == (10 if kind in ROBERTAS else 12)
    model(input_ids=torch.full((1, limit), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, 14), 5))


def test_xlnet_and_t5_have_no_limit():
    xlnet = transformers.XLNetConfig(vocab_size=20, d_model=8, n_layer=1, n_head=2, d_inner=8)
    for config in (xlnet, transformers.T5Config()):
        assert position_limit(torch.nn.Identity(), config) == UNLIMITED
