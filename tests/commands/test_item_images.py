import pytest
from PIL import Image
from sources import make_source

from vlbench.commands.item_images import images_of
from vlbench.data.image_folder import image_folder
from vlbench.errors import DataError, UnknownNameError
from vlbench.planning.options import Options


def test_images_are_found_by_their_content(tmp_path):
    source = make_source(tmp_path)
    test = image_folder(root=tmp_path / "images").splits["test"]["image"]
    digest = test.examples().digests[4]
    found = images_of("few_shot_colours", [digest, digest], Options(include_path=[source]))
    assert found == {digest: test[4]}
    assert isinstance(found[digest], Image.Image)


def test_items_of_other_data_are_refused(tmp_path):
    options = Options(include_path=[make_source(tmp_path)])
    with pytest.raises(DataError, match="1 of 1 items are not among the images of the data here"):
        images_of("few_shot_colours", ["0" * 16], options)


def test_a_task_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="few_shot_colors"):
        images_of("few_shot_colors", [], Options(include_path=[make_source(tmp_path)]))
