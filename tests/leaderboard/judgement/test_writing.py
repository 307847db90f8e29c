import pytest
from judged import sheets

from vlbench.errors import UnknownNameError


def written(folder):
    return {
        file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def test_the_key_lies_apart_from_what_judges_are_given(tmp_path):
    folder = sheets(tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == ["key.json", "sheets"]
    names = {str(file) for file in written(folder / "sheets")}
    tables = {f"{name}_relevance" for name in ("caption", "image")} | {"readability"}
    assert names == {f"{name}.{kind}" for name in tables for kind in ("csv", "html")} | {
        f"images/{i}.png" for i in range(1, 5)
    }


def test_the_same_row_and_seed_write_the_same_files(tmp_path):
    first, same, other = (
        written(sheets(tmp_path / name, seed=seed)) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == same != other


def test_sheets_are_never_written_over(tmp_path):
    sheets(tmp_path)
    with pytest.raises(UnknownNameError, match=r"already has the key\.json of other sheets"):
        sheets(tmp_path)
