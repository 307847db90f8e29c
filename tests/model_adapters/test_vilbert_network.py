import json

import pytest
import torch
from ported import near
from safetensors.torch import load_file
from tiny_joint import adapter
from transformers import BertConfig

from vlbench.adapter_kit.bert_ports import run_layers

NAMES = ("Network", "Inputs", "fill_sizes", "MATCH", "RETRIEVAL")
Network, Inputs, fill_sizes, MATCH, RETRIEVAL = (
    adapter(f"vilbert_network:{name}") for name in NAMES
)
HEADS = {"pretraining": MATCH, "vltasks": RETRIEVAL, "vltasks_tasktoken": RETRIEVAL}


@pytest.fixture(params=HEADS)
def original(request, real_data):
    """What the original network gave, and the port with its weights and what it read."""
    files, name = real_data / "ports/vilbert", request.param
    config = BertConfig(**json.loads((files / "config.json").read_text()))
    config._attn_implementation = "eager"
    task = 7 if name == "vltasks_tasktoken" else None
    network = Network(fill_sizes(config), HEADS[name], task).eval()
    weights = "weights_pretraining.pt" if name == "pretraining" else "weights.pt"
    state = torch.load(files / weights, weights_only=True)
    assert network.load_state_dict(state, strict=False).missing_keys == []
    given, outputs = (load_file(files / f"{what}.safetensors") for what in ("inputs", "outputs"))
    mask = given["attention_mask"]
    mask = mask if task is None else torch.cat([mask[:, :1], mask], 1)
    regions = (given["features"], given["spatials"], given["image_mask"])
    own = {k.partition(".")[2]: v for k, v in outputs.items() if k.startswith(f"{name}.")}
    with torch.no_grad():
        yield network, Inputs(given["input_ids"], mask, *regions), own


def test_embeddings_last_states_and_pooled_vectors_are_the_originals(original):
    network, inputs, outputs = original
    text, image = network.embed(inputs)
    near(text, outputs["text_embeddings"])
    near(image, outputs.get("image_embeddings", image))
    found = network(inputs)
    near(found.text, outputs["sequence_output_text"])
    near(found.image, outputs["sequence_output_image"])
    text, image = network.pooled(found)
    near(text, outputs["pooled_text"])
    near(image, outputs["pooled_image"])


def test_each_connection_gives_what_the_originals_gives(original):
    network, inputs, outputs = original
    joined = network(inputs).connections
    assert len(joined) == 2
    for i, ours in enumerate(joined):
        near(ours.text, outputs[f"connection.{i}.text"])
        near(ours.image, outputs[f"connection.{i}.image"])


@pytest.mark.parametrize("original", ["pretraining", "vltasks"], indirect=True)
def test_each_layer_gives_what_the_originals_gives(original):
    network, inputs, outputs = original
    found = network(inputs)
    near(
        torch.stack(found.text_layers), torch.stack([outputs[f"text_layer.{i}"] for i in range(3)])
    )
    near(
        torch.stack(found.image_layers), torch.stack([outputs[f"image_layer.{i}"] for i in (0, 1)])
    )


@pytest.mark.parametrize("original", ["vltasks"], indirect=True)
def test_attention_between_and_inside_the_streams_is_the_originals(original):
    network, inputs, outputs = original
    for i, ours in enumerate(network(inputs).connections):
        near(ours.to_regions, outputs[f"coattention.{i}.text_queries_image_keys"])
        near(ours.to_words, outputs[f"coattention.{i}.image_queries_text_keys"])
    encoder, (text, _) = network.bert["encoder"], network.embed(inputs)
    image = network(inputs).connections[0].image
    words = run_layers(encoder["layer"][:1], text, inputs.text_mask)
    regions = run_layers(encoder["v_layer"][:1], image, inputs.image_mask)
    near(words.attentions[0], outputs["text_attention.0"])
    near(regions.attentions[0], outputs["image_attention.0"])


@pytest.mark.parametrize("original", ["vltasks", "vltasks_tasktoken"], indirect=True)
def test_the_score_of_retrieval_is_the_originals_logit(original):
    network, inputs, outputs = original
    near(network.scores(network(inputs)), outputs["vil_logit"][:, 0])


def test_sizes_that_a_configuration_lacks_are_the_published():
    found = fill_sizes(BertConfig(v_hidden_size=20))
    assert (found.v_hidden_size, found.bi_hidden_size, found.v_num_hidden_layers) == (20, 1024, 6)
    assert found.t_biattention_id == [6, 7, 8, 9, 10, 11]
