import json

import pytest
import torch
from ported import golden, near, noisy, tiny_folder
from tiny_joint import CPU, SPANS, TEXTS, adapter, broken_promises, picture

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError

Vilbert = adapter("vilbert:Vilbert")
WIDTH = 8
V = {"v_feature_size": WIDTH, "v_hidden_size": 12, "v_num_hidden_layers": 2}
MORE = {"v_num_attention_heads": 3, "v_intermediate_size": 10, "bi_hidden_size": 6}
JOINS = {"bi_num_attention_heads": 2, "v_biattention_id": [0, 1], "t_biattention_id": [1, 2]}
MANY = {"retrieval": True, "task": 7}
LOST = "bert.encoder.c_layer.1.biOutput.dense2.bias"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("vilbert"), **V, **MORE, **JOINS)


@pytest.fixture
def state(folder):
    """The weights of a file of the original code, as training on several tasks leaves them."""
    drawn = [Vilbert(device=CPU, architecture=folder, weights="random", **o) for o in ({}, MANY)]
    merged = drawn[0].network.state_dict() | drawn[1].network.state_dict()
    unused = {"bert.encoder.c_layer.0.biOutput.q_dense1.bias": torch.ones(12)}
    return {**noisy(merged), **unused, "vision_logit.bias": torch.ones(1)}


@pytest.fixture
def load(folder, tmp_path):
    """Return the adapter of a file with these weights."""

    def make(state, **options):
        torch.save(state, tmp_path / "vilbert.bin")
        weights = str(tmp_path / "vilbert.bin")
        return Vilbert(device=CPU, architecture=folder, weights=weights, **options)

    return make


@pytest.fixture
def plain(state):
    """The weights without the tokens of the tasks."""
    return {key: value for key, value in state.items() if "task_embeddings" not in key}


@pytest.fixture(params=["match", "many tasks"])
def model(request, load, state, plain):
    return load(plain) if request.param == "match" else load(state, **MANY)


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


@pytest.fixture
def original(real_data, tmp_path):
    """What the original code gave, and the pairs that it read."""
    config = json.loads((real_data / "ports/vilbert/config.json").read_text())
    found = golden(real_data, "vilbert", tmp_path, **config)
    given = found.inputs
    regions = given["features"][:, 1:]
    pictures = found.pictures(regions, given["raw_num_boxes"], given["raw_image_wh"])
    return found, (pictures, found.texts(given["input_ids"]))


def ported(found, weights, **options):
    return Vilbert(
        device=CPU, architecture=found.folder, weights=str(found.files / weights), **options
    )


def test_what_the_network_reads_is_what_the_original_read(original):
    found, pairs = original
    inputs = ported(found, "weights_pretraining.pt")._inputs(*pairs)[0]
    words, rows = inputs.ids.shape[1], inputs.vectors.shape[1]
    assert torch.equal(inputs.ids, found.inputs["input_ids"][:, :words])
    assert torch.equal(inputs.text_mask, found.inputs["attention_mask"][:, :words])
    assert torch.equal(inputs.image_mask, found.inputs["image_mask"][:, :rows])
    near(inputs.vectors, found.inputs["features"][:, :rows])
    near(inputs.boxes, found.inputs["spatials"][:, :rows])


def test_scores_of_pre_training_are_the_originals(original):
    found, pairs = original
    scores = ported(found, "weights_pretraining.pt").score_pairs(*pairs)
    near(scores, found.outputs["pretraining.match_score"])
    alone = found.outputs["pretraining.example1_unpadded_seq_relationship_score"]
    near(scores[1:2], alone.softmax(1)[:, 0])


def test_scores_of_several_tasks_are_the_originals(original):
    found, pairs = original
    scores = ported(found, "weights.pt", **MANY).score_pairs(*pairs)
    near(scores, found.outputs["vltasks_tasktoken.vil_logit"][:, 0])


def test_attention_is_the_originals_to_the_regions_alone(original):
    found, pairs = original
    given = found.inputs["attention_mask"].sum(1)
    names = [f"vltasks.coattention.{i}.text_queries_image_keys" for i in range(2)]
    state = torch.load(found.files / "weights.pt", weights_only=True)
    del state["bert.embeddings.task_embeddings.weight"]
    file = f"{found.folder}/plain.bin"
    torch.save(state, file)
    model = Vilbert(device=CPU, architecture=found.folder, weights=file, retrieval=True)
    for i, ours in enumerate(model.attend(*pairs)):
        regions = pairs[0][i].regions.boxes
        whole = torch.stack([found.outputs[name][i] for name in names])
        theirs = whole[:, :, 1 : given[i] - 1, 1 : 1 + len(regions)]
        near(ours.weights, theirs / theirs.sum(-1, keepdim=True))
        assert torch.equal(ours.boxes, regions)


def test_label_0_is_a_match(load, plain, pictures):
    plain["cls.bi_seq_relationship.weight"] = torch.zeros(2, 6)
    plain["cls.bi_seq_relationship.bias"] = torch.tensor([2.0, 0.0])
    found = load(plain).score_pairs(pictures, TEXTS)
    torch.testing.assert_close(found, torch.full((3,), 2.0).sigmoid())


def test_a_larger_logit_is_a_better_match(load, state, pictures):
    low, high = (
        load({**state, "vil_logit.bias": torch.tensor([bias])}, **MANY).score_pairs(pictures, TEXTS)
        for bias in (0.0, 2.0)
    )
    torch.testing.assert_close(high, low + 2)


def test_the_token_of_the_task_changes_scores(load, state, pictures):
    coco, flickr = (load(state, retrieval=True, task=task) for task in (7, 8))
    scores = [one.score_pairs(pictures, TEXTS) for one in (coco, flickr)]
    assert not torch.allclose(*scores)


def test_rows_of_attention_are_the_words_after_the_token_of_the_task(load, state, pictures):
    model = load(state, **MANY)
    inputs = model._inputs(pictures[:1], TEXTS[1:2])[0]
    words, regions = slice(2, 4), slice(1, None)
    joined = model.network(inputs).connections
    whole = torch.stack([one.to_regions[0, :, words, regions] for one in joined])
    found = model.attend(pictures[:1], TEXTS[1:2])[0].weights
    near(found, whole / whole.sum(-1, keepdim=True))


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        assert alone.spans == together[i].spans
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(
            model.score_pairs([seen], [text]), scores[i : i + 1], rtol=1e-4, atol=1e-6
        )


def test_spans_are_those_of_the_words_alone(model, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    assert found.spans == SPANS
    assert found.weights.shape == (2, 2, 2, 5)
    assert not found.whole


def test_attention_is_shared_among_regions_alone(model, pictures):
    for one in model.attend(pictures, TEXTS):
        torch.testing.assert_close(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]))


def test_regions_in_another_order_get_their_own_attention(model, pictures):
    seen, order = pictures[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)


def test_regions_of_another_width_are_refused_with_both_widths(model, pictures):
    with pytest.raises(DataError, match=r"picture 1 .* 9 wide; the model reads 8$"):
        model.attend([pictures[0], picture(2, 9)], TEXTS[:2])


def test_a_picture_of_no_regions_is_refused(model, pictures):
    with pytest.raises(DataError, match=r"picture 1 of the batch has no regions$"):
        model.attend([pictures[0], picture(0, WIDTH)], TEXTS[:2])


@pytest.mark.parametrize(("options", "most"), [({}, 16), ({"limit": 6}, 6)])
def test_what_passes_the_limit_is_cut_and_counted(load, plain, pictures, options, most):
    model = load(plain, **options)
    assert model.context_length == most
    assert model.count_tokens(["a cat", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == most - 2


def test_a_missing_weight_is_named(load, plain):
    del plain[LOST]
    with pytest.raises(
        WeightsError, match=rf"vilbert\.bin does not fit Network; 1 missing: {LOST}$"
    ):
        load(plain)


def test_a_weight_of_another_shape_is_named(load, plain):
    with pytest.raises(WeightsError, match=rf"1 of another shape: {LOST} \(3,\), not \(16,\)"):
        load({**plain, LOST: torch.ones(3)})


def test_the_tokens_of_tasks_are_not_dropped(load, state):
    with pytest.raises(WeightsError, match=r"1 unexpected: bert\.embeddings\.task_embeddings"):
        load(state)


def test_a_file_without_tokens_of_tasks_has_none(load, plain):
    with pytest.raises(WeightsError, match=r"1 missing: bert\.embeddings\.task_embeddings"):
        load(plain, **MANY)


def test_streams_that_do_not_meet_are_refused(tmp_path):
    folder = tiny_folder(tmp_path, **V, **MORE, **JOINS | {"v_biattention_id": [0]})
    with pytest.raises(WeightsError, match="describes no such network: zip"):
        Vilbert(device=CPU, architecture=folder, weights="random")


@pytest.mark.parametrize("task", [-1, 20])
def test_a_task_that_no_file_has_a_token_of_is_refused(load, state, task):
    with pytest.raises(SpecError, match=rf"task {task} is outside 0\.\.19"):
        load(state, task=task)


@pytest.mark.parametrize(
    ("options", "head"), [({}, "cls.bi_seq_relationship"), ({"retrieval": True}, "vil_logit")]
)
def test_a_file_without_the_head_attends_and_scores_nothing(load, plain, pictures, options, head):
    model = load({key: value for key, value in plain.items() if head not in key}, **options)
    assert model.attend(pictures[:1], TEXTS[:1])[0].weights.shape[-1] == 3
    with pytest.raises(CannotDo, match=f"this checkpoint has no head {head}"):
        model.score_pairs(pictures[:1], TEXTS[:1])


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Vilbert(device=CPU, architecture=folder, weights="random", retrieval=True, init_seed=seed)
        .attend(pictures, TEXTS)[0]
        .weights
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model, region_width=WIDTH) == []
