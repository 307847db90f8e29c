import pytest
from sources import TASK, write

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.loaders import full_loader, shipped_loaders
from vlbench.catalog.sources import PACKAGE
from vlbench.catalog.specs import load_tasks
from vlbench.commands.ls import list_things
from vlbench.errors import SpecError
from vlbench.run.options import Options
from vlbench.run.task import resolve_task

FULL = "vlbench.data.image_folder:image_folder"
BARE = TASK.replace(f'"{FULL}"', "image_folder")


def loaded(source, text):
    (spec,) = load_tasks(write(source / "tasks" / "mine.yaml", text), source)
    return spec


def test_a_bare_name_stands_for_the_shipped_loader_of_that_name(source):
    assert loaded(source, BARE).data["loader"] == FULL
    assert loaded(source, BARE).document.values["data"]["loader"] == "image_folder"


def test_every_shipped_loader_has_its_full_name_as_listed():
    listed = {row["name"] for row in list_things("data", [])}
    assert {name for names in shipped_loaders().values() for name in names} == listed
    several = {bare for bare, names in shipped_loaders().items() if len(names) > 1}
    bare = set(shipped_loaders()) - several
    assert {full_loader(name, [], "t.yaml:5") for name in bare} < listed
    assert several == {"images"}


def test_a_bare_name_of_several_loaders_is_refused_with_all_of_them(source):
    message = (
        r"mine\.yaml:5: 'images' is the name of vlbench\.data\.hub:images and vlbench\.data\.table:"
        r"images and vlbench\.data\.webdataset:images; write the full name"
    )
    with pytest.raises(SpecError, match=message):
        loaded(source, BARE.replace("image_folder", "images"))


def test_an_unknown_bare_name_is_told_with_the_nearest(source):
    with pytest.raises(SpecError, match=r"mine\.yaml:5: no loader .*; did you mean image_folder"):
        loaded(source, BARE.replace("image_folder", "image_foldr"))


def test_the_name_of_a_module_is_told_with_its_loaders(source):
    message = r"no loader is named 'webdataset'; write vlbench\.data\.webdataset:images"
    with pytest.raises(SpecError, match=message):
        loaded(source, BARE.replace("image_folder", "webdataset"))


def test_a_bare_name_is_looked_up_in_the_source_first(source):
    write(source / "data" / "digits.py", "def digits(*, root): ...\n")
    assert loaded(source, BARE.replace("image_folder", "digits")).data["loader"] == "digits:digits"
    write(source / "tasks" / "mine.yaml", BARE.replace("image_folder", "digits"))
    task = resolve_task(load_catalog([source]), "mine", True, Options())
    assert task.loader.__code__.co_filename == str(source / "data" / "digits.py")


def test_what_is_not_bare_stays_as_it_is(source):
    other = "vlbench.data.digits:digitz"
    assert loaded(source, TASK.replace(FULL, other)).data["loader"] == other


def test_the_folders_of_a_wheel_are_no_folders_of_a_task():
    assert full_loader("digits", [PACKAGE / "data"], "") == "vlbench.data.digits:digits"
