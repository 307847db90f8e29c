import json

import pytest
from hub_cache import COMMIT, cached, empty_cache

from vlbench.catalog.library_names import (
    library_model,
    pinned,
    reader_of,
    reads_hub,
    recordings,
    row_name,
    split_arguments,
    split_names,
)
from vlbench.errors import UnknownNameError, WeightsError

DINO = {"model_type": "dinov2", "architectures": ["Dinov2Model"]}


def meant(name, **given):
    spec = library_model(name, given)
    return spec.adapter, dict(spec.params)


def write(folder, config, name="config.json"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(config))
    return folder


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return empty_cache(monkeypatch, tmp_path / "hub")


NAMED = [
    (
        "timm:vit_small_patch14_dinov2.lvd142m",
        "timm_vision:TimmVision",
        {"architecture": "vit_small_patch14_dinov2.lvd142m"},
    ),
    (
        "open_clip:ViT-B-16-SigLIP/webli",
        "open_clip:OpenClip",
        {"architecture": "ViT-B-16-SigLIP", "weights": "webli", "tag": "webli"},
    ),
    (
        "open_clip:ViT-B-32/random",
        "open_clip:OpenClip",
        {"architecture": "ViT-B-32", "weights": "random"},
    ),
    (
        "torchvision:convnext_tiny/IMAGENET1K_V1",
        "torchvision_cnn:TorchvisionCnn",
        {"architecture": "convnext_tiny", "weights": "IMAGENET1K_V1", "tag": "IMAGENET1K_V1"},
    ),
    ("torchvision:resnet18", "torchvision_cnn:TorchvisionCnn", {"architecture": "resnet18"}),
]


@pytest.mark.parametrize(("name", "adapter", "params"), NAMED)
def test_a_name_stands_for_an_adapter_and_its_arguments(name, adapter, params):
    assert meant(name) == (adapter, params)
    assert library_model(name, {}).name == name


@pytest.mark.parametrize("name", ["tiny-clip", "models:Adapter", "timmy:resnet18", "hf"])
def test_other_names_stand_for_nothing(name):
    assert library_model(name, {}) is None


UNKNOWN = [
    ("timm:", r"'timm:' does not name a model; write timm:NAME, or timm:\./FOLDER"),
    ("timm:vit_smal_patch16_224", "did you mean .*vit_small_patch16_224"),
    ("torchvision:resnet51", "did you mean .*resnet50"),
    ("torchvision:resnet18/IMAGENET1K_V9", "did you mean IMAGENET1K_V1"),
    ("open_clip:ViT-B-99/openai", "did you mean ViT-B-"),
    ("open_clip:ViT-B-32", "ViT-B-32 of open_clip needs a tag"),
    ("open_clip:ViT-B-32/openay", "did you mean openai"),
    ("hf:./nowhere", r"no folder \./nowhere"),
    ("timm:~/nowhere-at-all", "no folder ~/nowhere-at-all"),
    ("openai:llava", r"'openai:llava' lacks an address; write openai:NAME@URL"),
    ("openai:@http://h/v1", "lacks an address"),
    ("openai:llava@ftp://h/v1", "lacks an address"),
    ("openai:llava@httpd", "lacks an address"),
]


@pytest.mark.parametrize(("name", "message"), UNKNOWN)
def test_what_no_library_has_is_refused_with_the_nearest_names(name, message):
    with pytest.raises(UnknownNameError, match=message):
        library_model(name, {})


@pytest.mark.parametrize("url", ["http://localhost:8000/v1", "https://h/a@http://b"])
@pytest.mark.parametrize("name", ["llava", "org/llava:7b@main"])
def test_what_a_server_has_is_named_without_the_address(name, url):
    served = {"served": name, "address": url}
    assert meant(f"openai:{name}@{url}") == ("openai_server:OpenAiServer", served)
    assert library_model(f"openai:{name}@{url}", {}).name == f"openai:{name}"


@pytest.mark.parametrize("library", ["timm", "open_clip", "hf"])
def test_a_folder_is_named_by_its_last_part(library, tmp_path):
    folder = write(tmp_path / "my-model", DINO)
    spec = library_model(f"{library}:{folder}", {})
    assert spec.name == f"{library}:my-model"
    assert spec.params == {"architecture": str(folder)}


def test_a_folder_is_relative_to_where_the_command_is_run(tmp_path, monkeypatch):
    write(tmp_path / "dino", DINO)
    monkeypatch.chdir(tmp_path)
    spec = library_model("hf:./dino", {})
    assert (spec.name, spec.adapter) == ("hf:dino", "hf_vision:HfVision")
    assert spec.params == {"architecture": str(tmp_path / "dino")}
    write(tmp_path / "org" / "dino", DINO)
    with pytest.raises(UnknownNameError, match=r"is also a folder here; write hf:\./org/dino"):
        library_model("hf:org/dino", {})


def test_the_commit_that_a_branch_is_at_is_an_argument(cache, tmp_path):
    cached(cache, "org/dino", write(tmp_path / "files", DINO))
    expected = {"architecture": "org/dino", "revision": COMMIT}
    assert meant("hf:org/dino") == ("hf_vision:HfVision", expected)
    assert meant("hf:org/dino@main") == ("hf_vision:HfVision", expected)
    assert library_model("hf:org/dino@main", {}).name == "hf:org/dino@main"
    assert meant(f"hf:org/dino@{COMMIT}")[1] == expected
    assert meant("hf:org/dino", revision=COMMIT)[1] == expected


def test_a_repository_of_open_clip_is_pinned_too(cache, tmp_path):
    files = write(tmp_path / "files", {}, "open_clip_config.json")
    cached(cache, "org/clip", files)
    expected = {"architecture": "hf-hub:org/clip", "revision": COMMIT}
    assert meant("open_clip:hf-hub:org/clip") == ("open_clip:OpenClip", expected)
    assert meant("open_clip:hf-hub:org/clip@main")[1] == expected


@pytest.mark.usefixtures("cache")
def test_weights_of_ones_own_say_which_adapter_reads_them(tmp_path):
    folder = write(tmp_path / "fine-tuned", DINO)
    expected = ("hf_vision:HfVision", {"architecture": "org/dino"})
    assert meant("hf:org/dino", weights=str(folder)) == expected


NOT_HAD = [
    ("hf:org/gone", "hf:./FOLDER, or with --model-args weights=FOLDER"),
    ("open_clip:hf-hub:org/gone", "open_clip:./FOLDER"),
]


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("name", "option"), NOT_HAD)
def test_a_configuration_that_cannot_be_had_names_the_options(name, option):
    message = (
        r"^org/gone, revision main, cannot be downloaded from the hub: this run is offline; "
        rf"give a local copy with --model {option}$"
    )
    with pytest.raises(WeightsError, match=message):
        library_model(name, {})


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 200_000], ids=len)
def test_a_configuration_that_is_none_is_refused(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(UnknownNameError, match=r"config\.json cannot be read as a configuration"):
        library_model(f"hf:{tmp_path}", {})


def test_planning_reads_the_hub_for_names_that_lie_there():
    names = ["hf:org/name", "open_clip:hf-hub:org/name", "timm:resnet18", "tiny-rn", object()]
    assert [reads_hub(name) for name in names] == [True, True, False, False, False]


RERUNS = [
    ("hf:org/name", COMMIT, f"hf:org/name@{COMMIT}"),
    ("open_clip:hf-hub:org/name", COMMIT, f"open_clip:hf-hub:org/name@{COMMIT}"),
    ("hf:org/name@v2", COMMIT, "hf:org/name@v2"),
    ("hf:folder", "main", "hf:folder"),
    ("bert-base-uncased", COMMIT, "bert-base-uncased"),
]


@pytest.mark.parametrize(("name", "revision", "expected"), RERUNS)
def test_a_row_is_run_again_at_the_commit_that_it_records(name, revision, expected):
    assert pinned(name, {"revision": revision}) == expected


READ_BY = [
    ("qwen2_vl", "Qwen2VLForConditionalGeneration", "hf_vlm:HfVlm"),
    ("smolvlm", "SmolVLMForConditionalGeneration", "hf_vlm:HfVlm"),
    ("gemma3", "Gemma3ForConditionalGeneration", "hf_vlm:HfVlm"),
    ("paligemma", "PaliGemmaForConditionalGeneration", "hf_vlm:HfVlm"),
    ("paligemma", None, "hf_vlm:HfVlm"),
    ("gemma3_text", "Gemma3ForCausalLM", "hf_text:HfText"),
    ("clip", "CLIPModel", "hf_dual:HfDual"),
    ("siglip", "SiglipModel", "hf_dual:HfDual"),
    ("blip", "BlipForConditionalGeneration", "hf_vlm:HfVlm"),
    ("blip", "BlipModel", "hf_dual:HfDual"),
    ("blip", "BlipForImageTextRetrieval", "blip:Blip"),
    ("clip_vision_model", "CLIPVisionModel", "hf_vision:HfVision"),
    ("siglip_vision_model", "SiglipVisionModel", "hf_vision:HfVision"),
    ("vit", "ViTForImageClassification", "hf_vision:HfVision"),
    ("dinov2", "Dinov2Model", "hf_vision:HfVision"),
    ("swin", None, "hf_vision:HfVision"),
    ("bert", "BertForMaskedLM", "hf_text:HfText"),
    ("gpt2", "GPT2LMHeadModel", "hf_text:HfText"),
    ("vilt", "ViltForMaskedLM", "vilt:Vilt"),
    ("detr", "DetrForObjectDetection", "detr:Detr"),
]


@pytest.mark.parametrize(("kind", "saved_by", "adapter"), READ_BY)
def test_the_configuration_says_which_adapter_reads_a_model(kind, saved_by, adapter):
    config = {"model_type": kind, "architectures": saved_by and [saved_by]}
    assert reader_of(config, "org/name") == adapter


UNREAD = [
    ({"model_type": "wav2vec2"}, "is of type 'wav2vec2', which no adapter reads; name"),
    ({"architectures": "ViTModel"}, "has a configuration without a model_type, which no adapter"),
    (
        {"architecture": "resnet18", "pretrained_cfg": {"tag": "a1_in1k"}},
        r"is a model of timm; write timm:\./FOLDER for .*; timm:resnet18\.a1_in1k is only",
    ),
]


@pytest.mark.parametrize(("config", "message"), UNREAD)
def test_a_configuration_that_no_adapter_reads_is_refused(config, message):
    with pytest.raises(UnknownNameError, match=f"^hf:org/name {message}"):
        reader_of(config, "org/name")


def test_a_model_of_timm_is_sent_to_its_own_folder_or_published_name(tmp_path):
    config = {"architecture": "resnet18", "pretrained_cfg": {"tag": "a1_in1k"}}
    with pytest.raises(UnknownNameError, match=rf" write timm:{tmp_path}$"):
        reader_of(config, str(tmp_path))
    with pytest.raises(UnknownNameError, match=r" write timm:resnet18\.a1_in1k$"):
        reader_of(config, "timm/resnet18.a1_in1k")


FOLDERS = [
    ("hf:./runs/my-vit/", "hf:my-vit"),
    ("hf:/data/my-vit", "hf:my-vit"),
    ("recorded:~/answers/", "recorded:answers"),
    ("hf:facebook/dinov2-small", "hf:facebook/dinov2-small"),
    ("hf:", "hf:"),
    ("./model.py:Mine", "./model.py:Mine"),
    ("tiny-rn", "tiny-rn"),
]


@pytest.mark.parametrize(("text", "name"), FOLDERS)
def test_a_model_of_a_folder_has_the_folders_name_on_boards(text, name):
    assert row_name(text) == name


def test_names_are_split_at_commas_outside_of_brackets():
    assert split_names("a[b=1,c=2],timm:d") == ["a[b=1,c=2]", "timm:d"]
    assert split_arguments("timm:a[b=1,c=x=y]") == ("timm:a", "b=1,c=x=y")
    assert split_arguments("odd[name]") == ("odd[name]", "")


def test_a_glob_names_each_recording_that_is_not_hidden(tmp_path):
    for name in ("b.jsonl", "a.jsonl", "a.yaml", ".DS_Store"):
        (tmp_path / name).write_text("")
    for name in ("c", "@eaDir"):
        (tmp_path / name).mkdir()
    given = f"recorded:{tmp_path}/*[labels=words]"
    found = [f"recorded:{tmp_path}/{name}[labels=words]" for name in ("a.jsonl", "b.jsonl", "c")]
    assert recordings(given) == found
    with pytest.raises(UnknownNameError, match="no file or folder matches"):
        recordings(f"recorded:{tmp_path}/absent/*")
