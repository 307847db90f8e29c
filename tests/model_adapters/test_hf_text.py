import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_joint import CPU, TEXTS, TINY, adapter, broken_promises, copy_without, save
from tokenizers import ByteLevelBPETokenizer

from vlbench.errors import CannotDo, SpecError, WeightsError

HfText = adapter("hf_text:HfText")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    config = transformers.BertConfig(**TINY)
    return save(tmp_path_factory.mktemp("bert"), transformers.BertForMaskedLM(config))


@pytest.fixture(scope="module")
def bare_bert(tmp_path_factory, bert):
    """An encoder saved by itself, without its head, in half precision."""
    encoder = transformers.BertModel.from_pretrained(bert).half()
    return save(tmp_path_factory.mktemp("bare"), encoder)


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """Saved with its language-model head, as the original is."""
    folder = tmp_path_factory.mktemp("gpt2")
    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([*TEXTS, "a cat"] * 2, special_tokens=["<|endoftext|>"], vocab_size=280)
    bpe.save_model(str(folder))
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = transformers.GPT2Config(vocab_size=bpe.get_vocab_size(), **sizes, **ends)
    return save(folder, transformers.GPT2LMHeadModel(config))


def words(text, tokens):
    return [text[start:end] for start, end in tokens.spans]


def test_bert_gives_the_library_s_last_hidden_state(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["a cat sat"])[0]
    library = transformers.AutoModel.from_pretrained(bert)
    ids = transformers.AutoTokenizer.from_pretrained(bert)("a cat sat", return_tensors="pt")
    expected = library(**ids).last_hidden_state[0, 1:-1]
    torch.testing.assert_close(tokens.vectors, expected.detach())


def test_gpt2_gives_the_library_s_last_hidden_state(gpt2):
    tokens = HfText(device=CPU, architecture=gpt2).encode_tokens(["the cat sat"])[0]
    library = transformers.GPT2Model.from_pretrained(gpt2)
    ids = transformers.AutoTokenizer.from_pretrained(gpt2)("the cat sat", return_tensors="pt")
    expected = library(**ids).last_hidden_state[0]
    torch.testing.assert_close(tokens.vectors, expected.detach())


@pytest.mark.parametrize("layer", [0, 1, 2, -3])
def test_a_layer_gives_its_hidden_states(layer, bert):
    tokens = HfText(device=CPU, architecture=bert, layer=layer).encode_tokens(["a cat"])[0]
    library = transformers.AutoModel.from_pretrained(bert)
    ids = transformers.AutoTokenizer.from_pretrained(bert)("a cat", return_tensors="pt")
    expected = library(**ids, output_hidden_states=True).hidden_states[layer][0, 1:-1]
    torch.testing.assert_close(tokens.vectors, expected.detach())


@pytest.mark.parametrize("layer", [3, -4])
def test_a_layer_that_is_not_there_is_refused(layer, bert):
    with pytest.raises(SpecError, match=rf"layer {layer} is outside -3\.\.2"):
        HfText(device=CPU, architecture=bert, layer=layer)


def test_berts_spans_are_its_word_pieces(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["A  cat sat, mats!"])[0]
    assert tokens.spans == [(0, 1), (3, 6), (7, 10), (10, 11), (12, 15), (15, 16), (16, 17)]


def test_gpt2s_spans_leave_out_the_space_before_a_word(gpt2):
    tokens = HfText(device=CPU, architecture=gpt2).encode_tokens(["the cat sat"])[0]
    assert words("the cat sat", tokens) == ["the", "cat", "sat"]


def test_a_token_of_white_space_keeps_its_span(gpt2):
    tokens = HfText(device=CPU, architecture=gpt2).encode_tokens(["the  cat"])[0]
    assert words("the  cat", tokens) == ["the", " ", "cat"]


def test_a_text_that_reads_like_a_special_token_has_a_span(bert):
    tokens = HfText(device=CPU, architecture=bert).encode_tokens(["a [MASK]"])[0]
    assert words("a [MASK]", tokens) == ["a", "[MASK]"]


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_padding_does_not_change_vectors(name, request):
    model = HfText(device=CPU, architecture=request.getfixturevalue(name))
    together = model.encode_tokens(TEXTS)
    alone = [model.encode_tokens([text])[0] for text in TEXTS]
    assert [tokens.spans for tokens in together] == [tokens.spans for tokens in alone]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.vectors, other.vectors)


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


def test_what_passes_the_limit_is_cut_and_counted(bert):
    model = HfText(device=CPU, architecture=bert)
    assert model.context_length == 16
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert model.encode_tokens(["cat " * 40])[0].spans == [(4 * i, 4 * i + 3) for i in range(14)]


def test_the_masked_language_model_is_the_checkpoints(bert):
    tokenizer, module = HfText(device=CPU, architecture=bert).masked_lm()
    library = transformers.BertForMaskedLM.from_pretrained(bert).eval()
    ids = tokenizer("a [MASK] sat", return_tensors="pt")
    torch.testing.assert_close(module(**ids).logits, library(**ids).logits.detach())
    assert not module.training


def test_a_checkpoint_without_the_head_encodes_and_fills_no_masks(bare_bert):
    model = HfText(device=CPU, architecture=bare_bert)
    library = transformers.BertModel.from_pretrained(bare_bert, dtype=torch.float32)
    expected = library(torch.tensor([[2, 5, 6, 3]])).last_hidden_state[0, 1:-1]
    torch.testing.assert_close(model.encode_tokens(["a cat"])[0].vectors, expected.detach())
    with pytest.raises(CannotDo, match="no masked-language-model head"):
        model.masked_lm()


def test_gpt2_fills_no_masks(gpt2):
    with pytest.raises(CannotDo, match="no masked-language-model head"):
        HfText(device=CPU, architecture=gpt2).masked_lm()


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_missing_weight_is_named(name, request, tmp_path):
    folder = request.getfixturevalue(name)
    state = load_file(f"{folder}/model.safetensors")
    lost = next(key for key in state if "attn.c_attn.weight" in key or "query.weight" in key)
    with pytest.raises(WeightsError, match=f"lacks 1 weights: .*{lost.partition('.')[2]}"):
        HfText(device=CPU, weights=copy_without(lost, folder, tmp_path))


def test_a_checkpoint_that_lacks_part_of_the_head_fills_no_masks(bert, tmp_path):
    folder = copy_without("cls.predictions.transform.dense.weight", bert, tmp_path)
    model = HfText(device=CPU, weights=folder)
    assert type(model.model) is transformers.BertModel
    with pytest.raises(CannotDo, match="no masked-language-model head"):
        model.masked_lm()


def test_random_weights_obey_their_seed(bert):
    before = torch.get_rng_state()
    drawn = [
        HfText(device=CPU, architecture=bert, weights="random", init_seed=seed)
        for seed in (0, 0, 1)
    ]
    first, same, other = (model.encode_texts(TEXTS) for model in drawn)
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_random_weights_have_the_head(bert):
    module = HfText(device=CPU, architecture=bert, weights="random").masked_lm()[1]
    assert type(module) is transformers.BertForMaskedLM


def test_an_encoder_with_a_decoder_is_refused(tmp_path):
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 17}
    transformers.BartConfig(**sizes).save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="has an encoder and a decoder"):
        HfText(device=CPU, architecture=str(tmp_path))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_contract_holds(name, request):
    model = HfText(device=CPU, architecture=request.getfixturevalue(name))
    without = ["MaskedLanguageModel"] if name == "gpt2" else []
    assert broken_promises(model, without=without) == []
