import json
import pickle

import pytest
import torch

from vlbench.errors import WeightsError
from vlbench.probes.captioning.captioner_files import (
    StoredCaptioner,
    Vocabulary,
    drawn_captioner,
    read_captioner,
    write_captioner,
)
from vlbench.probes.captioning.captioner_network import Sizes

WORDS = Vocabulary(("a", "cat", "hat"))
SIZES = Sizes(features=4, words=3, embedding=5, hidden=6)


def stored(words=WORDS):
    network = drawn_captioner(SIZES, torch.Generator().manual_seed(0))
    return StoredCaptioner(network, words, {"regions": "sum"})


@pytest.fixture
def ours(tmp_path):
    write_captioner(tmp_path / "ours", stored())
    return tmp_path / "ours"


@pytest.fixture
def theirs(tmp_path):
    """A folder as ImageCaptioning.pytorch leaves it, with the cocotalk.json put beside it."""
    torch.save(stored().network.state_dict(), tmp_path / "model-best.pth")
    words = {"1": "a", "2": "cat", "3": "hat"}
    content = {"ix_to_word": words, "images": [{"id": 1, "split": "train"}]}
    (tmp_path / "cocotalk.json").write_text(json.dumps(content))
    (tmp_path / "infos_fc-best.pkl").write_bytes(pickle.dumps({"vocab": {"1": "dog"}}))
    return tmp_path


def same(one, other):
    states = one.network.state_dict(), other.network.state_dict()
    return all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_what_is_written_is_read(ours):
    found = read_captioner(ours)
    assert same(found, stored())
    assert found.vocabulary == WORDS
    assert found.about["regions"] == "sum"


def test_half_the_precision_is_half_the_size_and_read_as_float32(tmp_path, ours):
    write_captioner(tmp_path / "half", stored(), half=True)
    sizes = [(f / "model.safetensors").stat().st_size for f in (tmp_path / "half", ours)]
    assert sizes[0] < 0.8 * sizes[1]
    weights = read_captioner(tmp_path / "half").network.state_dict()
    assert {value.dtype for value in weights.values()} == {torch.float32}


def test_a_captioner_of_the_original_is_read_with_the_vocabulary_of_its_json(theirs):
    found = read_captioner(theirs)
    assert same(found, stored())
    assert found.vocabulary == WORDS
    assert found.about == {}


def test_the_original_codes_own_weights_are_read(real_data, tmp_path):
    state = real_data / "ports" / "newfc" / "weights.pt"
    (tmp_path / "model.pth").write_bytes(state.read_bytes())
    words = json.loads((state.parent / "config.json").read_text())["vocab"]
    (tmp_path / "cocotalk.json").write_text(json.dumps({"ix_to_word": words}))
    found = read_captioner(tmp_path)
    assert found.network.sizes == Sizes(features=20, words=60, embedding=24, hidden=32)
    assert found.vocabulary.words[59] == "w60"


def test_the_vocabulary_of_another_captioner_is_refused(theirs):
    (theirs / "cocotalk.json").write_text(json.dumps({"ix_to_word": {"1": "a", "2": "cat"}}))
    with pytest.raises(WeightsError, match=r"has 2 words, model-best\.pth 3: .* another captioner"):
        read_captioner(theirs)


def test_a_vocabulary_of_the_same_length_is_refused_where_the_folder_says_which_is_right(ours):
    words = {"ix_to_word": {"1": "a", "2": "hat", "3": "cat"}}
    (ours / "cocotalk.json").write_text(json.dumps(words))
    with pytest.raises(WeightsError, match="that of another captioner"):
        read_captioner(ours)


def test_without_its_vocabulary_a_captioner_is_refused_and_the_pickle_is_not_read(theirs):
    (theirs / "cocotalk.json").unlink()
    with pytest.raises(WeightsError, match=r"put the cocotalk\.json .* are not read"):
        read_captioner(theirs)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds no object"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("{}", "has no words under 'ix_to_word'"),
        ('{"ix_to_word": ["a"]}', "has no words"),
        ('{"ix_to_word": {"1": "a", "3": "hat"}}', "number 2 of 'ix_to_word' is no word"),
        ('{"ix_to_word": {"1": "a", "2": "b c"}}', "number 2"),
        ('{"ix_to_word": {"1": "a", "2": 5}}', "number 2"),
        ('{"ix_to_word": {"1": "a", "2": "a"}}', "a word twice"),
    ],
)
def test_a_broken_vocabulary_is_named(theirs, content, message):
    (theirs / "cocotalk.json").write_text(content)
    with pytest.raises(WeightsError, match=message):
        read_captioner(theirs)


def test_a_folder_without_weights_says_what_is_wanted(tmp_path):
    with pytest.raises(WeightsError, match=r"no captioner in .*model-best\.pth"):
        read_captioner(tmp_path)


def test_weights_of_another_network_are_refused(theirs):
    torch.save({"weight": torch.ones(2)}, theirs / "model-best.pth")
    with pytest.raises(WeightsError, match=r"no FC captioner \(caption_model: newfc\)"):
        read_captioner(theirs)


def test_weights_that_do_not_fit_together_are_named(theirs):
    state = torch.load(theirs / "model-best.pth") | {"logit.bias": torch.zeros(9)}
    torch.save(state, theirs / "model-best.pth")
    with pytest.raises(WeightsError, match=r"logit\.bias"):
        read_captioner(theirs)
