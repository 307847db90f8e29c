import datetime as dt
import io
import pickle
import warnings
import zipfile
from collections import OrderedDict

import pytest
import torch
from torch import Tensor, nn

from vlbench.data.formats.torch_files import Inert, is_torchscript, read_torch_file, refuse

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
    ours, theirs = read_torch_file(file, refuse), torch.load(file, weights_only=True)
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


def test_the_weights_of_a_torchscript_archive_are_those_of_its_module(tmp_path):
    module = Small()
    found = read_torch_file(scripted(module, tmp_path / "w.pt"), refuse)
    expected = module.state_dict()
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


def test_the_code_of_a_torchscript_archive_does_not_run(tmp_path):
    module = nn.Sequential(nn.Linear(2, 1), Trap(str(tmp_path / "gone off")))
    file = scripted(module, tmp_path / "w.pt")
    assert sorted(read_torch_file(file, refuse)) == ["0.bias", "0.weight"]
    assert not (tmp_path / "gone off").exists()


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


def test_code_that_names_no_weights_leaves_all_tensors(tmp_path):
    file = scripted(Small(), tmp_path / "w.pt")
    with zipfile.ZipFile(file) as archive:
        code = [n.partition("/")[2] for n in archive.namelist() if n.endswith(".py")]
    assert "mask" in read_torch_file(repacked(file, **dict.fromkeys(code, b"")), refuse)
    assert "mask" in read_torch_file(repacked(file, **dict.fromkeys(code)), refuse)


def loop(again):
    """Return the pickle of a module of TorchScript that contains itself `again` times."""
    names = b"".join(b"X\x01\x00\x00\x00" + bytes([97 + i]) + b"h\x00" for i in range(again))
    return b"\x80\x02c__torch__\nLoop\n)\x81q\x00}(" + names + b"ub."


@pytest.mark.parametrize("again", [1, 2])
def test_modules_that_contain_each_other_come_to_an_end(tmp_path, again):
    file = repacked(scripted(Small(), tmp_path / "w.pt"), **{"data.pkl": loop(again)})
    with pytest.raises(ValueError, match="contain each other"):
        read_torch_file(file, refuse)


def test_an_archive_of_no_module_is_refused(tmp_path):
    file = repacked(scripted(Small(), tmp_path / "w.pt"), **{"data.pkl": pickle.dumps(1)})
    with pytest.raises(pickle.UnpicklingError, match="without a module"):
        read_torch_file(file, refuse)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"data.pkl": None}, r"without the data\.pkl of torch"),
        ({"byteorder": b"big"}, "another byte order"),
        ({"data/0": b"1234"}, r"storage 0 has 1 numbers, 3 are expected"),
    ],
)
def test_a_changed_archive_says_what_is_wrong(tmp_path, changed, match):
    file = repacked(saved(tmp_path / "w.pt", {"a": torch.ones(3)}), **changed)
    with pytest.raises(ValueError, match=match):
        read_torch_file(file, refuse)


def test_an_archive_without_one_of_its_storages_is_refused(tmp_path):
    file = repacked(saved(tmp_path / "w.pt", {"a": torch.ones(3)}), **{"data/0": None})
    with pytest.raises(KeyError, match="data/0"):
        read_torch_file(file, refuse)


def test_an_archive_that_is_cut_short_is_called_so(tmp_path):
    file = saved(tmp_path / "w.pt", {"a": torch.ones(300)})
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="an archive that is cut short"):
        read_torch_file(file, refuse)


class Storing(pickle.Pickler):
    def persistent_id(self, thing):
        return thing.described if isinstance(thing, Stored) else None


class Stored:
    def __init__(self, *described):
        self.described = described


def old_file(
    file, content, *, head=(0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}), end=()
):
    """Write what torch wrote before its archives."""
    stream = io.BytesIO()
    for part in (*head, content):
        Storing(stream, 2).dump(part)
    pickle.dump([key for key, _ in end], stream, 2)
    for _, held in end:
        stream.write(held)
    file.write_bytes(stream.getvalue())
    return file


ONES = (3).to_bytes(8, "little") + bytes([1, 1, 1])
THREE = Stored("storage", torch.ByteStorage, "k", "cpu", 3)


def test_an_old_file_may_ask_for_a_piece_of_a_storage(tmp_path):
    piece = Stored("storage", torch.ByteStorage, "k", "cpu", 3, ("v", 1, 2))
    assert len(read_torch_file(old_file(tmp_path / "w", piece, end=[("k", ONES)]), refuse)) == 2


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"content": THREE}, "not those of its tensors"),
        ({"content": THREE, "end": [("k", ONES[:8] + b"1")]}, "ends inside a storage"),
        ({"content": THREE, "end": [("k", b"\x02" + ONES[1:])]}, "3 bytes has 2 numbers"),
        ({"content": THREE, "end": [("k", b"\x00" + ONES[1:])]}, "3 bytes has 0 numbers"),
        ({"content": 1, "head": (1, 2, {"little_endian": True})}, "no file of torch"),
        (
            {"content": Stored("storage", torch.ByteStorage, "k", "cpu", 2**40)},
            r"need more than its \d+ bytes",
        ),
        ({"content": Stored("storage", 1, "k", "cpu", 3)}, "describes no storage"),
    ],
)
def test_a_changed_old_file_says_what_is_wrong(tmp_path, options, match):
    with pytest.raises((ValueError, EOFError), match=match):
        read_torch_file(old_file(tmp_path / "w", **options), refuse)


def test_other_objects_may_be_put_in_the_place_of_classes(tmp_path):
    file = saved(tmp_path / "w.pt", {"when": dt.date(2021, 1, 1)})
    assert read_torch_file(file, lambda *_: Inert) == {"when": Inert}
