import os
import subprocess
import sys
import time

import pytest
import torch
from thread_counts import threads_now, two_threads

import vlbench
from vlbench.data.records import value_column
from vlbench.engine import Engine
from vlbench.system.threads import LARGE, all_threads, single_thread, threads_for

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "2"}
SIDE = round(LARGE ** (1 / 3)) + 1


@pytest.fixture(autouse=True)
def two():
    with two_threads():
        yield


def test_one_thread_computes_inside_and_as_many_as_before_afterwards():
    assert threads_now() == {2}
    with single_thread():
        assert threads_now() == {1}
    assert threads_now() == {2}


def test_all_threads_are_those_of_before_and_blocks_are_nested():
    with single_thread(), all_threads():
        with single_thread(), all_threads():
            assert threads_now() == {2}
        with single_thread():
            assert threads_now() == {1}
        assert threads_now() == {2}
    assert threads_now() == {2}


def test_an_error_gives_the_threads_back():
    def fail(*_):
        raise RuntimeError("planted")

    with single_thread():
        with pytest.raises(RuntimeError, match="planted"), all_threads():
            fail()
        with pytest.raises(RuntimeError, match="planted"):
            Engine.for_tests().map(fail, value_column([1]))
        assert threads_now() == {1}
    with pytest.raises(RuntimeError, match="planted"), single_thread():
        fail()
    assert threads_now() == {2}


def test_the_size_of_a_product_decides():
    with single_thread():
        with threads_for(SIDE, SIDE, SIDE):
            assert threads_now() == {2}
        with all_threads(), threads_for(SIDE, SIDE, SIDE // 2):
            assert threads_now() == {1}
        assert threads_now() == {1}


def test_passes_and_trainings_have_all_threads_and_the_work_between_them_one():
    class Step:
        steps = 1

        def step(self, number):
            self.seen = threads_now()

        def result(self):
            return self.seen

    def look(values):
        return [[*threads_now()] for _ in values]

    def encode(values):
        return torch.full((len(values), 1), float(*threads_now()))

    engine, column = Engine.for_tests(), value_column(["a", "b"], "text")
    with single_thread():
        assert engine.map(look, column) == engine.spread(look, [1, 2]) == [[2], [2]]
        for features in (engine.features, engine.large_features):
            assert features(encode, column).tolist() == [[2], [2]]
        assert engine.train({}, Step, "a step") == {2}
        assert engine.train({}, Step, "a step of small products", sizes=(SIDE, SIDE)) == {1}
        assert threads_now() == {1}


def test_what_a_model_sets_in_a_pass_holds_in_the_next():
    with single_thread():
        with all_threads():
            torch.set_num_threads(3)
        assert torch.get_num_threads() == 1
        with all_threads():
            assert torch.get_num_threads() == 3


def test_one_thread_around_a_probe_of_given_features(monkeypatch):
    seen = set()
    monkeypatch.setattr(
        "vlbench.probes.generalization.knn._votes",
        lambda *_: seen.update(threads_now()) or torch.zeros(1, 4, 2, dtype=torch.float64),
    )
    vlbench.probe("knn", torch.rand(8, 2), [*"abababab"], k=[1])
    assert (seen, threads_now()) == ({1}, {2})


def test_entering_costs_less_than_a_millisecond():
    def enter():
        start = time.perf_counter()
        with single_thread():
            return time.perf_counter() - start

    assert min(enter() for _ in range(20)) < 1e-3


def test_a_library_that_is_loaded_inside_has_one_thread_from_the_next_block_on():
    code = """
import torch
from threadpoolctl import threadpool_info
from vlbench.system.threads import all_threads, single_thread
torch.set_num_threads(2)
number = lambda: {one["num_threads"] for one in threadpool_info() if "learn" in one["filepath"]}
with single_thread():
    assert not number()
    import sklearn.linear_model
    most = number()
    with single_thread():
        assert number() == {1}
    with all_threads():
        assert number() == most
    assert number() == {1}
assert number() == most
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=ENVIRONMENT)
