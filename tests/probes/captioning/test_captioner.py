import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from captions_data import SETTINGS, Likes, SeesPairs, length, world
from captions_world import PAIRS, VOCABULARY, network, taught

from vlbench.engine import Engine, training
from vlbench.engine.settings import ComputeSettings
from vlbench.engine.store import Store
from vlbench.errors import WeightsError
from vlbench.nets.captioner_cross_entropy import CrossEntropyTraining
from vlbench.nets.captioner_files import StoredCaptioner, write_captioner
from vlbench.nets.captioner_self_critical import SelfCriticalTraining
from vlbench.nets.captioner_words import Vocabulary
from vlbench.probes.captioning.captioner import favourites, first_captions, taught_captioner

CPU = torch.device("cpu")
ENGINE = Engine.for_tests()
fork = multiprocessing.get_context("fork")


def stored_in(folder, model):
    """Return an engine with a store, which knows the model."""
    return Engine(ComputeSettings(CPU), store=Store(folder), identities={id(model): "a taste"})


@pytest.fixture
def folder(tmp_path):
    """A folder with a captioner of the little world."""
    about = {"regions": "sum", "widths": [6]}
    write_captioner(tmp_path, StoredCaptioner(network(taught()["weights"]), VOCABULARY, about))
    return tmp_path


def test_a_captioner_without_weights_is_trained_and_says_a_caption_per_image():
    found = first_captions(world(), ENGINE, [], SETTINGS)
    assert len(found) == len(PAIRS)
    assert found == first_captions(world(), ENGINE, [], SETTINGS)
    assert set(" ".join(found).split()) <= set(VOCABULARY.words)


def test_what_was_trained_once_is_not_trained_again(tmp_path, monkeypatch):
    engine = stored_in(tmp_path, None)
    before = first_captions(world(), engine, [], SETTINGS)
    monkeypatch.setattr(CrossEntropyTraining, "step", None)
    assert first_captions(world(), engine, [], SETTINGS) == before
    changed = world(captions=[["a hat"]] * len(PAIRS))
    with pytest.raises(TypeError):
        first_captions(changed, engine, [], SETTINGS)


def test_standardised_features_are_folded_into_the_first_layer():
    settings = SETTINGS._replace(standardize=True)
    found = taught_captioner(world(), ENGINE, [SeesPairs()], settings)
    assert found.network.sizes.features == 12
    assert len(first_captions(world(), ENGINE, [SeesPairs()], settings)) == len(PAIRS)


def test_a_trained_captioner_is_read_from_its_folder(folder, monkeypatch):
    monkeypatch.setattr(CrossEntropyTraining, "step", None)
    found = first_captions(world(), ENGINE, [], SETTINGS._replace(weights=folder))
    assert (
        sum(
            all(thing in text for thing in pair[:1])
            for pair, text in zip(PAIRS, found, strict=True)
        )
        > 10
    )


def test_a_captioner_of_other_features_is_refused(folder):
    settings = SETTINGS._replace(weights=folder)
    with pytest.raises(WeightsError, match=r"trained with .*widths: \[6\]; .*widths: \[6, 6\]"):
        first_captions(world(), ENGINE, [SeesPairs()], settings)
    with pytest.raises(WeightsError, match=r"trained with regions: sum.*gives it regions: mean"):
        first_captions(world(), ENGINE, [], settings._replace(regions="mean"))
    (folder / "captioner.json").unlink()
    with pytest.raises(WeightsError, match=r"trained with features: 6; .*widths: \[6, 6\]"):
        first_captions(world(), ENGINE, [SeesPairs()], settings)


def test_a_vocabulary_of_other_data_is_refused(folder):
    words = Vocabulary(tuple(f"word{i}" for i in range(len(VOCABULARY))))
    about = {"regions": "sum", "widths": [6]}
    write_captioner(folder, StoredCaptioner(network(taught()["weights"]), words, about))
    with pytest.raises(WeightsError, match="knows 0% of the words of the data's captions"):
        first_captions(world(), ENGINE, [], SETTINGS._replace(weights=folder))


def test_favourites_are_what_the_model_likes(folder):
    settings = SETTINGS._replace(weights=folder)
    plan = settings.self_critical._replace(epochs=12)
    before = first_captions(world(), ENGINE, [], settings)
    found = favourites(
        Likes(length), world(), ENGINE, [], settings._replace(self_critical=plan), seed=0
    )
    assert sum(map(len, found.captions)) > 1.5 * sum(map(len, before))
    assert found.history[-1]["greedy_score"] > found.history[0]["greedy_score"]
    assert 0 < found.share_nonzero_advantage <= 1
    assert 0 < found.scored <= plan.steps(len(PAIRS)) * 30


def test_a_model_that_likes_nothing_changes_no_caption(folder):
    settings = SETTINGS._replace(weights=folder)
    before = first_captions(world(), ENGINE, [], settings)
    found = favourites(Likes(lambda *_: 0.3), world(), ENGINE, [], settings, seed=0)
    assert found.captions == before
    assert found.share_nonzero_advantage == 0


def find(folder, steps=()):
    """Find favourites with a store; die in these steps of the two stages."""
    for stage, dies in zip((CrossEntropyTraining, SelfCriticalTraining), steps, strict=False):
        _dies(stage, dies)
    training.CHECKPOINT_SECONDS = -1.0
    model = Likes(length)
    found = favourites(model, world(), stored_in(folder, model), [], SETTINGS, seed=0)
    (folder / "found.json").write_text(json.dumps(found))


def _dies(stage, dies):
    step = stage.step

    def die(self, number):
        if number == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        step(self, number)

    stage.step = die


def child(*arguments):
    run = fork.Process(target=find, args=arguments)
    run.start()
    run.join()
    return run.exitcode


def test_a_run_killed_in_both_stages_ends_as_one_that_was_not(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert child(whole) == 0
    for steps in [(5,), (10,), (99, 2), (99, 7)]:
        assert child(killed, steps) == -signal.SIGKILL
    assert child(killed) == 0
    assert (killed / "found.json").read_bytes() == (whole / "found.json").read_bytes()


TOGETHER = """
import json, sys
from captions_data import SETTINGS, Likes, length, world
from vlbench.engine import Engine
from vlbench.probes.captioning.captioner import favourites
engine = Engine.for_tests()
found = favourites(Likes(length), world(), engine, [], SETTINGS, seed=0)
with open(f"{sys.argv[1]}-{engine._processes.rank}.json", "w") as file:
    json.dump(found, file)
engine._processes.leave()
"""


@pytest.mark.slow
def test_one_process_and_two_find_the_same_captions_to_the_last_byte(tmp_path):
    (tmp_path / "run.py").write_text(TOGETHER)
    support = Path(__file__).parents[2] / "support"
    paths = [str(support), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": ":".join(paths)}
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command = [sys.executable, *launch, str(tmp_path / "run.py"), str(tmp_path / "two")]
    subprocess.run(command, env=environment, timeout=250, check=True)
    alone = json.dumps(favourites(Likes(length), world(), ENGINE, [], SETTINGS, seed=0))
    assert [(tmp_path / f"two-{n}.json").read_text() for n in (0, 1)] == [alone, alone]
