import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from caption_world import PAIRS, SETTINGS, VOCABULARY, SeesPairs, features, network, taught
from caption_world import LikesPairs as Likes
from caption_world import pairs as world
from caption_world import word_count as length
from forks import forks

from vlbench.data.records import Split
from vlbench.engine import Engine, training
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.engine.store import Store
from vlbench.errors import DataAbsent, DataError, SpecError, WeightsError
from vlbench.probes.captioning.caption_sets import Images, find_captions
from vlbench.probes.captioning.captioner import (
    Captioner,
    favourites,
    first_captions,
    image_features,
    read_or_train,
    with_regions,
)
from vlbench.probes.captioning.captioner_files import StoredCaptioner, Vocabulary, write_captioner
from vlbench.probes.captioning.captioner_training import CrossEntropyTraining, SelfCriticalTraining

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


def test_captions_are_learnt_up_to_sixteen_words_as_in_the_paper():
    assert Captioner().most_words == 16


def test_a_captioner_without_weights_is_trained_and_says_a_caption_per_image():
    found = first_captions(world(), ENGINE, SETTINGS)
    assert len(found) == len(PAIRS)
    assert found == first_captions(world(), ENGINE, SETTINGS)
    assert set(" ".join(found).split()) <= set(VOCABULARY.words)


def test_what_was_trained_once_is_not_trained_again(tmp_path, monkeypatch):
    engine = stored_in(tmp_path, None)
    before = first_captions(world(), engine, SETTINGS)
    monkeypatch.setattr(CrossEntropyTraining, "step", None)
    assert first_captions(world(), engine, SETTINGS) == before
    changed = world(captions=[["a hat"]] * len(PAIRS))
    with pytest.raises(TypeError):
        first_captions(changed, engine, SETTINGS)


def test_standardised_features_are_folded_into_the_first_layer():
    settings = SETTINGS._replace(standardize=True)
    found = read_or_train(world(), ENGINE, settings)
    assert found.network.sizes.features == 6
    assert len(first_captions(world(), ENGINE, settings)) == len(PAIRS)


def test_a_trained_captioner_is_read_from_its_folder(folder, monkeypatch):
    monkeypatch.setattr(CrossEntropyTraining, "step", None)
    found = first_captions(world(), ENGINE, SETTINGS._replace(weights=folder))
    assert sum(thing in text for (thing, _), text in zip(PAIRS, found, strict=True)) > 10


def test_a_ready_captioner_tells_of_the_first_images_what_it_tells_of_all(folder):
    settings = SETTINGS._replace(weights=folder)
    found = find_captions(world(), ENGINE, Images(first=4), "captioner", None, settings, None)
    assert found == first_captions(world(), ENGINE, settings)[:4]


def test_a_captioner_of_other_features_is_refused(folder, tmp_path):
    settings = SETTINGS._replace(weights=folder)
    with pytest.raises(WeightsError, match=r"trained with regions: sum.*gives it regions: mean"):
        first_captions(world(), ENGINE, settings._replace(regions="mean"))
    (folder / "captioner.json").unlink()
    wide = settings._replace(features=arrays(tmp_path, np.ones((len(PAIRS), 12)), "{:04d}.npy"))
    with pytest.raises(WeightsError, match=r"trained with features: 6; .*widths: \[12\]"):
        first_captions(world(), ENGINE, wide)


def test_a_vocabulary_of_other_data_is_refused(folder):
    words = Vocabulary(tuple(f"word{i}" for i in range(len(VOCABULARY))))
    about = {"regions": "sum", "widths": [6]}
    write_captioner(folder, StoredCaptioner(network(taught()["weights"]), words, about))
    with pytest.raises(WeightsError, match="knows 0% of the words of the data's captions"):
        first_captions(world(), ENGINE, SETTINGS._replace(weights=folder))


def test_favourites_are_what_the_model_likes(folder):
    plan = SETTINGS.self_critical._replace(epochs=12)
    settings = SETTINGS._replace(weights=folder, self_critical=plan)
    before = first_captions(world(), ENGINE, settings)
    found = favourites(Likes(length), world(), ENGINE, settings, seed=0)
    assert sum(map(len, found.captions[1])) > 1.5 * sum(map(len, before))
    assert found.history[-1]["greedy_score"] > found.history[0]["greedy_score"]
    assert 0 < found.share_nonzero_advantage <= 1
    assert 0 < found.scored <= plan.steps(len(PAIRS)) * 30


def test_a_model_that_likes_nothing_changes_no_caption(folder):
    settings = SETTINGS._replace(weights=folder)
    before = first_captions(world(), ENGINE, settings)
    found = favourites(Likes(lambda *_: 0.3), world(), ENGINE, settings, seed=0)
    assert found.captions == {1: before}
    assert found.share_nonzero_advantage == 0


def find(folder, steps=()):
    """Find favourites with a store; die in these steps of the two stages."""
    for stage, dies in zip((CrossEntropyTraining, SelfCriticalTraining), steps, strict=False):
        _dies(stage, dies)
    model = Likes(length)
    found = favourites(model, world(), stored_in(folder, model), SETTINGS, seed=0)
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


@forks
def test_a_run_killed_in_both_stages_ends_as_one_that_was_not(tmp_path, monkeypatch):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    find(whole)  # in this process, so that the forks need not import an optimizer's libraries
    for steps in [(5,), (10,), (99, 4)]:
        assert child(killed, steps) == -signal.SIGKILL
    assert child(killed) == 0
    assert (killed / "found.json").read_bytes() == (whole / "found.json").read_bytes()


def likes_length(processes):
    """Return the favourites of a model, as JSON."""
    engine = Engine(ComputeSettings(CPU), processes=processes)
    return json.dumps(favourites(Likes(length), world(), engine, SETTINGS, seed=0))


def test_one_process_and_two_find_the_same_captions_to_the_last_byte(pair):
    alone = likes_length(Processes(cpu=True))
    assert pair(likes_length) == [alone, alone]


@pytest.fixture
def split():
    return world(id=list(range(len(PAIRS)))).splits["test"]


def arrays(folder, values, name="{}.npy"):
    for number, value in enumerate(values):
        np.save(folder / name.format(number), value)
    return folder


def features_of(split, **settings):
    return image_features(split, ENGINE, Captioner(**settings))


def test_regions_are_summed_or_averaged(split):
    assert torch.equal(features_of(split, regions="sum"), features())
    assert torch.equal(features_of(split, regions="mean"), features() / 2)


@pytest.mark.parametrize("settings", [Captioner(), Captioner(regions="sum", features=Path("x"))])
def test_an_encoder_that_is_not_asked_is_an_error(settings):
    with pytest.raises(SpecError, match="no regions:"):
        with_regions(world(), SeesPairs(), settings, ENGINE)


@pytest.mark.parametrize("name", ["{}.npy", "{:04d}.npy"])
def test_ready_features_are_read_by_the_number_or_the_whole_name_of_the_image(
    split, tmp_path, name
):
    values = np.random.default_rng(0).random((len(PAIRS), 3))
    found = features_of(split, features=arrays(tmp_path, values, name))
    assert torch.equal(found, torch.from_numpy(values).float())


def test_images_without_numbers_have_no_features_of_the_same_digits(tmp_path):
    unnumbered = world().splits["test"]
    arrays(tmp_path, np.zeros((len(PAIRS), 1)))
    with pytest.raises(DataError, match=r"no features of image 0000\.jpg \(0000\.npy\)"):
        features_of(unnumbered, features=tmp_path)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "the images have no names, so their features"),
        (["a/1.jpg", "b/1.jpg"], r"the images a/1\.jpg and b/1\.jpg share the name 1; give"),
    ],
)
def test_features_are_of_one_image_by_its_name(tmp_path, names, message):
    (tmp_path / "1.npy").touch()
    images = replace(world().splits["test"].select([0, 1])["picture"], names=names)
    with pytest.raises(DataError, match=message):
        features_of(Split({"picture": images}), features=tmp_path)


def test_ready_region_features_are_averaged(split, tmp_path):
    for number in range(len(PAIRS)):
        vectors, boxes = np.array([[2.0, number], [4.0, number]]), np.zeros((2, 4))
        np.savez(tmp_path / f"{number}.npz", x=vectors, bbox=boxes, image_w=4, image_h=4)
    mean = features_of(split, features=tmp_path)
    total = features_of(split, features=tmp_path, regions="sum")
    assert mean.tolist() == [[3, number] for number in range(len(PAIRS))]
    assert torch.equal(total, 2 * mean)


def test_without_any_source_or_regions_nothing_is_seen(split):
    with pytest.raises(SpecError, match="the captioner has no input:"):
        features_of(split)
    bare = Split({name: split[name] for name in ("image", "picture", "captions")})
    with pytest.raises(DataError, match="has regions: sum, but the data have no regions"):
        features_of(bare, regions="sum")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 2)), "not one axis of numbers"),
        (np.array([np.nan]), "not finite"),
        (np.array([None], dtype=object), "cannot be read"),
        (np.zeros(2), r"different widths: \[1, 2\]"),
    ],
)
def test_broken_features_are_errors(split, tmp_path, value, message):
    values = [np.zeros(1, np.float32)] * len(PAIRS)
    with pytest.raises(DataError, match=message):
        features_of(split, features=arrays(tmp_path, [value, *values[1:]]))


def test_a_file_that_announces_more_than_it_has_or_is_absent_is_an_error(split, tmp_path):
    arrays(tmp_path, [np.zeros(100)] * len(PAIRS))
    whole = (tmp_path / "0.npy").read_bytes()
    (tmp_path / "0.npy").write_bytes(whole[:300])
    with pytest.raises(DataError, match=r"0\.npy cannot be read .* make it again"):
        features_of(split, features=tmp_path)
    (tmp_path / "0.npy").unlink()
    with pytest.raises(DataError, match=r"no features of image 0000\.jpg \(0\.npy\)"):
        features_of(split, features=tmp_path)
    with pytest.raises(DataAbsent, match="features of images"):
        features_of(split, features=tmp_path / "none")
