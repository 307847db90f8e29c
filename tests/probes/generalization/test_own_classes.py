import pytest
import torch

from vlbench.errors import CannotDo
from vlbench.probes.generalization.own_classes import refuse_other_classes


class Names:
    def __init__(self, *names):
        self.names = names

    def class_names(self):
        if not self.names:
            raise CannotDo("nobody knows")
        return self.names


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["tench, Tinca tinca", "goldfish"], ["tench", "gold"]),
        (["0", "1"], ["tench", "goldfish"]),
        ([], ["tench", "goldfish"]),
    ],
)
def test_classes_that_share_a_word_or_have_no_names_are_the_datas(names, classes):
    refuse_other_classes(Names(*names), torch.zeros(3, 2), classes)


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((3, 5), CannotDo, "has 5 classes, the data 2"),
        ((3, 2), CannotDo, "its first is 'cat', the data's 'tench'"),
        ((3,), ValueError, r"logits have shape \[3\]"),
    ],
)
def test_other_classes_are_refused(shape, error, message):
    with pytest.raises(error, match=message):
        refuse_other_classes(Names("cat", "dog"), torch.zeros(shape), ["tench", "goldfish"])
