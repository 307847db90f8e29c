import torch

from vlbench.check.samples import ODD_IMAGES, ODD_TEXTS, draw_samples

CPU = torch.device("cpu")


def test_the_same_samples_are_drawn_every_time():
    one, two = draw_samples(CPU, 5), draw_samples(CPU, 5)
    assert [image.tobytes() for image in one.images] == [image.tobytes() for image in two.images]
    assert torch.equal(one.pictures[0].regions.vectors, two.pictures[0].regions.vectors)


def test_the_first_four_are_plain_and_of_one_size_and_the_others_are_odd():
    samples = draw_samples(CPU, 5)
    assert {image.size for image in samples.images[:4]} == {(56, 40)}
    assert all(samples.texts[:4])
    assert set(ODD_IMAGES) == set(ODD_TEXTS) == {4, 5, 6}
    assert samples.images[6].size == (1, 1)
    assert samples.texts[4] == ""


def test_every_picture_has_three_regions_inside_it_as_wide_as_asked():
    for picture in draw_samples(CPU, 5).pictures:
        boxes, (width, height) = picture.regions.boxes, picture.image.size
        assert picture.regions.vectors.shape == (3, 5)
        assert (boxes >= 0).all()
        assert (boxes <= torch.tensor([width, height, width, height])).all()
