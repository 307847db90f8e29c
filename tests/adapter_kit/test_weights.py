import datetime as dt

import pytest
import torch
from hostile_code import Bomb
from torch import nn

from vlbench.adapter_kit.weights import (
    download_error,
    hub_obstacle,
    load_weights,
    read_state_dict,
    read_weights,
    seeded,
    weights_file,
)
from vlbench.data.formats.torch_files import Inert
from vlbench.errors import WeightsError
from vlbench.system import hub


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_a_file_of_something_else_cannot_be_read(tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(WeightsError, match=f"{name} cannot be read as weights"):
        read_state_dict(tmp_path / name)


def test_pickled_objects_are_refused(tmp_path):
    torch.save({"weight": torch.ones(1), "when": dt.date(2021, 1, 1)}, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="cannot be read as weights"):
        read_state_dict(tmp_path / "w.pt")


@pytest.mark.parametrize("content", [[1, 2], {"state_dict": [1, 2]}])
def test_a_list_is_no_state_dict(tmp_path, content):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="contains a list, not a state dict"):
        read_state_dict(tmp_path / "w.pt")


def test_a_prefix_of_all_keys_is_dropped(tmp_path):
    torch.save(
        {"state_dict": {"module.a": torch.ones(1), "module.b.c": torch.ones(1)}}, tmp_path / "w.pt"
    )
    assert list(read_state_dict(tmp_path / "w.pt")) == ["a", "b.c"]


def test_a_prefix_of_some_keys_is_kept(tmp_path):
    torch.save({"module.a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "w.pt")
    assert list(read_state_dict(tmp_path / "w.pt")) == ["module.a", "b"]


def test_what_is_no_tensor_does_not_fit(tmp_path):
    state = {"weight": torch.ones(2, 1), "bias": 3.0}
    with pytest.raises(WeightsError, match=r"does not fit Linear; 1 of another shape: bias"):
        load_weights(nn.Linear(1, 2), state, tmp_path / "w.pt")


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(2, 1, device="meta"), torch.eye(2, 1).to_sparse()],
    ids=["meta", "sparse"],
)
def test_a_tensor_that_cannot_be_copied_does_not_fit(tmp_path, tensor):
    torch.save({"weight": tensor}, tmp_path / "w.pt")
    state = read_state_dict(tmp_path / "w.pt")
    with pytest.raises(WeightsError, match=r"(?s)w\.pt does not fit Linear: .*weight"):
        load_weights(nn.Linear(1, 2, bias=False), state, tmp_path / "w.pt")


def test_of_many_misfits_the_first_ten_are_listed(tmp_path):
    state = {f"surplus{i}": torch.ones(1) for i in range(12)}
    with pytest.raises(WeightsError, match=r"12 unexpected: surplus0, .*, surplus9$"):
        load_weights(nn.Identity(), state, tmp_path / "w.pt")


def test_half_precision_is_filled_in_exactly(tmp_path):
    half = torch.tensor([[0.1], [0.3]]).half()
    module = nn.Linear(1, 2, bias=False)
    load_weights(module, {"weight": half}, tmp_path / "w.pt")
    assert module.weight.dtype == torch.float32
    assert torch.equal(module.weight, half.float())


def test_a_file_of_weights_is_found_under_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "w.pt").touch()
    assert weights_file("~/w.pt") == tmp_path / "w.pt"


def test_an_absent_file_of_weights_is_named_with_the_hint():
    with pytest.raises(WeightsError, match=r"^no file of weights at nowhere\.pt; ask the authors$"):
        weights_file("nowhere.pt", "ask the authors")
    with pytest.raises(WeightsError, match=r"^no file of weights at nowhere\.pt$"):
        weights_file("nowhere.pt")


OBSTACLES = [
    ("1", False, "this run is offline"),
    ("0", False, "the hub cannot be reached"),
    ("0", True, ""),
]


@pytest.mark.parametrize(("offline", "reachable", "why"), OBSTACLES)
def test_what_keeps_a_run_from_the_hub_is_said(offline, reachable, why, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(hub, "reachable", lambda: reachable)
    assert hub_obstacle() == why


def test_a_failed_download_names_the_origin_and_the_local_alternative():
    assert str(download_error("it", "a server", "it is down", "weights=PATH,tag=x")) == (
        "it cannot be downloaded from a server: it is down; "
        "give a local copy with --model-args weights=PATH,tag=x"
    )


def test_seeded_draws_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    with seeded(5):
        drawn = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(5)))


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_objects_beside_weights_are_passed_over_without_running(zipped, tmp_path):
    content = {"model": {"a": torch.ones(2)}, "extra": [Bomb(tmp_path / "gone off")]}
    torch.save(content, tmp_path / "w.pt", _use_new_zipfile_serialization=zipped)
    found = read_weights(tmp_path / "w.pt", past_pickles=True)
    assert found["model"]["a"].tolist() == [1, 1]
    assert found["extra"] == [Inert]
    assert not (tmp_path / "gone off").exists()


NESTED = b"\x80\x02}N" + b"\x85" * 100_000 + b"K\x00s."
NESTED_IN_PIECES = b"\x80\x02)q\x000" + b"h\x00\x85q\x000" * 100_000 + b"}h\x00K\x00s."


@pytest.mark.parametrize("program", [NESTED, NESTED_IN_PIECES], ids=["at once", "in pieces"])
def test_a_file_of_deeply_nested_tuples_is_refused_by_name(tmp_path, program):
    file = tmp_path / "w.pt"
    file.write_bytes(program)
    with pytest.raises(WeightsError, match=r"w\.pt cannot be .*: it nests more than 100 tuples"):
        read_weights(file)


def test_a_file_of_too_many_parts_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("vlbench.data.formats.pickles.MOST_OPCODES", 1_000)
    file = tmp_path / "w.pt"
    file.write_bytes(b"\x80\x02(" + b"]" * 1_001 + b"l.")
    with pytest.raises(WeightsError, match=r"w\.pt cannot be .*: it has too many parts"):
        read_weights(file)
