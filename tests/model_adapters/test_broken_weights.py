"""Adapters given broken files: every error is a WeightsError that names the file."""

import random
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_clip import OpenClip, tiny_folder
from tiny_cnns import LITTLE, TorchvisionCnn, draw_torchvision
from tiny_joint import CPU, TINY, adapter, save
from transformers import BertConfig, BertForMaskedLM

from vlbench.errors import WeightsError

HfText = adapter("hf_text:HfText")
TimmCnn = adapter("timm_cnn:TimmCnn")


def faults(content, count):
    """Yield copies of a file's content: empty, cut short, with flipped bits, with a huge number."""
    yield b""
    yield b"<html>404</html>"
    for seed in range(count):
        rng = random.Random(seed)  # noqa: S311 - no secret
        changed, at = bytearray(content), rng.randrange(min(len(content), 4000))
        changed[at : at + 8] = [b"\xff" * 8, bytes([changed[at] ^ 4])][seed % 2]
        yield content[: rng.randrange(len(content))] if seed % 3 == 0 else bytes(changed)


def complaints(file, load, count):
    """Return what loading says of each broken copy of a file; nothing where a copy still loads."""
    content, found = file.read_bytes(), []
    for broken in faults(content, count):
        file.write_bytes(broken)
        try:
            load()
        except WeightsError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth"])
def test_classifiers_of_torchvision(tmp_path, name):
    state, file = draw_torchvision("resnet18"), tmp_path / name
    if name == "w.pth":
        torch.save({"state_dict": state}, file, _use_new_zipfile_serialization=False)
    else:
        save_file(state, file)
    found = complaints(file, lambda: TorchvisionCnn(**LITTLE, weights=str(file)), 6)
    assert len(found) > 3
    assert all(name in message for message in found)


OTHER_SHAPES = [
    ({"fc.weight": torch.tensor(1.0)}, r"1 of another shape: fc\.weight \(\), not"),
    (
        {"module.normalizer.new_mean": torch.ones(2)},
        "a normaliser that does not have three channels",
    ),
]


@pytest.mark.parametrize(("change", "match"), OTHER_SHAPES)
def test_a_head_or_a_normaliser_of_another_shape(tmp_path, change, match):
    state = {f"module.model.{k}": v for k, v in draw_torchvision("resnet18").items()}
    head = {f"module.model.{k}": v for k, v in change.items() if k.startswith("fc.")}
    torch.save({**state, **(head or change)}, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=rf"w\.pt .*{match}"):
        TorchvisionCnn(**LITTLE, weights=str(tmp_path / "w.pt"))


def test_archives_of_google(tmp_path):
    file = tmp_path / "BiT-M-R50x1.npz"
    np.savez(file, **{"resnet/root_block/conv2d/kernel": np.ones((7, 7, 3, 64), np.float32)})
    options = {"device": CPU, "resize": 64, "weights": str(file)}
    found = complaints(file, lambda: TimmCnn(**options), 12)
    assert len(found) == 14
    assert all(file.name in message for message in found)


def test_an_archive_that_fills_the_memory(tmp_path):
    file = tmp_path / "BiT-M-R50x1.npz"
    np.savez_compressed(file, zeros=np.zeros(1_000_000, np.float32))
    with pytest.raises(WeightsError, match=r"npz .*malicious"):
        TimmCnn(device=CPU, weights=str(file))


def test_folders_of_open_clip(tmp_path):
    folder = tiny_folder(tmp_path / "clip")
    file = tmp_path / "clip" / "open_clip_model.safetensors"
    found = complaints(file, lambda: OpenClip(device=CPU, architecture=folder), 12)
    assert len(found) > 5
    assert all(file.name in message for message in found)


def test_weights_that_open_clip_cannot_convert(tmp_path):
    folder = tiny_folder(tmp_path / "clip")
    mark = "image_encoder.model.patch_embed.0.rbr_conv.0.conv.weight"
    torch.save({mark: torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=r"w\.pt "):
        OpenClip(device=CPU, architecture=folder, weights=str(tmp_path / "w.pt"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    save(folder, BertForMaskedLM(BertConfig(**TINY)))
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_folders_of_transformers(bert, tmp_path, name):
    folder = tmp_path / "broken"
    shutil.copytree(bert, folder)
    found = complaints(folder / name, lambda: HfText(device=CPU, architecture=str(folder)), 12)
    assert len(found) > 3
    assert all(str(folder) in message for message in found)


def test_files_of_the_original_code(tmp_path):
    Detr = adapter("detr:Detr")  # noqa: N806 - a class
    torch.save({"model": [1, 2]}, tmp_path / "list.pth")
    message = r"list\.pth cannot be loaded: .* numbers, but its weights are"
    with pytest.raises(WeightsError, match=message):
        Detr(device=CPU, weights=str(tmp_path / "list.pth"))
