import numpy as np
import pytest
import torch
from question_fakes import TOY_TEXTS, changed, toy_asked, toy_trainings, weights

from vlbench.errors import DataError
from vlbench.probes.question_generation.bert_gen import Source
from vlbench.probes.question_generation.inputs import ObjectReader
from vlbench.probes.question_generation.measures import other_rows
from vlbench.probes.question_generation.similarity import (
    CrossModalReader,
    random_transformer,
    similarities,
)
from vlbench.probes.question_generation.steps import STEPS, QuestionInputs


@pytest.fixture(scope="module")
def shown():
    return QuestionInputs.of(toy_asked())


@pytest.fixture(scope="module")
def trainings():
    return [toy_trainings(seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def alike(trainings, shown):
    return similarities(trainings, shown)


def reader(network):
    return CrossModalReader(network, TOY_TEXTS, ObjectReader(2))


def test_cosines_are_those_of_cls_in_the_module_s_own_passes(trainings, shown):
    network, objects = trainings[0].untrained(), shown.regions[0]
    (found,) = reader(network).cosines([objects], ["0"], ["a thing0 here"], ["thing1"])
    with torch.no_grad():
        tokens = [[2, *own] for own in TOY_TEXTS.captions(["a thing0 here", "thing1"])]
        given = [{"input_ids": torch.tensor([own])} for own in tokens]
        source = Source(ObjectReader(2).read([objects], ["0"])[0])
        given.append({"inputs_embeds": network.read([source]).embedded})
        passed = [network.module(**own, output_hidden_states=True) for own in given]
        *texts, image = (one.hidden_states for one in passed)
    for k, states in enumerate(texts):
        for layer in (1, 2):
            cosine = torch.cosine_similarity(states[layer][0, 0], image[layer][0, 0], 0)
            assert found[k, layer - 1].item() == pytest.approx(cosine.item(), abs=1e-5)


def test_images_and_captions_of_unequal_lengths_are_read_as_if_alone(trainings, shown):
    network = reader(trainings[0].untrained())
    captions, others = ["a thing0 here", "thing1"], ["what", "what is the thing2 here"]
    regions = [shown.regions[0], shown.regions[1]]
    together = network.cosines(regions, ["0", "1"], captions, others)
    for i in (0, 1):
        (alone,) = network.cosines([regions[i]], [str(i)], [captions[i]], [others[i]])
        torch.testing.assert_close(together[i], alone, atol=1e-6, rtol=0)


def test_an_image_that_cannot_be_read_is_named(trainings):
    with pytest.raises(DataError, match="image dog has no regions"):
        reader(trainings[0].untrained()).cosines([None], ["dog"], ["a"], ["a"])


def test_similarity_is_of_a_random_transformer_and_of_three_steps(alike):
    assert list(alike) == ["random", "1", "2", "3"]
    for cosines in alike.values():
        # Seeds, images, own and another's caption, layers.
        assert (cosines.shape, cosines.dtype) == ((2, 4, 2, 2), np.float64)
        assert np.abs(cosines).max() <= 1 + 1e-6


@pytest.mark.parametrize("name", ["1", "2", "3"])
def test_a_step_is_compared_as_its_network_reads_own_and_other_captions(
    alike, trainings, shown, name
):
    (step,) = (step for step in STEPS if step.name == name)
    others = [shown.captions[row] for row in other_rows(4)]
    for seed, of_seed in enumerate(trainings):
        given = list(shown.regions), list(shown.names), list(shown.captions), others
        found = reader(of_seed.network(step)).cosines(*given)
        np.testing.assert_allclose(alike[name][seed], torch.stack(found).numpy(), atol=1e-6)


def test_equal_captions_are_as_alike_as_the_own(trainings, shown):
    same = shown._replace(captions=shown.captions.select([0] * 4))
    for cosines in similarities(trainings[:1], same).values():
        np.testing.assert_array_equal(cosines[:, :, 0], cosines[:, :, 1])


def test_a_random_transformer_has_other_weights_of_the_same_form_by_its_seed(trainings):
    before = weights(trainings[0].untrained())
    drawn = [random_transformer(trainings[0].untrained(), seed) for seed in (3, 3, 4)]
    one, again, other = map(weights, drawn)
    assert not changed(one, again)
    assert "projection" not in changed(before, one)
    assert changed(one, other)
    assert {n: w.shape for n, w in one.items()} == {n: w.shape for n, w in before.items()}


def test_a_random_transformer_leaves_torchs_own_generator_and_dropout_off(trainings):
    before = torch.get_rng_state()
    assert not random_transformer(trainings[0].untrained(), 3).module.training
    assert torch.equal(before, torch.get_rng_state())
