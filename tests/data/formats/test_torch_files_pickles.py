import io
import pickle
from collections import OrderedDict

import pytest
import torch
from hostile_code import Bomb

from vlbench.data.formats.torch_files import Inert, Part, read_pickle


class Described:
    """Pickled as a tensor that views a storage."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return torch._utils._rebuild_tensor_v2, self.arguments


class Storing(pickle.Pickler):
    def persistent_id(self, thing):
        return "the storage" if thing is Storing else None


def described(*arguments):
    stream = io.BytesIO()
    Storing(stream, 2).dump(Described(*arguments))
    return io.BytesIO(stream.getvalue())


def four(_):
    return torch.arange(4.0)


def test_plain_values_are_read():
    content = OrderedDict(a=1, b=[2.5, None, "text"], c=(True, torch.Size([2, 3])))
    assert read_pickle(io.BytesIO(pickle.dumps(content, 2))) == content


def test_a_tensor_views_its_storage():
    tensor = read_pickle(described(Storing, 1, (2, 1), (2, 1), False, None), four)
    assert tensor.tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("offset", "size", "stride"), [(1, (4,), (1,)), (-1, (1,), (1,)), (0, (2,), (-1,))]
)
def test_a_tensor_outside_its_storage_is_refused(offset, size, stride):
    with pytest.raises(RuntimeError, match=r"storage|[Nn]egative|offset"):
        read_pickle(described(Storing, offset, size, stride, False, None), four)


def test_a_tensor_larger_than_its_storage_is_refused():
    with pytest.raises(pickle.UnpicklingError, match="1099511627776 numbers repeats its storage"):
        read_pickle(described(Storing, 0, (2**40,), (0,), False, None), four)


def test_a_class_of_no_state_dict_is_refused_and_not_run(tmp_path):
    stream = io.BytesIO(pickle.dumps(Bomb(tmp_path / "gone off")))
    with pytest.raises(pickle.UnpicklingError, match="which is no part of a state dict"):
        read_pickle(stream)
    assert not (tmp_path / "gone off").exists()


def test_a_storage_where_none_belongs_is_refused():
    with pytest.raises(pickle.UnpicklingError, match="'the storage' has no place here"):
        read_pickle(described(Storing, 0, (1,), (1,), False, None))


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # remembered under the number 2 ** 31 - 1
        b"Np2147483647\n.",
        b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b".",
        b"\x80\x02\x82\x01.",
        b"Pa name\n.",
    ],
)
def test_instructions_that_take_memory_for_nothing_are_refused(program):
    with pytest.raises((pickle.UnpicklingError, ValueError), match=r"is not allowed|expected"):
        read_pickle(io.BytesIO(program))


def test_the_stream_stands_at_the_end_of_a_pickle():
    stream = io.BytesIO(pickle.dumps(1) + pickle.dumps("two") + b"rest")
    assert [read_pickle(stream), read_pickle(stream), stream.read()] == [1, "two", b"rest"]


def test_types_of_numbers_are_values():
    assert read_pickle(io.BytesIO(b"ctorch\nfloat16\n.")) is torch.float16
    assert read_pickle(io.BytesIO(b"ctorch\nHalfStorage\n.")) is torch.float16


def test_an_inert_object_is_whatever_is_done_with_it():
    assert Inert(1, two=2) is Inert
    assert Inert.anything is Inert
    Inert["key"] = 3
    assert Inert().anything() is Inert


def test_a_part_has_the_attributes_of_its_state_and_no_others():
    part, odd = Part(), Part()
    part.__setstate__({"weight": 1})
    odd.__setstate__((1, 2))
    assert part.attributes == {"weight": 1}
    assert odd.attributes == {}
