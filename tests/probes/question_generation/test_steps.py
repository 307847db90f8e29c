import pytest
from question_fakes import changed, toy_asked, toy_trainings, weights

from vlbench.probes.question_generation.steps import STEPS, QuestionInputs

BY_NAME = {step.name: step for step in STEPS}


@pytest.fixture
def trainings():
    return toy_trainings()


def test_steps_start_from_the_weights_of_those_before(trainings):
    drawn = weights(trainings.untrained())
    after = {name: weights(trainings.network(step)) for name, step in BY_NAME.items()}
    start = {name: weights(trainings._start(step)) for name, step in BY_NAME.items()}
    assert not changed(start["1"], drawn)
    assert not changed(start["2"], after["1"])
    # Step 2 trains nothing but W: no other weight is touched.
    assert changed(after["1"], after["2"]) == {"projection"}
    assert not changed(start["2 unfrozen"], after["1"])
    assert not changed(start["3"], after["2"])
    assert not changed(start["3 from scratch"], drawn)
    for name in ("2 unfrozen", "3", "3 from scratch"):
        assert "projection" in changed(start[name], after[name])
        assert len(changed(start[name], after[name])) > 10


def test_the_model_under_test_stays_as_it_was(trainings):
    module = trainings._model.masked_lm()[1]
    before = {n: w.clone() for n, w in module.state_dict().items()}
    trainings.network(BY_NAME["1"])
    assert not changed(before, module.state_dict())


def test_another_image_leaves_the_caption_and_the_reverse():
    shown = QuestionInputs.of(toy_asked())
    images, captions = shown.with_other_images(), shown.with_other_captions()
    assert list(images.captions) == list(shown.captions)
    assert list(captions.names) == list(shown.names)
    assert all(a != b for a, b in zip(images.names, shown.names, strict=True))
    assert all(a != b for a, b in zip(captions.captions, shown.captions, strict=True))
    assert [images.regions.rows[i] == int(n) for i, n in enumerate(images.names)] == [True] * 4
