import json
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer

from vlbench import hub
from vlbench.check import check_adapter
from vlbench.errors import CannotDo, SpecError, WeightsError
from vlbench.resolve import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
HfText = load_object("hf_text:HfText", [FOLDER])
CPU = torch.device("cpu")
TEXTS = ["A cat sat on the mats!", "two dogs", "the cat"]
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat two dog dogs , ! ##s"
TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT = {**TINY, "intermediate_size": 32, "max_position_embeddings": 16}


def save(folder, model, **options):
    """Write a model whose weights are large enough for every one of them to matter."""
    rng = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data += 0.3 * torch.randn(weight.shape, generator=rng)
    model.save_pretrained(folder, **options)
    return str(folder)


def write_vocabulary(folder):
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS.split()))
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write_vocabulary(tmp_path_factory.mktemp("models") / "bert")
    config = transformers.BertConfig(vocab_size=len(WORDS.split()), **BERT)
    return save(folder, transformers.BertForMaskedLM(config))


@pytest.fixture(scope="module")
def bare_bert(tmp_path_factory, bert):
    """An encoder saved by itself, without its head, in half precision."""
    folder = write_vocabulary(tmp_path_factory.mktemp("models") / "bare")
    return save(folder, transformers.BertModel.from_pretrained(bert).half())


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """Saved with its language-model head, as the original is."""
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    folder.mkdir()
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


def test_half_precision_is_loaded_in_full(bare_bert):
    model = HfText(device=CPU, architecture=bare_bert).model
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_attention_is_eager(bert):
    assert HfText(device=CPU, architecture=bert).model.config._attn_implementation == "eager"


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_missing_weight_is_named(name, request, tmp_path):
    folder = Path(request.getfixturevalue(name))
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    state = load_file(folder / "model.safetensors")
    lost = next(key for key in state if "attn.c_attn.weight" in key or "query.weight" in key)
    kept = {k: v for k, v in state.items() if k != lost}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeightsError, match=f"lacks 1 weights: .*{lost.partition('.')[2]}"):
        HfText(device=CPU, weights=str(tmp_path))


def test_weights_of_another_size_are_refused(bert, tmp_path):
    for file in Path(bert).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 8}))
    with pytest.raises(WeightsError, match="cannot be loaded"):
        HfText(device=CPU, architecture=str(tmp_path))


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
    with pytest.raises(CannotDo, match="has a decoder behind its encoder"):
        HfText(device=CPU, architecture=str(tmp_path))


def test_a_tokenizer_without_offsets_is_refused(tmp_path):
    transformers.CTRLConfig(n_embd=16, n_layer=1, n_head=2).save_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "cat</w>": 1}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a\n")
    with pytest.raises(WeightsError, match="no fast tokenizer"):
        HfText(device=CPU, architecture=str(tmp_path))


def test_an_absent_folder_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"no folder of weights at .*nowhere"):
        HfText(device=CPU, weights=str(tmp_path / "nowhere"))


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(WeightsError, match=f"{tmp_path.name} cannot be loaded"):
        HfText(device=CPU, weights=str(tmp_path))


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_offline_names_the_download_and_the_way_around_it(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = (
        r"^bert-base-uncased, revision 86b5, cannot be downloaded .*: --model-args weights=PATH$"
    )
    with pytest.raises(WeightsError, match=message):
        HfText(device=CPU, revision="86b5")


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_cannot_be_reached_is_asked_for_nothing(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(WeightsError, match="from the hub: the hub cannot be reached"):
        HfText(device=CPU)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_contract_holds(name, request):
    model = HfText(device=CPU, architecture=request.getfixturevalue(name))
    without = ["MaskedLanguageModel"] if name == "gpt2" else []
    findings = check_adapter(model, without=without)
    assert [finding for finding in findings if not finding.ok] == []
