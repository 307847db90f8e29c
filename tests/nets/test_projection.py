import pytest
import torch

from vlbench.nets.projection import LabelledFeatures, ProjectionTraining, train_projection


def randoms(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_the_map_is_that_of_the_loss_written_out():
    # One epoch of one batch: the step follows the gradient of the mean over images of
    # (sum over c of max(0, 1 - p_y + p_c) - 1) / (K - 1).
    images, words = LabelledFeatures(randoms(6, 3), torch.arange(6) % 3), randoms(4, 5, seed=1)
    training = ProjectionTraining(1, 6, 1e-3, 5e-4)
    found = train_projection(
        images, words, training, torch.Generator().manual_seed(0), torch.device("cpu")
    )
    bound = 1 / 3**0.5
    start = torch.empty(5, 3).uniform_(-bound, bound, generator=torch.Generator().manual_seed(0))
    weight = start.clone().requires_grad_()
    p = (images.features @ weight.T @ words.T).softmax(1)
    own = p.gather(1, images.label[:, None])
    loss = (((1 - own + p).clamp(min=0).sum(1) - 1) / 3).mean()
    adam = torch.optim.Adam([weight], lr=1e-3, weight_decay=5e-4)
    loss.backward()
    adam.step()
    assert torch.allclose(found, weight, atol=1e-6)
    assert not torch.equal(found, start)


def test_a_tenth_epoch_halves_the_step():
    images, words = LabelledFeatures(randoms(6, 3), torch.arange(6) % 3), randoms(4, 5, seed=1)
    ends = []
    for epochs in (10, 11, 20, 21):
        training = ProjectionTraining(epochs, 6, 1e-3, 0.0)
        rng = torch.Generator().manual_seed(0)
        ends.append(train_projection(images, words, training, rng, torch.device("cpu")))
    # Adam steps by about the learning rate while the gradient keeps its sign.
    steps = [(ends[i + 1] - ends[i]).abs().median() for i in (0, 2)]
    assert steps[0].item() == pytest.approx(5e-4, rel=0.2)
    assert steps[1].item() == pytest.approx(2.5e-4, rel=0.2)


def test_a_map_that_exists_is_found():
    words, label = torch.eye(4), torch.arange(80) % 4
    features = words[label] @ torch.linalg.qr(randoms(4, 4)).Q
    training = ProjectionTraining(epochs=15, batch_size=16, learning_rate=0.1)
    rng = torch.Generator().manual_seed(0)
    images = LabelledFeatures(features, label)
    found = train_projection(images, words, training, rng, torch.device("cpu"))
    assert ((features @ found.T @ words.T).argmax(1) == label).all()


def test_the_global_generator_is_left_as_it_was():
    state = torch.get_rng_state()
    images = LabelledFeatures(randoms(6, 3), torch.arange(6) % 3)
    rng = torch.Generator().manual_seed(0)
    train_projection(images, randoms(4, 5), ProjectionTraining(2, 2), rng, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)
