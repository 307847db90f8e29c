import json
import os
from pathlib import Path

import huggingface_hub
import pytest
import torch
import transformers
from hostile_code import write_code
from tiny_joint import CPU, TINY, WORDS, copy_without, save, write_words

from vlbench.adapter_kit.hugging_face import Checkpoint
from vlbench.errors import CannotDo, WeightsError
from vlbench.system import hub

F32 = torch.float32
MASKED = "BertForMaskedLM"
HEAD = "cls.predictions.transform.dense.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    config = transformers.BertConfig(**TINY)
    return save(tmp_path_factory.mktemp("bert"), transformers.BertForMaskedLM(config))


@pytest.fixture
def halved(folder, tmp_path):
    transformers.BertForMaskedLM.from_pretrained(folder).half().save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize("kind", [MASKED, "AutoModelForMaskedLM"])
def test_an_opened_model_is_frozen_eager_and_float32(kind, halved):
    opened = Checkpoint(halved).open(kind, CPU, F32)
    assert type(opened.model) is transformers.BertForMaskedLM
    assert {weight.dtype for weight in opened.model.parameters()} == {F32}
    assert not any(weight.requires_grad for weight in opened.model.parameters())
    assert not any(module.training for module in opened.model.modules())
    assert opened.model.config._attn_implementation == "eager"
    assert opened.config.model_type == "bert"
    assert opened.has()


def test_weights_are_those_of_the_folder_in_the_dtype_asked_for(folder):
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).state_dict()
    found = Checkpoint(folder).open(MASKED, CPU, torch.bfloat16).model.state_dict()
    assert all(torch.equal(found[key], theirs[key].to(found[key].dtype)) for key in theirs)
    assert found[HEAD].dtype == torch.bfloat16


def test_a_folder_of_weights_takes_the_place_of_the_architectures_own(folder):
    opened = Checkpoint("bert-base-uncased", folder).open(MASKED, CPU, F32)
    assert opened.config.vocab_size == len(WORDS)


def test_a_configuration_can_be_given(folder):
    config = transformers.BertConfig(**TINY | {"num_hidden_layers": 1})
    opened = Checkpoint(folder, "random").open(MASKED, CPU, F32, config=config)
    assert len(opened.model.bert.encoder.layer) == 1


def test_a_missing_weight_is_named(folder, tmp_path):
    lost = "bert.encoder.layer.1.output.dense.weight"
    checkpoint = Checkpoint(copy_without(lost, folder, tmp_path))
    for optional in (False, True):
        with pytest.raises(WeightsError, match=rf"{tmp_path.name} lacks 1 weights: {lost}$"):
            checkpoint.open(MASKED, CPU, F32, optional_heads=optional)


def test_a_missing_head_is_an_error_unless_heads_are_optional(folder, tmp_path):
    checkpoint = Checkpoint(copy_without(HEAD, folder, tmp_path))
    with pytest.raises(WeightsError, match=f"lacks 1 weights: {HEAD}$"):
        checkpoint.open(MASKED, CPU, F32)
    opened = checkpoint.open(MASKED, CPU, F32, optional_heads=True)
    assert opened.missing == [HEAD]
    assert not opened.has("cls.predictions.transform")
    assert opened.has("cls.predictions.bias")
    assert not opened.has()


def test_a_weight_of_another_shape_is_named_with_both_shapes(halved, tmp_path):
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 8}))
    shapes = r"6 weights of another shape: \S+intermediate\.dense\.bias \[32\], not \[8\]; "
    with pytest.raises(WeightsError, match=f"{tmp_path.name} cannot be loaded: {shapes}"):
        Checkpoint(halved).open(MASKED, CPU, F32)


def test_a_model_of_another_type_is_refused(folder):
    found = "is a model of type bert; this adapter reads type vilt"
    with pytest.raises(CannotDo, match=found):
        Checkpoint(folder).open("ViltModel", CPU, F32)


def test_an_absent_folder_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"no folder of weights at .*nowhere$"):
        Checkpoint("bert-base-uncased", str(tmp_path / "nowhere"))


def test_progress_bars_are_as_before_after_loading(folder):
    bars = transformers.utils.logging
    assert bars.is_progress_bar_enabled()
    Checkpoint(folder).open(MASKED, CPU, F32)
    assert bars.is_progress_bar_enabled()


@pytest.mark.parametrize("kind", [MASKED, "AutoModelForMaskedLM"])
def test_random_weights_obey_their_seed_and_leave_the_global_generator_alone(kind, folder):
    before = torch.get_rng_state()
    drawn = [Checkpoint(folder, "random", seed=s).open(kind, CPU, F32) for s in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    first, same, other = (opened.model.state_dict()[HEAD] for opened in drawn)
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)
    assert drawn[0].has()


def test_random_weights_are_the_librarys_own_for_the_seed(folder):
    torch.manual_seed(3)
    theirs = transformers.BertForMaskedLM(transformers.BertConfig(**TINY)).state_dict()
    found = Checkpoint(folder, "random", seed=3).open(MASKED, CPU, F32).model.state_dict()
    assert all(torch.equal(found[key], theirs[key]) for key in theirs)


def original(state):
    return {key.removeprefix("module."): value for key, value in state.items()}


@pytest.fixture
def file(folder, tmp_path):
    """A file of original code, which calls every weight module.NAME, and one module.extra."""
    state = transformers.BertForMaskedLM.from_pretrained(folder).state_dict()
    state = {f"module.{key}": value for key, value in state.items()} | {"extra": torch.zeros(1)}
    torch.save(state, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_a_file_of_the_original_code_is_read_under_other_names(folder, file):
    opened = Checkpoint(folder, str(file), rename=original).open(MASKED, CPU, F32)
    theirs = transformers.BertForMaskedLM.from_pretrained(folder).state_dict()
    assert opened.has()
    assert all(torch.equal(opened.model.state_dict()[key], theirs[key]) for key in theirs)


def test_a_weight_that_the_original_file_lacks_is_named_with_the_file(folder, file):
    state = torch.load(file)
    del state[f"module.{HEAD}"]
    torch.save(state, file)
    with pytest.raises(WeightsError, match=rf"model\.pt lacks 1 weights: {HEAD}$"):
        Checkpoint(folder, str(file), rename=original).open(MASKED, CPU, F32)


def test_a_weight_of_another_shape_in_the_original_file_is_named(folder, file):
    torch.save(torch.load(file) | {f"module.{HEAD}": torch.zeros(3)}, file)
    with pytest.raises(WeightsError, match=rf"model\.pt cannot be loaded: 1 .*{HEAD} \[3\], not"):
        Checkpoint(folder, str(file), rename=original).open(MASKED, CPU, F32)


def test_a_file_is_refused_where_no_names_are_known(folder, file):
    with pytest.raises(WeightsError, match=r"no folder of weights at .*model\.pt$"):
        Checkpoint(folder, str(file))
    with pytest.raises(WeightsError, match=r"no file or folder of weights at .*other\.pt$"):
        Checkpoint(folder, str(file.with_name("other.pt")), rename=original)


def test_a_tokenizer_without_spans_is_refused(tmp_path):
    transformers.CTRLConfig(n_embd=16, n_layer=1, n_head=2).save_pretrained(tmp_path)
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "cat</w>": 1}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a\n")
    with pytest.raises(WeightsError, match="no fast tokenizer, so its tokens have no spans"):
        Checkpoint(str(tmp_path)).tokenizer()


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_offline_names_the_download_and_the_way_around_it(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    message = (
        r"^bert-base-uncased, revision 86b5, cannot be downloaded from the hub: this run is "
        r"offline; .* --model-args weights=PATH$"
    )
    with pytest.raises(WeightsError, match=message):
        _ = Checkpoint("bert-base-uncased", revision="86b5").config


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_cannot_be_reached_is_tried_once_for_all_files(monkeypatch):
    tries = []
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: tries.append(1))
    checkpoint = Checkpoint("bert-base-uncased")
    for kind in ("AutoConfig", "AutoTokenizer"):
        with pytest.raises(WeightsError, match="from the hub: the hub cannot be reached"):
            checkpoint.load(kind)
    assert len(tries) == 1


def test_a_local_folder_needs_no_hub(folder, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("the hub was tried"))
    assert Checkpoint(folder).config.model_type == "bert"


def test_a_folder_of_words_alone_has_a_tokenizer(tmp_path):
    transformers.BertConfig(**TINY).save_pretrained(tmp_path)
    assert Checkpoint(write_words(tmp_path)).tokenizer()("two dogs").input_ids == [2, 11, 13, 3]


@pytest.mark.parametrize("kind", ["AutoConfig", "AutoTokenizer", "AutoProcessor", "AutoModel"])
def test_code_of_a_folder_never_runs(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    marker = write_code(tmp_path)
    with pytest.raises(WeightsError):
        Checkpoint(str(tmp_path)).load(kind)
    assert not marker.exists()


def test_code_of_a_folder_does_not_run_for_a_class_that_a_known_type_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    marker = write_code(tmp_path, "bert")
    with pytest.raises(ValueError, match="custom code"):
        Checkpoint(str(tmp_path), "random").open("AutoModelForImageTextToText", CPU, F32)
    assert not marker.exists()


def with_sizes(folder, sizes):
    file = Path(folder, "config.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **sizes}))
    return Checkpoint(str(folder))


def test_a_large_file_that_the_library_does_not_read_is_no_matter(halved):
    Path(halved, "trainer_state.json").touch()
    os.truncate(Path(halved, "trainer_state.json"), 1 << 40)
    assert Checkpoint(halved).config.model_type == "bert"


NO_NETWORKS = [
    ({"num_hidden_layers": 10**7}, r"config.json: num_hidden_layers is 10000000; 1024 is the"),
    ({"x": [{"depths": [2, 10**9]}]}, r"config.json: depths is 1000000000; 1024 is the maximum"),
    ({"vocab_size": 10**8}, r"needs 1,700,005,104 numbers, but its weights are \d+,\d+ bytes"),
    ({"max_position_embeddings": 10**8}, "needs 1,800,005,105 numbers, but its weights are"),
    ({"vision": {"checkpoint_path": "a.pth"}}, "checkpoint_path names another file"),
    ({"note": "x" * 9_000_000}, "it has 900.... bytes; at most 8388608 are read"),
]


@pytest.mark.parametrize(("sizes", "message"), NO_NETWORKS)
def test_a_configuration_of_no_network_is_refused_before_it_is_built(halved, sizes, message):
    with pytest.raises(WeightsError, match=message):
        with_sizes(halved, sizes).open(MASKED, CPU, F32)


ABSENT = [
    ("config.json", "AutoConfig"),
    ("config.json", "AutoImageProcessor"),
    ("preprocessor_config.json", "AutoImageProcessor"),
    ("tokenizer.json", "AutoTokenizer"),
    ("tokenizer.json", "AutoProcessor"),
]


@pytest.mark.parametrize(("absent", "kind"), ABSENT)
def test_an_absent_file_of_a_folder_is_named_with_the_way_out(absent, kind, tmp_path):
    for name in {"config.json", "preprocessor_config.json", "tokenizer.json"} - {absent}:
        (tmp_path / name).write_text('{"model_type": "bert"}')
    with pytest.raises(WeightsError, match=f"{tmp_path.name} has no {absent}; write the whole"):
        Checkpoint(str(tmp_path)).load(kind)


def test_a_configuration_without_a_type_is_named_with_the_way_out(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"has no config\.json with a model_type; write the"):
        _ = Checkpoint(str(tmp_path)).config


@pytest.mark.parametrize("kind", ["AutoConfig", "AutoImageProcessor"])
@pytest.mark.parametrize("type_", [{}, {"model_type": "timm_wrapper"}])
def test_a_folder_of_timm_is_sent_to_timm(tmp_path, kind, type_):
    config = {"architecture": "resnet18", "pretrained_cfg": {}, "num_classes": 3}
    (tmp_path / "config.json").write_text(json.dumps(config | type_))
    with pytest.raises(WeightsError, match=f"is a model of timm; write timm:{tmp_path}$"):
        Checkpoint(str(tmp_path)).load(kind)
