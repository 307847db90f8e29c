import gc
import weakref
from dataclasses import replace

import hub_cache
import pytest
import torch
from fakes import labelled_images
from sources import make_source, write

from vlbench.catalog.catalog import load_catalog
from vlbench.data.records import Data
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.processes import Processes
from vlbench.errors import CannotDo, WeightsError
from vlbench.run.live_models import LiveModels
from vlbench.run.model import resolve_model
from vlbench.run.options import Options

CPU = ComputeSettings(torch.device("cpu"))
PAIR = """
from vlbench.capabilities import ImageEncoder

class Pair:
    def __init__(self, *, device, encoder: ImageEncoder):
        self.encoder = encoder

    def encode_regions(self, pictures, boxes): ...

class Drawn:
    def __init__(self, *, device, weights="own", init_seed=0):
        self.fingerprint = f"{weights} {init_seed}"

    def preprocess(self, image): ...

    def encode_images(self, pixels): ...
"""


@pytest.fixture
def resolved(tmp_path):
    source = make_source(tmp_path / "ours")
    write(source / "model_adapters" / "pairs.py", PAIR)
    with (source / "model_adapters" / "models.yaml").open("a") as lines:
        lines.write('pair: {adapter: "pairs:Pair", params: {encoder: mean-colour}}\n')
        lines.write('drawn: {adapter: "pairs:Drawn", params: {init_seed: 3}}\n')
    catalog = load_catalog([source])
    return lambda name, **args: resolve_model(catalog, name, Options(model_args=args))


def live(settings=CPU):
    return LiveModels(settings, Processes(cpu=True))


def test_a_model_is_loaded_once_for_the_same_arguments(resolved):
    models = live()
    first = models.get(resolved("mean-colour"))
    assert models.get(resolved("mean-colour")) is first
    assert models.get(resolved("mean-colour", shift=1)) is not first


def test_a_model_of_a_damaged_download_is_not_kept(resolved, monkeypatch, tmp_path):
    cache = hub_cache.empty_cache(monkeypatch, tmp_path / "hub")
    blob, models = hub_cache.damaged(cache, "models--org--name"), live()
    with pytest.raises(WeightsError, match=r"models--org--name/blobs/0+ is damaged"):
        models.get(resolved("mean-colour"))
    assert not blob.exists()
    assert models.identities() == {}


def test_a_model_is_made_from_the_live_companion_that_others_use_too(resolved):
    models = live()
    pair, alone = models.get(resolved("pair")), models.get(resolved("mean-colour"))
    assert pair.adapter.encoder is alone.adapter
    assert set(models.identities()) == {id(pair.adapter), id(alone.adapter)}


def test_a_companion_of_other_arguments_is_part_of_the_identity(resolved, tmp_path):
    before = live().get(resolved("pair")).identity
    file = tmp_path / "ours" / "model_adapters" / "models.yaml"
    write(file, file.read_text().replace('paper: "none"', "params: {shift: 1}"))
    catalog = load_catalog([tmp_path / "ours"])
    assert live().get(resolve_model(catalog, "pair", Options())).identity != before


def test_freed_models_are_gone(resolved):
    models = live()
    seen = weakref.ref(models.get(resolved("mean-colour")).adapter)
    models.free()
    gc.collect()
    assert seen() is None
    assert models.identities() == {}


def test_a_batch_size_is_measured_once_and_only_where_images_are_encoded(resolved, monkeypatch):
    calls = []
    measured = CPU._replace(batch_size=64)
    monkeypatch.setattr("vlbench.run.live_models.tune", lambda *_: calls.append(1) or measured)
    models, data = live(CPU._replace(batch_size=None)), labelled_images(2)
    image, text = resolved("mean-colour"), resolved("words")
    assert [models.settings(image, data).batch_size for _ in range(2)] == [64, 64]
    assert models.settings(text, data).batch_size is None
    assert models.settings(image, Data(splits={})).batch_size is None
    assert live().settings(image, data) is CPU
    assert len(calls) == 1


@pytest.mark.parametrize("args", [{}, {"weights": "random"}])
def test_draws_of_the_same_network_with_random_weights_are_other_models(resolved, args):
    models, model = live(), resolved("drawn", **args)
    drawn = [models.untrained(model, draw) for draw in (1, 2)]
    assert [adapter.fingerprint for adapter, _ in drawn] == ["random 4", "random 5"]
    assert len({models.get(model).identity, "", *(identity for _, identity in drawn)}) == 4


NO_NETWORK = [("mean-colour", {}, "takes no weights=random"), ("pair", {}, "made from mean-colour")]


@pytest.mark.parametrize(("name", "args", "why"), NO_NETWORK)
def test_a_model_without_such_a_network_says_why(resolved, name, args, why):
    with pytest.raises(CannotDo, match=why):
        live().untrained(resolved(name, **args), 1)


def test_an_object_made_in_python_has_no_network_with_random_weights(resolved):
    model = replace(resolved("drawn"), instance=object())
    with pytest.raises(CannotDo, match="an object made in Python"):
        live().untrained(model, 1)
