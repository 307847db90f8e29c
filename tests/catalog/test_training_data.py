from pathlib import Path

import pytest

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.catalog.training_data import trained_models, trained_on

DOCUMENT = Document(Path("a.yaml"), {}, {})


def model(*names):
    return ModelSpec("m", Path(), DOCUMENT, training_data=names)


def task(**data):
    return TaskSpec("t", Path(), DOCUMENT, data=data)


@pytest.mark.parametrize("name", ["CIFAR-10", "cifar10", "Cifar 10"])
def test_a_data_set_is_known_by_its_loader_however_it_is_spelled(name):
    assert trained_on(model("WIT", name), task(loader="vlbench.data.cifar:cifar10")) == name


def test_a_data_set_is_known_by_the_last_folder_of_its_root():
    read = task(loader="vlbench.data.karpathy:karpathy", root="$VLBENCH_DATA/coco")
    assert trained_on(model("COCO"), read) == "COCO"
    assert trained_on(model("vlbench_data"), read) == ""


def test_a_part_of_a_name_is_another_data_set():
    assert trained_on(model("CIFAR-100"), task(loader="vlbench.data.cifar:cifar10")) == ""


def test_a_model_that_names_none_and_a_group_match_nothing():
    assert trained_on(model(), task(loader="vlbench.data.cifar:cifar10")) == ""
    assert trained_on(model("", "-"), task()) == ""


SEEN = [
    ("rn50", "robustness_imagenet", "ImageNet"),
    ("clip-rn50", "robustness_imagenet", ""),
    ("visualbert-flickr30k", "entity_grounding_flickr30k", "Flickr30k"),
    ("tiny-rn", "few_shot_scenes", "objects"),
    ("tiny-rn", "few_shot_digits", ""),
]


@pytest.mark.parametrize(("name", "task_name", "data"), SEEN)
def test_shipped_models_are_known_by_their_data(name, task_name, data):
    catalog = load_catalog()
    assert trained_on(catalog.models[name], catalog.tasks[task_name]) == data


def test_models_that_were_trained_on_a_tasks_data_are_found_by_the_names_of_their_rows():
    catalog = load_catalog()
    models, read = catalog.models, catalog.tasks["classification_imagenet"]
    found = trained_models(["rn50[weights=x]", "clip-rn50", "nobody"], models, read)
    assert found == {"rn50[weights=x]": "ImageNet"}
    assert trained_models(["rn50"], models, None) == {}
