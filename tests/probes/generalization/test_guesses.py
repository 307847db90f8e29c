import pytest
import torch

from vlbench.probes.generalization.guesses import guess_score


def test_a_score_has_the_chance_and_the_floor_of_its_number_of_guesses():
    right = torch.tensor([0, 0, 0, 1, 1, 2])
    credit = torch.tensor([1, 0.5, 0, 0, 0, 0], dtype=torch.float64)
    one, two = (guess_score("accuracy", credit, right, 4, guesses) for guesses in (1, 2))
    assert (one.value, one.n, one.chance) == (pytest.approx(0.25), 6, 0.25)
    assert one.floors == {"majority_class": pytest.approx(1 / 2)}
    assert (two.chance, two.floors) == (0.5, {"majority_classes": pytest.approx(5 / 6)})
