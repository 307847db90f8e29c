import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

import vlbench.system.digests
from vlbench.code.fingerprints import contents, identified, weights_digest
from vlbench.code.functions import load_object

CPU = torch.device("cpu")
FILE = "class A:\n    def __init__(self, w):\n        self.w = w\n"


class Holds:
    """An adapter made by hand, with any attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


class Vouched(Holds):
    fingerprint = "release 3"


class Slotted:
    __slots__ = ("w",)

    def __init__(self, w):
        self.w = w


class SlottedToo(Slotted):
    pass


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor


class Buffered(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.register_buffer("scale", torch.tensor([value]), persistent=False)


@pytest.fixture(autouse=True)
def no_memory():
    token = vlbench.system.digests.memory.set(None)
    yield
    vlbench.system.digests.memory.reset(token)


def identity(adapter, params=None, dtype=torch.float32):
    return identified(adapter, params, CPU, dtype).identity


def linear(value):
    layer = nn.Linear(2, 2)
    nn.init.constant_(layer.weight, value)
    nn.init.zeros_(layer.bias)
    return layer


def written(folder, text):
    folder.mkdir()
    (folder / "zz.py").write_text(text)
    return load_object("zz:A", [folder])


def test_two_objects_that_are_alike_have_one_identity():
    one, two = (Holds(net=linear(1.0), w=torch.ones(2), size=8) for _ in range(2))
    assert identity(one) == identity(two) != ""
    assert identity(one, {"size": 8}) == identity(two, {"size": 8}) != ""


@pytest.mark.parametrize(
    "other",
    [
        Holds(net=linear(2.0), w=torch.ones(2), size=8),
        Holds(net=linear(1.0), w=torch.zeros(2), size=8),
        Holds(net=linear(1.0), w=np.zeros(2), size=8),
        Holds(net=linear(1.0), w=torch.ones(2), size=9),
    ],
)
def test_weights_and_attributes_change_the_identity_of_an_object(other):
    assert identity(other) not in {"", identity(Holds(net=linear(1.0), w=torch.ones(2), size=8))}


def test_weights_arguments_and_dtype_change_the_identity_of_a_named_model():
    made = [
        identity(Holds(w=torch.ones(2)), {"size": 8}),
        identity(Holds(w=torch.zeros(2)), {"size": 8}),
        identity(Holds(w=torch.ones(2)), {"size": 9}),
        identity(Holds(w=torch.ones(2)), {"size": 8}, torch.bfloat16),
        identity(Holds(w=torch.ones(2)), {}),
    ]
    assert len(set(made)) == 5


def test_the_source_file_changes_the_identity_and_its_place_does_not(tmp_path):
    same, too, other = (
        written(tmp_path / name, text)
        for name, text in [("a", FILE), ("b", FILE), ("c", FILE + "CHANGED = 1\n")]
    )
    assert identity(same(1), {}) == identity(too(1), {}) != identity(other(1), {})


def test_two_classes_of_one_file_have_two_identities():
    assert identity(Holds(w=1), {}) != identity(Vouched(w=1), {})


def test_an_object_with_an_attribute_that_cannot_be_digested_has_no_identity():
    assert identity(Holds(clean=lambda text: text)) == ""
    assert identity(Holds(generator=torch.Generator())) == ""


def test_the_arguments_vouch_for_a_named_model_whatever_it_holds():
    assert identity(Holds(clean=lambda text: text), {"size": 8}) != ""


def test_the_device_of_an_object_is_no_attribute():
    assert identity(Holds(device=CPU)) == identity(Holds()) != ""


def test_a_fingerprint_stands_for_everything_in_an_object():
    one, two = Vouched(f=lambda: 1, w=torch.ones(1)), Vouched(f=lambda: 2, w=torch.zeros(1))
    assert identity(one) == identity(two) != ""
    assert weights_digest(one) == vlbench.system.digests.digest("release 3")


def test_a_fingerprint_may_be_a_method_or_an_attribute():
    one, two = Holds(fingerprint="a"), Holds(fingerprint=lambda: "a")
    assert weights_digest(one) == weights_digest(two) != weights_digest(Holds(fingerprint="b"))


def test_the_digest_of_weights_sees_tensors_wherever_they_are():
    adapters = [
        Holds(a=torch.ones(2)),
        Holds(b=torch.ones(2)),
        Holds(a=[torch.ones(2)]),
        Holds(a={"x": torch.ones(2)}),
        Holds(a={"x": (linear(1.0), linear(2.0))}),
        Holds(a={"x": (linear(2.0), linear(1.0))}),
        Holds(),
    ]
    assert len({weights_digest(adapter) for adapter in adapters}) == len(adapters)


def test_the_digest_of_weights_does_not_see_what_has_none():
    assert weights_digest(Holds(w=torch.ones(2), size=8)) == weights_digest(Holds(w=torch.ones(2)))


def test_where_weights_lie_does_not_matter_but_their_dtype_does():
    weights = torch.ones(4)[:2]
    assert weights_digest(Holds(w=weights)) == weights_digest(Holds(w=torch.ones(2)))
    assert weights_digest(Holds(w=weights)) != weights_digest(Holds(w=weights.double()))


def test_modules_of_other_make_change_the_identity_of_an_object():
    one, two = identity(Holds(net=nn.ReLU())), identity(Holds(net=nn.Tanh()))
    assert one != two or one == two == ""


def test_options_of_modules_change_the_identity_of_an_object():
    one, two = identity(Holds(net=nn.MaxPool2d(2))), identity(Holds(net=nn.MaxPool2d(3)))
    assert one != two or one == two == ""


@pytest.mark.parametrize("factor", [2.0, torch.nn.ReLU, torch.float16])
def test_what_parts_of_modules_hold_changes_the_identity_of_an_object(factor):
    one, two = (identity(Holds(net=nn.Sequential(Times(f)))) for f in (1.0, factor))
    assert "" != one != two != ""


def test_training_mode_changes_the_identity_of_an_object():
    one, two = (identity(Holds(net=nn.Dropout().train(mode))) for mode in (True, False))
    assert one != two


def test_a_hook_or_a_part_without_a_file_leaves_no_identity(monkeypatch):
    monkeypatch.setitem(sys.modules, "zz_notebook", types.ModuleType("zz_notebook"))
    typed = type("Typed", (nn.Module,), {"__module__": "zz_notebook"})()
    hooked = nn.ReLU()
    hooked.register_forward_hook(lambda *given: -given[-1])
    assert [identity(Holds(net=net)) for net in (typed, hooked)] == ["", ""]


def test_a_dtype_changes_the_identity_of_an_object():
    assert identity(Holds(kept=torch.float16)) != identity(Holds(kept=torch.float32))


def test_an_object_with_slots_and_more_has_no_identity():
    assert identity(SlottedToo(torch.ones(1))) == ""


def test_slots_change_the_identity_of_an_object():
    one, two = identity(Slotted(torch.ones(1))), identity(Slotted(torch.zeros(1)))
    assert one != two or one == two == ""


def test_buffers_that_are_not_saved_change_the_weights():
    assert weights_digest(Holds(net=Buffered(1.0))) != weights_digest(Holds(net=Buffered(2.0)))


def test_a_fingerprint_of_none_vouches_for_nothing():
    assert identity(Holds(fingerprint=None, clean=lambda text: text)) == ""


def test_an_object_of_a_class_without_a_file_has_no_identity(monkeypatch):
    notebook = types.ModuleType("zz_notebook")
    monkeypatch.setitem(sys.modules, "zz_notebook", notebook)
    adapter = type("Typed", (), {"__module__": "zz_notebook"})()
    assert identity(adapter) == ""


def test_a_path_that_is_there_counts_by_its_content(tmp_path):
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).write_text("same")
    digests = [
        vlbench.system.digests.digest(contents({"weights": value}))
        for value in (tmp_path / "a.pt", str(tmp_path / "b.pt"))
    ]
    assert digests[0] == digests[1]


def test_words_that_are_no_paths_stay_words():
    params = {"weights": "openai/clip", "name": "v1.0", "size": 8, "flag": None}
    assert contents(params) == params


def test_paths_within_a_list_count_by_their_content(tmp_path):
    (tmp_path / "a.pt").write_text("one")
    before = vlbench.system.digests.digest(contents({"files": [str(tmp_path / "a.pt")]}))
    (tmp_path / "a.pt").write_text("other")
    assert vlbench.system.digests.digest(contents({"files": [str(tmp_path / "a.pt")]})) != before


def test_a_long_text_with_a_slash_is_a_text():
    params = {"prompt": "a photo of a cat, a dog, " * 20 + "and/or a bird"}
    assert contents(params) == params


def test_a_live_adapter_is_identified_with_its_source_and_weights():
    adapter = Holds(w=torch.ones(1))
    live = identified(adapter, {}, CPU, torch.float32)
    assert live.adapter is adapter
    assert live.source.startswith("Holds sha256:")
    assert live.weights == weights_digest(adapter)


def test_the_file_of_a_base_class_is_part_of_the_source(tmp_path):
    (tmp_path / "zz_base.py").write_text("class Base:\n    size = 1\n")
    child = "from vlbench.code.plugins import load_file\nfrom pathlib import Path\n"
    child += "class Child(load_file(Path(__file__).parent / 'zz_base.py').Base): ...\n"
    (tmp_path / "zz_child.py").write_text(child)
    made = load_object("zz_child:Child", [tmp_path])
    before = identity(made())
    (tmp_path / "zz_base.py").write_text("class Base:\n    size = 2\n")
    assert identity(made()) != before
