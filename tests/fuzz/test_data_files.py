"""A broken file of data is loaded, or named by a VlbenchError: never a crash, a wait or a bomb."""

import pytest
from data_files import MADE, REAL, repacked
from mutants import mutant
from trials import failures, loaded, rng_of

# Any number may be asked for, and each mutant has a limit of its own.
pytestmark = pytest.mark.timeout(0)

# A failure is tried again with the number that it begins with, for example `trial(17)`.


def wrong(name, form, folder, count):
    """Return what goes wrong with so many mutants of a set in a folder."""
    form.load(folder)
    right = {file: (folder / file).read_bytes() for file in form.files}
    names = [path.name for path in folder.rglob("*")]

    def trial(number):
        rng = rng_of(name, number)
        file = rng.choice(form.files)
        others = [content for other, content in right.items() if other != file]

        def change(content):
            return mutant(content, others, rng)

        inside = rng.random() < 0.7
        broken = repacked(file, right[file], change) if inside else change(right[file])
        (folder / file).write_bytes(broken)
        found = loaded(lambda: form.load(folder), names)
        (folder / file).write_bytes(right[file])
        return found and f"{file}: {found}"

    return failures(count, trial, folder.parent / "report")


@pytest.mark.parametrize("name", MADE)
def test_a_broken_file_is_loaded_or_named(name, tmp_path, mutants):
    folder = tmp_path / "set"
    folder.mkdir()
    MADE[name].put(folder)
    assert wrong(name, MADE[name], folder, mutants) == []


@pytest.mark.parametrize("name", REAL)
def test_a_broken_real_file_is_loaded_or_named(name, tmp_path, mutants, real_data):
    folder = tmp_path / "set"
    folder.mkdir()
    REAL[name].put(folder, real_data)
    assert wrong(f"real {name}", REAL[name], folder, mutants) == []
