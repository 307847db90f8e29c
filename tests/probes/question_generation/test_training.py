import pytest
import torch
from question_fakes import WIDTH, bert_gen, changed, weights
from torch import nn

from vlbench.engine import Engine, training
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.engine.training import Sharing
from vlbench.probes.question_generation.bert_gen import Example, Source
from vlbench.probes.question_generation.training import (
    BertGenTraining,
    StepTraining,
    TrainedParts,
    load,
)

END = 3
ALL, PROJECTION_ALONE = TrainedParts(True, True), TrainedParts(False, True)
LANGUAGE_ALONE = TrainedParts(True, False)
PLAN = BertGenTraining(epochs=2, batch_size=4, learning_rate=0.01)


def examples(n=10):
    rng = torch.Generator().manual_seed(2)
    pictures = [torch.randn(1 + i % 3, WIDTH + 4, generator=rng) for i in range(n)]
    return [Example(Source(p, [5 + i]), [6 + i, 7, END]) for i, p in enumerate(pictures)]


def run(learns=ALL, plan=PLAN, net=None, seed=0, until=None):
    net = net or bert_gen()
    made = StepTraining(net, examples(), learns, plan, seed)
    for number in range(made.steps if until is None else until):
        made.step(number)
    return net, made


def test_what_is_frozen_stays_the_same_to_the_last_bit():
    before = weights(bert_gen())
    assert changed(before, weights(run(PROJECTION_ALONE)[0])) == {"projection"}
    of_language = changed(before, weights(run(LANGUAGE_ALONE)[0]))
    assert of_language == set(before) - {"projection"}
    assert changed(before, weights(run(ALL)[0])) == set(before)


def test_training_lowers_the_loss():
    plan = PLAN._replace(epochs=20)
    assert run(plan=plan)[0].loss(examples()) < 0.5 * bert_gen().loss(examples())


def test_the_result_is_what_was_trained():
    net, made = run(PROJECTION_ALONE)
    assert list(made.result()) == ["projection"]
    other = bert_gen()
    load(other, made.result())
    assert not changed(weights(net), weights(other))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("learns", [ALL, PROJECTION_ALONE])
def test_a_training_goes_on_from_its_state_as_if_it_had_not_stopped(learns, dropout):
    def fresh():
        return bert_gen(hidden_dropout_prob=dropout)

    whole, _ = run(learns, net=fresh())
    _, stopped = run(learns, net=fresh(), until=3)
    state = stopped.state()
    net = fresh()
    other = StepTraining(net, examples(), learns, PLAN, 0)
    other.restore(state)
    for number in range(3, other.steps):
        other.step(number)
    assert not changed(weights(whole), weights(net))


def test_a_killed_training_is_resumed_by_the_engine(tmp_path, monkeypatch):
    engine = Engine(ComputeSettings(torch.device("cpu")), store=Store(tmp_path))
    whole = run()[1].result()
    step, done = StepTraining.step, []

    def make():
        return StepTraining(bert_gen(), examples(), ALL, PLAN, 0)

    def dies_once(self, number):
        done.append(number)
        if len(done) == 5:
            raise KeyboardInterrupt
        step(self, number)

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(StepTraining, "step", dies_once)
    with pytest.raises(KeyboardInterrupt):
        engine.train({"of": "a test"}, make, "a test")
    assert not changed(engine.train({"of": "a test"}, make, "a test"), whole)
    assert done == [0, 1, 2, 3, 4, 4, 5]


def test_each_epoch_has_every_question_once_in_another_order():
    made = StepTraining(bert_gen(), examples(), ALL, PLAN, 0)
    epochs = [[i for n in range(3) for i in made._rows(3 * e + n)] for e in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]
    assert [len(made._rows(n)) for n in range(6)] == [4, 4, 2, 4, 4, 2]


def test_the_rate_warms_up_and_falls_to_zero_and_the_projection_has_its_own():
    plan = BertGenTraining(10, 10, learning_rate=1.0, projection_learning_rate=3.0, warm_up=0.2)
    made = StepTraining(bert_gen(), examples(), ALL, plan, 0)
    shares = [1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8]
    assert [made._share(n) for n in range(10)] == pytest.approx(shares)
    rates = {group["rate"]: len(group["params"]) for group in made._adam.param_groups}
    assert rates[3.0] == 1
    assert made._rate("projection") == 3.0
    assert StepTraining(bert_gen(), examples(), ALL, PLAN, 0)._rate("projection") == 0.01


def test_an_update_is_adam_s_of_the_clipped_gradient():
    plan = BertGenTraining(epochs=1, batch_size=10, learning_rate=0.1, warm_up=0.0)
    net, _ = run(PROJECTION_ALONE, plan)
    other = bert_gen().requires_grad_(requires_grad=False)
    weight = nn.Parameter(other.projection.detach().clone())
    other.projection = weight
    other.loss(examples()).backward()
    adam = torch.optim.Adam([weight], lr=0.1)
    nn.utils.clip_grad_norm_([weight], 1.0)
    adam.step()
    assert torch.allclose(net.projection, weight, atol=1e-6)


def test_the_seed_decides_and_the_global_generator_stays_as_it_was():
    net = bert_gen(hidden_dropout_prob=0.5)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, _ = run(net=net)
    assert torch.equal(torch.get_rng_state(), before)
    other, _ = run(net=bert_gen(hidden_dropout_prob=0.5), seed=1)
    assert changed(weights(one), weights(other))
    assert not one.training


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"batch_size": 0}, {"warm_up": 1.0}])
def test_a_plan_of_no_update_is_refused(wrong):
    with pytest.raises(ValueError, match="no training"):
        StepTraining(bert_gen(), examples(), ALL, PLAN._replace(**wrong), 0)


def trained(processes, dropout, transposed=False):
    """Return the weights after some epochs, and the log-probabilities of the questions.

    Weights that are `transposed` lie in memory column by column.
    """
    rng = torch.Generator().manual_seed(2)
    pictures = [torch.randn(1 + i % 3, WIDTH + 4, generator=rng) for i in range(9)]
    # The questions have 1 to 4 tokens; batches of 4, the last of 1.
    said = [[6 + i] * (1 + i % 4) + [END] for i in range(9)]
    asked = [Example(Source(p, [5 + i]), said[i]) for i, p in enumerate(pictures)]
    net, plan = bert_gen(hidden_dropout_prob=dropout), PLAN._replace(epochs=4)
    for weight in net.parameters() if transposed else ():
        if weight.ndim == 2:
            weight.data = weight.data.T.contiguous().T
    made = StepTraining(net, asked, ALL, plan, 0, Sharing(processes))
    for number in range(made.steps):
        made.step(number)
    return made.result(), torch.cat(net.log_probabilities(asked)).detach()


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_two_processes_train_what_one_does_but_for_rounding_and_for_masks(dropout, pair):
    _, one = trained(Processes(cpu=True), dropout)
    (first, says), (second, _) = pair(trained, dropout)
    assert not changed(first, second)
    # Not weights: Adam moves those whose gradient is 0, such as biases of keys, by its rounding.
    if dropout:  # masks are those of another seed
        assert (says - one).abs().max() > 0.01
    else:
        torch.testing.assert_close(says, one, atol=1e-4, rtol=1e-3)


def test_two_processes_train_weights_of_any_layout(pair):
    _, one = trained(Processes(cpu=True), 0.0)
    for _, says in pair(trained, 0.0, True):
        torch.testing.assert_close(says, one, atol=1e-4, rtol=1e-3)
