import hashlib
import importlib.util
import pickle
import re
import warnings
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import pytest
import torch
from hostile_code import Bomb
from torch import Tensor, nn

from vlbench.data.formats.torch_files import OPENAI_ARCHIVES, Inert, is_torchscript, read_torch_file

KINDS = ["bfloat16", "bool", "uint8", "int8", "complex64", "float64", "float16", "int32", "int64"]


def mixed():
    """Tensors of many types, some of which share or skip parts of their storage."""
    table = torch.arange(24.0).reshape(4, 6)
    state = OrderedDict((kind, torch.tensor([0, 1, 3]).to(getattr(torch, kind))) for kind in KINDS)
    views = {"table": table, "turned": table.T, "row": table[2], "number": torch.tensor(7.0)}
    state |= views | {"empty": torch.empty(0, 3), "parameter": nn.Parameter(torch.ones(2))}
    return {"epoch": 3, "state_dict": state, "name": "ResNet", "ends": [None, 0.5, (True, -1)]}


def saved(file, content, *, zipped=True):
    torch.save(content, file, _use_new_zipfile_serialization=zipped)
    return file


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_is_read_as_torch_reads_it(tmp_path, zipped):
    file = saved(tmp_path / "w.pt", mixed(), zipped=zipped)
    ours, theirs = read_torch_file(file), torch.load(file, weights_only=True)
    tensors, expected = ours.pop("state_dict"), theirs.pop("state_dict")
    assert ours == theirs
    assert list(tensors) == list(expected)
    for key, tensor in expected.items():
        assert torch.equal(tensors[key], tensor)
        assert (tensors[key].dtype, tensors[key].stride()) == (tensor.dtype, tensor.stride())


class Small(nn.Module):
    """Weights at several depths, in two precisions, a buffer, and a tensor that is neither."""

    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2).half())
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("size", torch.tensor(224))
        self.mask = torch.ones(5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.parts[0](x)) + self.mask.sum() + self.size


def scripted(module, file):
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(module).save(str(file))
    return file


def test_the_weights_of_a_published_archive_are_those_of_its_module(tmp_path, monkeypatch):
    module = Small()
    file = scripted(module, tmp_path / "w.pt")
    published = {hashlib.sha256(file.read_bytes()).hexdigest()}
    monkeypatch.setattr("vlbench.data.formats.torch_files.OPENAI_ARCHIVES", published)
    found, expected = read_torch_file(file), module.state_dict()
    assert sorted(found) == sorted(expected)
    for key, tensor in expected.items():
        assert torch.equal(found[key], tensor)
        assert found[key].dtype == tensor.dtype


class Trap(nn.Module):
    """Writes a file when torch loads it."""

    def __init__(self, target: str):
        super().__init__()
        self.target = target
        self.held = torch.empty(10)

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.target, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        # Torch leaves out what has no use.
        self.held = torch.from_file(self.target, True, 10)

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("past_pickles", [True, False])
def test_any_other_torchscript_archive_is_refused_and_does_not_run(tmp_path, past_pickles):
    file = scripted(Trap(str(tmp_path / "gone off")), tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"TorchScript.*save its state_dict\(\) with torch\.save"):
        read_torch_file(file, past_pickles=past_pickles)
    assert not (tmp_path / "gone off").exists()


@pytest.mark.parametrize("past_pickles", [True, False])
def test_torchscript_that_hides_from_zipfile_does_not_run(tmp_path, past_pickles, monkeypatch):
    monkeypatch.setattr("vlbench.data.formats.torch_files.is_torchscript", lambda _: False)
    file = scripted(Trap(str(tmp_path / "gone off")), tmp_path / "w.pt")
    with pytest.raises(RuntimeError, match="TorchScript"):
        read_torch_file(file, past_pickles=past_pickles)
    assert not (tmp_path / "gone off").exists()


def test_the_published_archives_are_those_that_open_clip_names():
    file = Path(importlib.util.find_spec("open_clip").origin).with_name("pretrained.py")
    named = re.findall(r"openaipublic\.\S+/([0-9a-f]{64})/", file.read_text())
    assert set(named) == OPENAI_ARCHIVES


def test_only_a_torchscript_archive_is_one(tmp_path):
    (tmp_path / "text.pt").write_text("hello")
    assert is_torchscript(scripted(Small(), tmp_path / "script.pt"))
    assert not is_torchscript(saved(tmp_path / "w.pt", {"a": torch.ones(1)}))
    assert not is_torchscript(tmp_path / "text.pt")


def repacked(file, **changed):
    """Write an archive anew with some of its members changed; None leaves one out."""
    with zipfile.ZipFile(file) as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in (members | changed).items():
            if content is not None:
                archive.writestr(f"top/{name}", content)
    return file


@pytest.mark.parametrize("part", ["data.pkl", "data/0"])
def test_an_archive_that_lacks_a_part_is_refused(tmp_path, part):
    file = repacked(saved(tmp_path / "w.pt", {"a": torch.ones(3)}), **{part: None})
    with pytest.raises(RuntimeError, match=f"{part}: file not found"):
        read_torch_file(file)


def test_a_changed_bit_of_a_weight_is_noticed(tmp_path):
    file = saved(tmp_path / "w.pt", {"a": torch.full((9,), 7.0)})
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"\0\0\xe0\x40" * 9, b"\0\0\xe0\x41" * 9))
    assert file.read_bytes() != whole
    with pytest.raises(ValueError, match=r"data/0 in it is damaged"):
        read_torch_file(file)


def test_an_archive_that_is_cut_short_is_called_so(tmp_path):
    file = saved(tmp_path / "w.pt", {"a": torch.ones(300)})
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="its archive is cut off"):
        read_torch_file(file)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_objects_are_refused_by_their_names_and_not_run(tmp_path, zipped):
    file = saved(tmp_path / "w.pt", {"bomb": Bomb(tmp_path / "gone off")}, zipped=zipped)
    with pytest.raises(pickle.UnpicklingError, match=r"^it contains getattr, which is not part of"):
        read_torch_file(file)
    assert not (tmp_path / "gone off").exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_whatever_is_pickled_beside_weights_is_inert(tmp_path, zipped):
    beside = {"bomb": Bomb(tmp_path / "gone off"), "dict": Counter(a=1), "list": Listed([1])}
    content = mixed() | beside | {"default": defaultdict(list, {"a": [1]})}
    file = saved(tmp_path / "w.pt", content, zipped=zipped)
    found = read_torch_file(file, past_pickles=True)
    assert [found[key] for key in (*beside, "default")] == [Inert] * 4
    for key, tensor in mixed()["state_dict"].items():
        assert torch.equal(found["state_dict"][key], tensor)
        assert found["state_dict"][key].stride() == tensor.stride()
    assert not (tmp_path / "gone off").exists()


class Listed(list):
    """A list of a kind of its own."""


def test_the_source_of_a_pickled_module_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = saved(tmp_path / "w", {"class": nn.Linear, "module": nn.Linear(2, 2)}, zipped=False)
    source = b"class Linear(Module):"
    assert file.read_bytes().count(source) == 1
    file.write_bytes(file.read_bytes().replace(source, source[::-1]))
    assert read_torch_file(file, past_pickles=True) == {"class": Inert, "module": Inert}
    assert list(tmp_path.iterdir()) == [file]
    assert Inert.dump_patches is False  # before Python 3.13, torch cannot read its source


def test_a_pickle_sets_no_attribute_of_what_is_called(tmp_path):
    program = b"\x80\x02ctorch._utils\n_rebuild_tensor\nN}X\x01\x00\x00\x00aK\x01s\x86b."
    file = repacked(saved(tmp_path / "w.pt", {}), **{"data.pkl": program})
    with pytest.raises(AttributeError):
        read_torch_file(file, past_pickles=True)
    assert not hasattr(torch._utils._rebuild_tensor, "a")


def test_an_inert_object_is_whatever_is_done_with_it():
    assert Inert(1, two=2) is Inert
    assert Inert.anything is Inert
    Inert["key"] = 3
    assert Inert().anything() is Inert
