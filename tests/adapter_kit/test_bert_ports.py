import pytest
import torch
import transformers
from ported import tiny_folder
from tiny_joint import CPU, TINY, save
from torch import nn

from vlbench.adapter_kit.bert_ports import BertPort, bert_layers, bert_part, hide, run_layers
from vlbench.errors import CannotDo, WeightsError
from vlbench.system import hub

F32 = torch.float32
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


@pytest.fixture
def bert(tmp_path):
    save(tmp_path, transformers.BertModel(transformers.BertConfig(**TINY)))
    return transformers.BertModel.from_pretrained(tmp_path, attn_implementation="eager")


def port(folder, weights="random", seed=0):
    return BertPort(str(folder), "main", weights, "example.org", seed)


def test_layers_give_what_the_library_gives(bert):
    ids = torch.tensor([[2, 11, 13, 3], [2, 3, 0, 0]])
    with torch.no_grad():
        theirs = bert(ids, MASK, output_hidden_states=True, output_attentions=True)
        found = run_layers(bert.encoder.layer, bert.embeddings(ids), MASK)
    for i, states in enumerate(found.states):
        torch.testing.assert_close(states, theirs.hidden_states[i + 1])
        torch.testing.assert_close(found.attentions[i], theirs.attentions[i])


def test_what_is_hidden_gets_no_attention():
    added = hide(MASK, F32)
    assert added.shape == (2, 1, 1, 4)
    assert added[1].flatten().softmax(0).tolist() == [0.5, 0.5, 0, 0]


def test_parts_have_the_names_and_the_sizes_of_bert(bert):
    assert bert_layers(bert.config).state_dict().keys() == bert.encoder.layer.state_dict().keys()
    words = bert_part("BertEmbeddings", bert.config).word_embeddings
    assert words.weight.shape == (TINY["vocab_size"], TINY["hidden_size"])


def test_a_network_is_opened_frozen_with_the_weights_of_its_file(tmp_path):
    folder = tiny_folder(tmp_path)
    torch.save({}, tmp_path / "w.pt")
    state = {"weight": torch.eye(3), "bias": torch.ones(3)}
    opened = port(folder, str(tmp_path / "w.pt")).open(
        lambda: nn.Linear(3, 3), state, CPU, torch.float16
    )
    assert torch.equal(opened.weight, torch.eye(3).half())
    assert not opened.training
    assert not opened.weight.requires_grad


def test_weights_that_do_not_fit_are_named(tmp_path):
    torch.save({}, tmp_path / "w.pt")
    opened = port(tiny_folder(tmp_path), str(tmp_path / "w.pt"))
    with pytest.raises(WeightsError, match=r"w\.pt does not fit Linear; 1 missing: bias$"):
        opened.open(lambda: nn.Linear(3, 3), {"weight": torch.eye(3)}, CPU, F32)


def test_drawn_weights_are_normal_and_biases_zero_as_in_bert(tmp_path):
    before = torch.get_rng_state()
    folder = tiny_folder(tmp_path, initializer_range=0.5)
    drawn = [port(folder, seed=i).open(lambda: nn.Linear(99, 99), {}, CPU, F32) for i in (0, 0, 1)]
    assert torch.equal(drawn[0].weight, drawn[1].weight)
    assert not torch.equal(drawn[0].weight, drawn[2].weight)
    assert drawn[0].weight.std().item() == pytest.approx(0.5, rel=0.03)
    assert not drawn[0].bias.any()
    assert torch.equal(torch.get_rng_state(), before)


def test_an_absent_file_is_named_with_where_to_get_it(tmp_path):
    message = (
        r"no file of weights at gone\.pt; where to get it: example\.org; give .* weights=PATH$"
    )
    with pytest.raises(WeightsError, match=message):
        port(tiny_folder(tmp_path), "gone.pt")


def test_a_configuration_of_another_type_is_refused(tmp_path):
    transformers.GPT2Config().save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="is a model of type gpt2; this adapter reads type bert"):
        port(tmp_path)


def test_offline_the_configuration_can_be_a_folder(monkeypatch):
    monkeypatch.setattr(hub, "is_offline", lambda: True)
    message = r"^no/bert, revision main, cannot be downloaded .* --model-args architecture=FOLDER$"
    with pytest.raises(WeightsError, match=message):
        port("no/bert")


def test_sizes_that_no_network_has_are_refused_with_the_folder(tmp_path):
    opened = port(tiny_folder(tmp_path, hidden_size=17))
    with pytest.raises(
        WeightsError,
        match=rf"^{tmp_path} does not describe a network that this adapter can build: The hidden",
    ):
        opened.open(lambda: bert_layers(opened.config), {}, CPU, F32)
