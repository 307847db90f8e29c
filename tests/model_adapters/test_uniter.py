"""What UNITER does as no other port; the rest is in test_ports.py."""

import pytest
import torch
from ported import near, tiny_folder
from ports import UNITER, WIDTH, uniter_original
from safetensors.torch import load_file
from tiny_joint import picture

from vlbench.errors import WeightsError


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return UNITER.state(tmp_path_factory.mktemp("uniter"))


@pytest.fixture
def folder(tmp_path):
    tiny_folder(tmp_path, **UNITER.config)
    return tmp_path


def test_a_score_does_not_depend_on_the_batch(real_data, tmp_path):
    model, (pictures, texts), *_ = uniter_original(real_data, tmp_path)
    given = load_file(real_data / "ports/uniter/outputs.safetensors")
    no, yes = given["unpadded_itm_logits"].T
    near(model.score_pairs(pictures, texts), yes - no)


def test_the_case_of_letters_is_the_tokenizers(folder, state):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    model = UNITER.load(folder, state)
    scores = model.score_pairs([picture(3, WIDTH)] * 3, ["the dog", "The dog", "[UNK] dog"])
    assert (scores[1] - scores[2]).abs() < 1e-6
    assert (scores[0] - scores[2]).abs() > 1e-5


def test_a_layer_more_than_the_configuration_has_is_refused(folder, state):
    with pytest.raises(WeightsError, match=r"1 unexpected: uniter\.encoder\.layer\.2\.bias$"):
        UNITER.load(folder, {**state, "uniter.encoder.layer.2.bias": torch.ones(3)})
