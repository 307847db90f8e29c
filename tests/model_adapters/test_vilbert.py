"""What ViLBERT does as no other port; the rest is in test_ports.py."""

import pytest
import torch
from ported import near, tiny_folder
from ports import MANY, OF_TASKS, VILBERT, WIDTH, vilbert_original
from tiny_joint import CPU, TEXTS, picture

from vlbench.errors import CannotDo, SpecError, WeightsError

PICTURES = [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


@pytest.fixture
def state(tmp_path):
    """The weights of a file of the original code, as training on several tasks leaves them."""
    return OF_TASKS.state(tmp_path)


@pytest.fixture
def plain(state):
    """The weights without the tokens of the tasks."""
    return {key: value for key, value in state.items() if "task_embeddings" not in key}


@pytest.fixture
def original(real_data, tmp_path):
    return vilbert_original(real_data, tmp_path)


def ported(found, weights, **options):
    weights = str(found.files / weights)
    return VILBERT.model(device=CPU, architecture=found.folder, weights=weights, **options)


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
    near(scores.sigmoid(), found.outputs["pretraining.match_score"])
    alone = found.outputs["pretraining.example1_unpadded_seq_relationship_score"]
    near(scores[1:2], alone[:, 0] - alone[:, 1])


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
    model = VILBERT.model(device=CPU, architecture=found.folder, weights=file, retrieval=True)
    for i, ours in enumerate(model.attend(*pairs)):
        regions = pairs[0][i].regions.boxes
        whole = torch.stack([found.outputs[name][i] for name in names])
        theirs = whole[:, :, 1 : given[i] - 1, 1 : 1 + len(regions)]
        near(ours.weights, theirs / theirs.sum(-1, keepdim=True))
        assert torch.equal(ours.boxes, regions)


def test_the_token_of_the_task_changes_scores(tmp_path, state):
    models = [OF_TASKS.load(tmp_path, state, task=task) for task in (7, 8)]
    assert not torch.allclose(*[model.score_pairs(PICTURES, TEXTS) for model in models])


def test_rows_of_attention_are_the_words_after_the_token_of_the_task(tmp_path, state):
    model = OF_TASKS.load(tmp_path, state)
    inputs = model._inputs(PICTURES[:1], TEXTS[1:2])[0]
    words, regions = slice(2, 4), slice(1, None)
    joined = model.network(inputs).connections
    whole = torch.stack([one.to_regions[0, :, words, regions] for one in joined])
    found = model.attend(PICTURES[:1], TEXTS[1:2])[0].weights
    near(found, whole / whole.sum(-1, keepdim=True))


def test_a_file_of_several_tasks_names_the_argument_that_says_which(tmp_path, state):
    message = r"has heads for several tasks; choose one with task=N \(7 for"
    with pytest.raises(WeightsError, match=message):
        VILBERT.load(tmp_path, state)


def test_a_file_without_tokens_of_tasks_has_none(tmp_path, plain):
    with pytest.raises(WeightsError, match=r"1 missing: bert\.embeddings\.task_embeddings"):
        OF_TASKS.load(tmp_path, plain)


def test_retrieval_needs_a_head_of_its_own(tmp_path, plain):
    kept = {key: value for key, value in plain.items() if "vil_logit" not in key}
    model = VILBERT.load(tmp_path, kept, retrieval=True)
    with pytest.raises(CannotDo, match=r"this checkpoint has no head vil_logit$"):
        model.score_pairs(PICTURES[:1], TEXTS[:1])


def test_streams_that_do_not_meet_are_refused(tmp_path):
    tiny_folder(tmp_path, **VILBERT.config | {"v_biattention_id": [0]})
    message = "does not describe a network that this adapter can build: zip"
    with pytest.raises(WeightsError, match=message):
        VILBERT.drawn(tmp_path)


@pytest.mark.parametrize("task", [-1, 20])
def test_a_task_that_no_file_has_a_token_of_is_refused(tmp_path, state, task):
    with pytest.raises(SpecError, match=rf"task {task} is outside 0\.\.19"):
        VILBERT.load(tmp_path, state, task=task)


@pytest.mark.parametrize(("retrieval", "kind"), [(False, "logit"), (True, "ranking_logit")])
@pytest.mark.usefixtures("state")
def test_it_says_what_kind_of_number_its_score_is(tmp_path, retrieval, kind):
    assert VILBERT.drawn(tmp_path, retrieval=retrieval).score_kind == kind
