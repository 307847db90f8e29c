import hashlib
import logging
import sys

import hub_cache
import open_clip
import pytest
import torch
from hub_cache import COMMIT, cached
from PIL import Image
from safetensors.torch import save_file
from tiny_clip import CPU, QUICK, TINY, OpenClip, archive, write_config

from vlbench.errors import UnknownNameError, WeightsError
from vlbench.system import hub

NAME = "open_clip"


@pytest.fixture
def state(model):
    return dict(model.model.state_dict())


@pytest.fixture(scope="module")
def openai(tmp_path_factory):
    """An archive as OpenAI published it, and its weights."""
    file = tmp_path_factory.mktemp("openai") / "RN50.pt"
    weights = archive(file)
    published = {hashlib.sha256(file.read_bytes()).hexdigest()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vlbench.data.formats.torch_files.OPENAI_ARCHIVES", published)
        yield str(file), weights


@pytest.fixture
def tiny_rn50(monkeypatch):
    """The library's RN50 and RN50-quickgelu, made tiny."""
    configs = sys.modules["open_clip.factory"]._MODEL_CONFIGS
    monkeypatch.setitem(configs, "RN50", TINY)
    monkeypatch.setitem(configs, "RN50-quickgelu", QUICK)


@pytest.fixture
def empty_cache(monkeypatch, tmp_path):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def same_weights(model, state):
    return all(torch.equal(value, state[key]) for key, value in model.model.state_dict().items())


def activations(model):
    names = {type(layer).__name__ for layer in model.model.transformer.modules()}
    return names & {"GELU", "QuickGELU"}


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pt", "weights.bin"])
def test_a_state_dict_is_read_from_any_kind_of_file(folder, state, tmp_path, name):
    save = save_file if name.endswith(".safetensors") else torch.save
    save(state, tmp_path / name)
    model = OpenClip(device=CPU, architecture=folder, weights=str(tmp_path / name))
    assert same_weights(model, state)


def test_a_training_checkpoint_is_unwrapped(folder, state, tmp_path):
    wrapped = {f"module.{key}": value for key, value in state.items()}
    torch.save({"epoch": 3, "state_dict": wrapped}, tmp_path / "epoch_3.pt")
    model = OpenClip(device=CPU, architecture=folder, weights=str(tmp_path / "epoch_3.pt"))
    assert same_weights(model, state)


@pytest.mark.usefixtures("tiny_rn50")
def test_an_archive_of_openai_becomes_float32_exactly(openai):
    model = OpenClip(device=CPU, weights=openai[0])
    assert {weight.dtype for weight in model.model.parameters()} == {torch.float32}
    assert same_weights(model, openai[1])


@pytest.mark.usefixtures("tiny_rn50")
def test_an_archive_of_openai_gets_its_activation_whatever_the_name_says(openai):
    model = OpenClip(device=CPU, architecture="RN50", weights=openai[0])
    assert activations(model) == {"QuickGELU"}


@pytest.mark.usefixtures("tiny_rn50")
def test_weights_that_openai_marked_get_its_activation_too(state, tmp_path):
    torch.save({**state, "input_resolution": torch.tensor(64)}, tmp_path / "RN50.pt")
    model = OpenClip(device=CPU, architecture="RN50", weights=str(tmp_path / "RN50.pt"))
    assert activations(model) == {"QuickGELU"}


@pytest.mark.usefixtures("tiny_rn50")
def test_a_file_that_does_not_say_its_activation_is_refused_with_both_named(state, tmp_path):
    torch.save(state, tmp_path / "own.pt")
    message = (
        r"own\.pt does not declare .* GELU of RN50 or .* architecture=RN50-quickgelu.*=false, or"
    )
    with pytest.raises(WeightsError, match=message):
        OpenClip(device=CPU, architecture="RN50", weights=str(tmp_path / "own.pt"))


ACTIVATIONS = [
    ({"architecture": "RN50", "quick_gelu": False}, "GELU"),
    ({"architecture": "RN50", "quick_gelu": True}, "QuickGELU"),
    ({"architecture": "RN50", "tag": "openai"}, "QuickGELU"),
    ({"architecture": "RN50-quickgelu"}, "QuickGELU"),
]


@pytest.mark.usefixtures("tiny_rn50")
@pytest.mark.parametrize(("said", "activation"), ACTIVATIONS)
def test_a_file_gets_the_activation_that_is_said(state, tmp_path, said, activation):
    torch.save(state, tmp_path / "own.pt")
    model = OpenClip(device=CPU, weights=str(tmp_path / "own.pt"), **said)
    assert activations(model) == {activation}


@pytest.mark.usefixtures("tiny_rn50")
def test_an_activation_that_the_architecture_contradicts_is_refused():
    message = r"RN50-quickgelu cannot be built: .* QuickGELU, but quick_"
    with pytest.raises(WeightsError, match=message):
        OpenClip(device=CPU, weights="random", quick_gelu=False)


def test_a_file_is_treated_as_the_tag_that_it_copies(monkeypatch, state, tmp_path):
    configs = sys.modules["open_clip.factory"]._MODEL_CONFIGS
    monkeypatch.setitem(configs, "ViT-L-14", TINY)
    torch.save(state, tmp_path / "copy.pt")
    given = {"architecture": "ViT-L-14", "weights": str(tmp_path / "copy.pt")}
    model = OpenClip(device=CPU, **given, tag="laion2b_s32b_b82k")
    assert model._mean.flatten().tolist() == [0.5, 0.5, 0.5]
    assert activations(OpenClip(device=CPU, **given, tag="openai")) == {"QuickGELU"}


@pytest.mark.usefixtures("tiny_rn50")
def test_a_tag_in_the_local_cache_needs_no_hub(monkeypatch, state, empty_cache):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    repository = empty_cache / "models--timm--resnet50_clip.openai"
    for part in ("refs", "snapshots/abc"):
        (repository / part).mkdir(parents=True)
    (repository / "refs/main").write_text("abc")
    save_file(state, repository / "snapshots/abc/open_clip_model.safetensors")
    model = OpenClip(device=CPU, architecture="RN50")
    assert same_weights(model, state)
    assert activations(model) == {"QuickGELU"}


def test_missing_unexpected_and_misshapen_weights_are_listed(folder, state, tmp_path):
    state["surplus"] = state.pop("visual.conv1.weight")
    state["text_projection"] = torch.zeros(2, 3)
    torch.save(state, tmp_path / "broken.pt")
    expected = (
        r"broken\.pt does not fit CLIP; 1 missing: visual\.conv1\.weight; 1 unexpected: surplus; "
        r"1 of another shape: text_projection \(2, 3\), not \(32, 32\)"
    )
    with pytest.raises(WeightsError, match=expected):
        OpenClip(device=CPU, architecture=folder, weights=str(tmp_path / "broken.pt"))


def test_a_configuration_far_larger_than_the_weights_is_refused(folder, tmp_path):
    text = {**TINY["text_cfg"], "vocab_size": 10**6, "width": 64}
    large = write_config(tmp_path, {**TINY, "text_cfg": text})
    weights = f"{folder}/open_clip_model.safetensors"
    with pytest.raises(WeightsError, match=r"needs \d+(,\d{3}){2} numbers, but its weights are"):
        OpenClip(device=CPU, architecture=large, weights=weights)


def test_a_folder_without_weights_says_which_file_it_lacks(tmp_path):
    path = write_config(tmp_path, TINY)
    with pytest.raises(WeightsError, match=rf"{path}/open_clip_model\.safetensors"):
        OpenClip(device=CPU, architecture=path)


def test_a_folder_without_a_configuration_says_so(tmp_path):
    with pytest.raises(WeightsError, match=rf"no open_clip_config\.json in the folder {tmp_path}"):
        OpenClip(device=CPU, architecture=str(tmp_path))


def test_a_configuration_that_makes_no_model_says_why(tmp_path):
    path = write_config(tmp_path, {**TINY, "depth": 3})
    with pytest.raises(WeightsError, match=r"cannot be built: .*depth"):
        OpenClip(device=CPU, architecture=path, weights="random")


def test_an_unknown_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no architecture .* 'RN5O'; did you mean RN50"):
        OpenClip(device=CPU, architecture="RN5O")


def test_an_unknown_tag_names_the_nearest():
    with pytest.raises(UnknownNameError, match="'opena1'; did you mean openai"):
        OpenClip(device=CPU, weights="opena1")


def test_a_copy_of_an_unknown_tag_is_refused():
    with pytest.raises(UnknownNameError, match="tag of RN50-quickgelu is named 'laion9b'"):
        OpenClip(device=CPU, weights="random", tag="laion9b")


@pytest.mark.usefixtures("empty_cache")
def test_a_hub_that_cannot_be_reached_is_not_tried(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: False)
    monkeypatch.setattr(open_clip, "download_pretrained", lambda _: pytest.fail("it was tried"))
    with pytest.raises(WeightsError, match="the hub cannot be reached"):
        OpenClip(device=CPU)


@pytest.mark.usefixtures("empty_cache")
def test_a_download_that_breaks_off_names_its_origin(monkeypatch):
    def break_off(_):
        raise FileNotFoundError("connection lost")

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(hub, "reachable", lambda: True)
    monkeypatch.setattr(open_clip, "download_pretrained", break_off)
    with pytest.raises(WeightsError, match=r"resnet50_clip.*connection lost"):
        OpenClip(device=CPU)


def test_random_residual_branches_are_not_zero(folder):
    model = OpenClip(device=CPU, architecture=folder, weights="random").model
    branches = [v for k, v in model.state_dict().items() if k.endswith("bn3.weight")]
    assert branches
    assert all(bool((branch > 0).all()) for branch in branches)


def test_loading_says_nothing_of_random_weights(folder, caplog):
    OpenClip(device=CPU, architecture=folder)
    assert caplog.records == []
    assert logging.root.manager.disable == logging.NOTSET


@pytest.fixture
def repository(monkeypatch, tmp_path, folder):
    """A cache of the hub that holds the tiny model, as the library publishes it."""
    return cached(hub_cache.empty_cache(monkeypatch, tmp_path / "hub"), "org/clip", folder)


PUBLISHED = {"device": CPU, "architecture": "hf-hub:org/clip", "revision": COMMIT}


def test_a_repository_is_read_like_a_folder(repository, state):
    model = OpenClip(**PUBLISHED)
    assert same_weights(model, state)
    assert model.preprocess(Image.new("RGB", (90, 70))).shape == (3, 64, 64)
    assert repository.name == COMMIT


def test_a_repository_may_hold_weights_in_the_older_format(repository, state):
    (repository / "open_clip_model.safetensors").unlink()
    torch.save(state, repository / "open_clip_pytorch_model.bin")
    assert same_weights(OpenClip(**PUBLISHED), state)


def test_a_repositorys_own_weights_are_not_needed_where_others_take_their_place(repository):
    (repository / "open_clip_model.safetensors").unlink()
    OpenClip(**PUBLISHED, weights="random")
    with pytest.raises(WeightsError, match=r"org/clip, revision 0123.*with --model open_clip:"):
        OpenClip(**PUBLISHED)
