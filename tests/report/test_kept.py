import pytest

from vlbench.files import default_cache
from vlbench.report import kept as module
from vlbench.report.kept import kept


class Maker:
    """Makes some bytes, and counts how often."""

    def __init__(self, content=b"made\nof two lines"):
        self.content, self.times = content, 0

    def __call__(self):
        self.times += 1
        return self.content


@pytest.mark.parametrize("content", [b"made\nof two lines", b""])
def test_what_was_made_of_the_same_parts_is_not_made_again(content):
    make = Maker(content)
    assert [kept(["x", 1], make) for _ in range(2)] == [content] * 2
    assert make.times == 1


def test_other_parts_and_other_code_make_another(monkeypatch):
    make = Maker()
    for parts in (["x", 1], ["x", 2]):
        kept(parts, make)
    monkeypatch.setattr(module, "_code", lambda: "changed")
    kept(["x", 1], make)
    assert make.times == 3


@pytest.mark.parametrize("broken", [b"", b"made", b"0\nmade"])
def test_one_that_is_broken_counts_as_absent(broken):
    make = Maker()
    kept([], make)
    (file,) = (default_cache() / "boards").iterdir()
    file.write_bytes(broken)
    assert (kept([], make), make.times) == (make.content, 2)
    assert (kept([], make), make.times) == (make.content, 2)


def test_where_nothing_can_be_kept_it_is_made_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path / "file"))
    make = Maker()
    assert [kept([], make) for _ in range(2)] == [make.content] * 2


def test_what_was_made_with_another_library_is_not_taken(monkeypatch):
    make = Maker()
    kept([], make)
    monkeypatch.setattr(module, "version", lambda _: "0.0")
    module._code.cache_clear()
    kept([], make)
    module._code.cache_clear()
    assert make.times == 2
