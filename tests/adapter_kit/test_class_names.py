import pytest

from vlbench.adapter_kit.class_names import class_order_of, read_class_names
from vlbench.errors import CannotDo, WeightsError

ORDERS = [
    ("imagenet", 1000, False, "imagenet"),
    ("", 1000, True, "imagenet"),
    ("", 1000, False, ""),
    ("", 21843, True, ""),
    ("names.txt", 1000, True, ""),
    ("imagenet", 0, False, ""),
]


@pytest.mark.parametrize(("classes", "count", "published", "order"), ORDERS)
def test_the_order_of_imagenet_is_said_never_guessed(classes, count, published, order):
    assert class_order_of(classes, count, published=published) == order


def test_the_order_of_imagenet_is_of_a_thousand_classes():
    with pytest.raises(WeightsError, match="means 1,000 classes, but the weights have 10"):
        class_order_of("imagenet", 10, published=False)


def test_a_file_has_a_name_per_line_and_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "names.txt"
    file.write_bytes(b"\xef\xbb\xbfcat\r\n sea lion, seal \n\n")
    assert read_class_names(str(file), 2) == ["cat", "sea lion, seal"]


@pytest.mark.parametrize("sign", "\u2028\u0085\x0c\x0b\x1c")
def test_a_sign_inside_a_name_ends_no_line(sign, tmp_path):
    (tmp_path / "names.txt").write_text(f"sea{sign}lion\ncat\n", "utf-8")
    assert read_class_names(str(tmp_path / "names.txt"), 2) == [f"sea{sign}lion", "cat"]


def test_a_file_of_another_number_of_names_is_refused(tmp_path):
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    with pytest.raises(WeightsError, match=r"names\.txt names 2 classes, .* the weights have 3"):
        read_class_names(str(tmp_path / "names.txt"), 3)


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(WeightsError, match=r"classes: .*names\.txt cannot be read"):
        read_class_names(str(tmp_path / "names.txt"), 3)


def test_without_a_file_the_names_are_not_known():
    with pytest.raises(CannotDo, match="names of this checkpoint's 7 classes are not known"):
        read_class_names("", 7)
