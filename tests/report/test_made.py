import pytest

from vlbench.files import default_cache
from vlbench.report import made as module
from vlbench.report.made import Made


class Maker:
    """Makes a file in a folder, and counts how often."""

    def __init__(self, folder):
        self.file, self.times = folder / "figures" / "made", 0

    def __call__(self):
        self.times += 1
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text("made")
        return [self.file]


def build(make, parts=("x", 1), name="t"):
    made = Made(make.file.parent.parent)
    files = made.keep(name, parts, make)
    made.save()
    return files


@pytest.fixture
def make(tmp_path):
    return Maker(tmp_path)


def test_what_was_made_of_the_same_parts_is_not_made_again(make):
    assert [build(make) for _ in range(3)] == [[make.file]] * 3
    assert make.times == 1


def test_what_made_nothing_is_not_tried_again(tmp_path):
    calls = []
    for _ in range(2):
        made = Made(tmp_path)
        assert made.keep("t", [], lambda: calls.append(1) or []) == []
        made.save()
    assert calls == [1]


def test_other_parts_another_name_and_other_code_make_it_anew(make, monkeypatch):
    build(make)
    build(make, ("x", 2))
    build(make, ("x", 2), "u")
    monkeypatch.setattr(module, "_code", lambda: "changed")
    build(make, ("x", 2), "u")
    assert make.times == 4


@pytest.mark.parametrize("change", [lambda f: f.unlink(), lambda f: f.write_text("of a stranger")])
def test_a_file_that_is_gone_or_another_is_made_anew(make, change):
    build(make)
    change(make.file)
    build(make)
    assert (make.times, make.file.read_text()) == (2, "made")


@pytest.mark.parametrize("broken", ["", "[", "{}"])
def test_a_record_that_is_broken_counts_as_absent(make, broken):
    build(make)
    (file,) = (default_cache() / "built").iterdir()
    file.write_text(broken)
    build(make)
    assert make.times == 2


def test_where_nothing_can_be_recorded_it_is_made_all_the_same(make, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VLBENCH_CACHE_DIR", str(tmp_path / "file"))
    assert [build(make) for _ in range(2)] == [[make.file]] * 2


def test_what_was_made_with_another_library_is_made_anew(make, monkeypatch):
    build(make)
    monkeypatch.setattr(module, "version", lambda _: "0.0")
    module._code.cache_clear()
    build(make)
    module._code.cache_clear()
    assert make.times == 2
