import functools
import io
import pickle
import struct

import pytest

from vlbench.data.formats.pickles import UNREADABLE, read_pickle, require_bounded, unreadable

BOMBS = {
    "memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "memo of protocol 0": b"(dp4000000000\n.",
    "bytes": b"\x80\x05\x8e" + struct.pack("<Q", 1 << 40) + b".",
    "byte array": b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".",
    "text": b"\x80\x04X\xff\xff\xff\x7f.",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 40) + b"}.",
    "parts": b"\x80\x02(" + b"]" * 4_000_001 + b"l.",
    "nested tuples": b"\x80\x02}N" + b"\x85" * 5_000 + b"K\x00s.",
}


def put(folder, content):
    (folder / "a.pkl").write_bytes(content)
    return folder / "a.pkl"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_content_is_read(tmp_path, protocol):
    content = {"a": [1, 2.5, -(10**20)], b"b": ("c", None, True), 3: {"d": b"e"}}
    plain = {key: value for key, value in content.items() if protocol > 2 or key == "a"}
    assert read_pickle(put(tmp_path, pickle.dumps(plain, protocol))) == plain


@pytest.mark.parametrize(
    "bomb",
    [
        pytest.param(bomb, marks=pytest.mark.nightly if name == "parts" else ())
        for name, bomb in BOMBS.items()
    ],
    ids=BOMBS,
)
def test_what_announces_more_than_it_holds_is_refused_in_time(tmp_path, bomb, little_memory):
    file = put(tmp_path, bomb)
    with little_memory(), pytest.raises(UNREADABLE):
        read_pickle(file)


def test_only_what_is_allowed_is_called(tmp_path):
    file = put(tmp_path, pickle.dumps(bytearray(b"a"), 2))
    with pytest.raises(pickle.UnpicklingError, match=r"it loads '.*bytearray'"):
        read_pickle(file)
    allowed = {("__builtin__", "bytearray"): lambda *_: 7, ("_codecs", "encode"): lambda *_: b""}
    assert read_pickle(file, allowed) == 7


def test_the_error_names_the_file_and_what_it_should_be():
    error = unreadable("a.pkl", "an index", ValueError("x" * 999))
    assert str(error).startswith("a.pkl is not an index (ValueError: xxx")
    assert len(str(error)) < 300


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tuples_side_by_side_do_not_count_as_nested(protocol):
    stream = io.BytesIO(pickle.dumps({i: ((i, "a"), (i + 0.5,)) for i in range(300)}, protocol))
    require_bounded(stream)
    assert stream.read() == b""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_tuples_may_nest_a_hundred_times_and_no_more(protocol):
    nested = functools.reduce(lambda inner, _: (inner,), range(100), None)
    require_bounded(io.BytesIO(pickle.dumps(nested, protocol)))
    with pytest.raises(pickle.UnpicklingError, match="it nests more than 100 tuples"):
        require_bounded(io.BytesIO(pickle.dumps({(nested,): 1}, protocol)))
