import logging

import pytest
import torch
import transformers
from tiny_joint import CPU, TEXTS, adapter, save

from vlbench.errors import CannotDo, SpecError, UnknownNameError

HfText = adapter("hf_text:HfText")


@pytest.fixture
def bert(opened):
    return opened("bert").folder


@pytest.fixture
def bare_bert(tmp_path, bert):
    """An encoder saved by itself, without its head, in half precision."""
    encoder = transformers.BertModel.from_pretrained(bert).half()
    return save(tmp_path, encoder)


@pytest.fixture
def gpt2(opened):
    return opened("gpt2").folder


def words(text, tokens):
    return [text[start:end] for start, end in tokens.spans]


def test_bert_gives_the_library_s_last_hidden_state(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["a cat sat"])[0]
    library = transformers.AutoModel.from_pretrained(bert)
    ids = transformers.AutoTokenizer.from_pretrained(bert)("a cat sat", return_tensors="pt")
    expected = library(**ids).last_hidden_state[0, 1:-1]
    torch.testing.assert_close(tokens.vectors, expected.detach())


def test_gpt2_gives_its_last_hidden_state_and_spans_without_blanks(gpt2):
    tokens = HfText(device=CPU, architecture=gpt2).encode_tokens(["the cat sat"])[0]
    library = transformers.GPT2Model.from_pretrained(gpt2)
    ids = transformers.AutoTokenizer.from_pretrained(gpt2)("the cat sat", return_tensors="pt")
    expected = library(**ids).last_hidden_state[0]
    torch.testing.assert_close(tokens.vectors, expected.detach())
    assert words("the cat sat", tokens) == ["the", "cat", "sat"]


@pytest.mark.parametrize("layer", [0, 1, 2, -3])
def test_a_layer_gives_its_hidden_states(layer, bert):
    tokens = HfText(device=CPU, architecture=bert, layer=layer).encode_tokens(["a cat"])[0]
    library = transformers.AutoModel.from_pretrained(bert)
    ids = transformers.AutoTokenizer.from_pretrained(bert)("a cat", return_tensors="pt")
    expected = library(**ids, output_hidden_states=True).hidden_states[layer][0, 1:-1]
    torch.testing.assert_close(tokens.vectors, expected.detach())


def hidden_states(folder, texts):
    """Return the library's hidden states [1, T, D] of each text at each layer."""
    library = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        read = [tokenizer(text, return_tensors="pt") for text in texts]
        return [library(**one, output_hidden_states=True).hidden_states for one in read]


def test_all_layers_of_texts_are_means_of_the_librarys_hidden_states(bert):
    model, texts = HfText(device=CPU, architecture=bert), ["a cat", "the dog sat on the mat"]
    names = model.text_layers()
    assert names == ["layer0_mean", "layer1_mean", "output"]
    found = model.encode_texts_at(texts, names)
    states = hidden_states(bert, texts)
    for number, name in enumerate(names):
        expected = torch.stack([one[number][0, 1:-1].mean(0) for one in states])
        torch.testing.assert_close(found[name], expected)
    assert torch.equal(found["output"], model.encode_texts(texts))


def test_layers_of_tokens_are_the_librarys_and_few_may_be_asked_for(gpt2):
    model, texts = HfText(device=CPU, architecture=gpt2), ["a cat", "the dog sat on the mat"]
    *_, last, output = model.text_layers()
    found = model.encode_tokens_at(texts, [output, last])
    assert list(found) == [output, last]
    for name, place in ((last, -2), (output, -1)):
        for tokens, states in zip(found[name], hidden_states(gpt2, texts), strict=True):
            torch.testing.assert_close(tokens.vectors, states[place][0])


@pytest.mark.parametrize(("layer", "names"), [(0, []), (1, ["layer0_mean"]), (-2, ["layer0_mean"])])
def test_layers_end_where_the_model_is_read(bert, layer, names):
    model = HfText(device=CPU, architecture=bert, layer=layer)
    assert model.text_layers() == [*names, "output"]
    with pytest.raises(UnknownNameError, match="no layer is named 'layer2_mean'"):
        model.encode_texts_at(["a cat"], ["layer2_mean"])


def test_layers_are_means_over_what_the_output_is_the_mean_of(bert):
    model = HfText(device=CPU, architecture=bert, pooling="attended")
    found = model.encode_texts_at(["a cat"], ["layer1_mean"])["layer1_mean"]
    torch.testing.assert_close(found, hidden_states(bert, ["a cat"])[0][1].mean(1))


@pytest.mark.parametrize("layer", [3, -4])
def test_a_layer_that_is_not_there_is_refused(layer, bert):
    with pytest.raises(SpecError, match=rf"layer {layer} is outside -3\.\.2"):
        HfText(device=CPU, architecture=bert, layer=layer)


def test_berts_spans_are_its_word_pieces(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["A  cat sat, mats!"])[0]
    assert tokens.spans == [(0, 1), (3, 6), (7, 10), (10, 11), (12, 15), (15, 16), (16, 17)]


def test_a_token_of_white_space_keeps_its_span(gpt2):
    tokens = HfText(device=CPU, architecture=gpt2).encode_tokens(["the  cat"])[0]
    assert words("the  cat", tokens) == ["the", " ", "cat"]


def test_a_text_that_reads_like_a_special_token_has_a_span(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["a [MASK]"])[0]
    assert words("a [MASK]", tokens) == ["a", "[MASK]"]


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_text_is_the_mean_of_its_own_tokens(name, request):
    model = HfText(device=CPU, architecture=request.getfixturevalue(name))
    expected = torch.stack([tokens.vectors.mean(0) for tokens in model.encode_tokens(TEXTS)])
    torch.testing.assert_close(model.encode_texts(TEXTS), expected)


def test_an_empty_text_is_the_mean_of_berts_special_tokens(bert):
    model = HfText(device=CPU, architecture=bert)
    library = transformers.AutoModel.from_pretrained(bert)
    expected = library(torch.tensor([[2, 3]])).last_hidden_state.mean(1).detach()
    torch.testing.assert_close(model.encode_texts(["", "a cat"])[:1], expected)
    assert model.encode_tokens([""])[0].spans == []


def test_an_empty_text_is_gpt2s_end_of_text(gpt2):
    model = HfText(device=CPU, architecture=gpt2)
    expected = transformers.GPT2Model.from_pretrained(gpt2)(torch.tensor([[0]]))[0][0].detach()
    torch.testing.assert_close(model.encode_texts([""]), expected)
    assert model.encode_tokens([""])[0].vectors.shape == (0, 16)


def test_the_masked_language_model_is_the_checkpoints(bert):
    tokenizer, module = HfText(device=CPU, architecture=bert).masked_lm()
    library = transformers.BertForMaskedLM.from_pretrained(bert).eval()
    ids = tokenizer("a [MASK] sat", return_tensors="pt")
    torch.testing.assert_close(module(**ids).logits, library(**ids).logits.detach())
    assert not module.training


def test_a_checkpoint_without_the_head_encodes_and_fills_no_masks(bare_bert, caplog):
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    model = HfText(device=CPU, architecture=bare_bert)
    logger.removeHandler(caplog.handler)
    assert caplog.messages == []
    library = transformers.BertModel.from_pretrained(bare_bert, dtype=torch.float32)
    expected = library(torch.tensor([[2, 5, 6, 3]])).last_hidden_state[0, 1:-1]
    torch.testing.assert_close(model.encode_tokens(["a cat"])[0].vectors, expected.detach())
    with pytest.raises(CannotDo, match="no masked-language-model head"):
        model.masked_lm()


def test_a_text_is_the_mean_over_all_attended_tokens_if_asked(bert):
    model = HfText(device=CPU, architecture=bert, pooling="attended")
    texts = ["a cat sat", "a", ""]
    library = transformers.AutoModel.from_pretrained(bert)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    one_by_one = [library(**tokenizer(text, return_tensors="pt")) for text in texts]
    expected = torch.cat([output.last_hidden_state.mean(1) for output in one_by_one])
    torch.testing.assert_close(model.encode_texts(texts), expected.detach())


def test_gpt2_fills_no_masks(gpt2):
    with pytest.raises(CannotDo, match="no masked-language-model head"):
        HfText(device=CPU, architecture=gpt2).masked_lm()


def test_random_weights_have_the_head(bert):
    module = HfText(device=CPU, architecture=bert, weights="random").masked_lm()[1]
    assert type(module) is transformers.BertForMaskedLM


def test_an_encoder_with_a_decoder_is_refused(tmp_path):
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 17}
    transformers.BartConfig(**sizes).save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="has an encoder and a decoder"):
        HfText(device=CPU, architecture=str(tmp_path))
