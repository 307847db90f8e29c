import torch

from vlbench.engine import Engine
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.progress import NoProgress, Progress


def test_every_step_of_a_run_may_be_ignored():
    ignored: Progress = NoProgress()
    ignored.begin("a model", "a task")
    ignored.start("features", 10)
    ignored.advance(3)
    ignored.done(None)
    assert vars(ignored) == {}


def test_what_is_spread_is_shown_under_its_name():
    class Seen(NoProgress):
        def __init__(self):
            self.shown = []

        def start(self, what, total):
            self.shown.append((what, total))

        def advance(self, rows):
            self.shown.append(rows)

    seen = Seen()
    engine = Engine(ComputeSettings(torch.device("cpu"), batch_size=2), progress=seen)
    assert engine.spread(lambda some: [2 * one for one in some], [1, 2, 3], "doubles") == [2, 4, 6]
    engine.spread(list, [1])
    assert seen.shown == [("doubles", 3), 2, 1]
