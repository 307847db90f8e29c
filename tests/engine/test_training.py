import pytest
import torch
from torch import nn

from vlbench.engine import Engine, training
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import EndedElsewhere
from vlbench.engine.store import Store
from vlbench.engine.training import ALONE, Sharing, each_seed, on_cpu
from vlbench.probes.generalization.linear import LinearTraining

CPU = torch.device("cpu")
STEPS = 6


class Killed(BaseException):
    """Ends a run as a signal does."""


class Walk:
    """A network that takes random steps; `dies` before one of them."""

    steps = STEPS

    def __init__(self, dies: int | None = None) -> None:
        self.net = nn.Linear(2, 2)
        nn.init.zeros_(self.net.weight)
        self.random = torch.Generator().manual_seed(3)
        self.optimizer = torch.optim.Adam([self.net.weight], lr=0.1)
        self.dies = dies
        self.done: list[int] = []

    def step(self, number: int) -> None:
        if number == self.dies:
            raise Killed
        self.done.append(number)
        self.net.weight.grad = torch.randn(2, 2, generator=self.random)
        self.optimizer.step()

    def state(self):
        parts = {"net": self.net, "optimizer": self.optimizer}
        states = {name: dict(part.state_dict()) for name, part in parts.items()}
        return states | {"random": self.random.get_state()}

    def restore(self, state):
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.random.set_state(state["random"])

    def result(self):
        return self.net.weight.detach()


def engine(folder):
    return Engine(ComputeSettings(CPU), store=Store(folder))


@pytest.fixture
def each_step_is_kept(monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)


@pytest.mark.usefixtures("each_step_is_kept")
@pytest.mark.parametrize("dies", range(STEPS))
def test_a_killed_training_goes_on_where_it_stopped_to_the_same_bits(dies, tmp_path):
    whole = Engine.for_tests().train({}, Walk, "walk")
    with pytest.raises(Killed):
        engine(tmp_path).train({}, lambda: Walk(dies), "walk")
    again = Walk()
    # The key is that of the code of the factory, which is the same for both lambdas' file.
    assert torch.equal(engine(tmp_path).train({}, lambda: again, "walk"), whole)
    assert again.done == list(range(dies, STEPS))


def test_a_training_that_is_done_is_not_done_again_and_leaves_no_checkpoint(tmp_path):
    first = engine(tmp_path).train({"rate": 1}, Walk, "walk")
    again = engine(tmp_path).train({"rate": 1}, lambda: pytest.fail("trained again"), "walk")
    other = Walk()
    engine(tmp_path).train({"rate": 2}, lambda: other, "walk")
    assert torch.equal(first, again)
    # Without a store it is only done.
    assert torch.equal(Engine.for_tests().train({}, Walk, "walk"), first)
    assert other.done == list(range(STEPS))
    assert not list(tmp_path.rglob("checkpoint*"))


@pytest.mark.usefixtures("each_step_is_kept")
def test_a_damaged_checkpoint_reads_as_absent(tmp_path):
    with pytest.raises(Killed):
        engine(tmp_path).train({}, lambda: Walk(4), "walk")
    (file,) = tmp_path.rglob("checkpoint*")
    file.write_bytes(file.read_bytes()[:-1])
    again = Walk()
    engine(tmp_path).train({}, lambda: again, "walk")
    assert again.done == list(range(STEPS))


def test_spread_gives_one_output_an_item_in_order_from_batches_at_fixed_positions():
    seen = []

    def doubled(items):
        seen.append(list(items))
        return [2 * item for item in items]

    found = Engine(ComputeSettings(CPU, batch_size=3)).spread(doubled, range(8))
    assert found == [0, 2, 4, 6, 8, 10, 12, 14]
    assert seen == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert Engine.for_tests().spread(doubled, []) == []
    with pytest.raises(ValueError, match="1 outputs for 2 items"):
        Engine.for_tests().spread(lambda items: items[:1], [1, 2])


def test_all_tensors_of_a_state_are_on_the_cpu_and_the_rest_is_as_it_was():
    kept = torch.ones(2)
    found = on_cpu({"adam": {0: {"step": kept}}, "groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]})
    assert found["adam"][0]["step"] is kept
    assert found["groups"] == [{"lr": 0.1, "betas": (0.9, 0.99)}]
    # One that is elsewhere is copied; without data it cannot be, and says so.
    with pytest.raises(NotImplementedError, match="meta"):
        on_cpu([torch.zeros(2, device="meta")])


def test_one_process_has_the_whole_batch_and_its_gradient():
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    assert ALONE.part(5) == slice(0, 5)
    assert ALONE.backward([weight], (weight**2).sum, 1.0) == 13
    assert weight.grad.tolist() == [4, 6]


# Losses are means of x * weight over the parts of a batch x; of three examples, one or two.
BATCHES = [[1.0, 2.0, 6.0], [5.0], []]


def gradients(processes):
    """Return loss and gradients of each batch, and what an error of one process says in this."""
    share, weight = Sharing(processes), torch.tensor(2.0, requires_grad=True)
    unused = torch.zeros(3, requires_grad=True)
    found = []
    for batch in map(torch.tensor, BATCHES):
        own = batch[share.part(len(batch))]
        fraction = len(own) / max(1, len(batch))
        loss = share.backward([weight, unused], lambda x=own: (x * weight).mean(), fraction)
        found.append([float(loss), float(weight.grad), *unused.grad.tolist()])

    def breaks():
        if share.rank == 1:
            raise ValueError("the second broke")
        return weight * 1.0

    with pytest.raises(EndedElsewhere) as error:
        share.backward([weight], breaks, 0.5)
    return found, error.value.ended.value, processes.exchange(share.rank)


def test_two_processes_sum_the_gradients_of_their_parts_and_fail_together(pair):
    for found, error, ranks in pair(gradients):
        assert found == [pytest.approx([2 * mean, mean, 0, 0, 0]) for mean in (3, 5, 0)]
        assert "the second broke" in error
        assert ranks == [0, 1]


def test_each_seed_is_a_training_of_its_own_and_none_is_refused():
    assert each_seed(LinearTraining(seed=3, seeds=2)) == [LinearTraining(seed=s) for s in (3, 4)]
    with pytest.raises(ValueError, match="seeds must be 1 or more"):
        each_seed(LinearTraining(seeds=0))
