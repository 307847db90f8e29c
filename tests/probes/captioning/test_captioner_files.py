import copy
import json
import pickle

import numpy as np
import pytest
import torch
from ported import near

from vlbench.errors import DataError, WeightsError
from vlbench.probes.captioning.captioner_files import (
    UNKNOWN,
    StoredCaptioner,
    Vocabulary,
    draw_captioner,
    empty_captioner,
    fold_scaling,
    label,
    learn_vocabulary,
    read_captioner,
    restore_captioner,
    spread,
    write_captioner,
)
from vlbench.probes.captioning.captioner_network import Sizes, greedy_captions

WORDS = Vocabulary(("a", "cat", "hat"))
SIZES = Sizes(features=4, words=7, embedding=5, hidden=6)


def stored(words=WORDS):
    return StoredCaptioner(
        draw_captioner(SIZES._replace(words=3), seeded()), words, {"regions": "sum"}
    )


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
    assert (found.vocabulary, found.about) == (WORDS, {})


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
    with pytest.raises(WeightsError, match="belongs to another captioner"):
        read_captioner(ours)


def test_without_its_vocabulary_a_captioner_is_refused_and_the_pickle_is_not_read(theirs):
    (theirs / "cocotalk.json").unlink()
    with pytest.raises(WeightsError, match=r"put the captioner's cocotalk\.json .* are not read"):
        read_captioner(theirs)
    (theirs / "model-best.pth").unlink()
    with pytest.raises(WeightsError, match=r"no captioner in .*model-best\.pth"):
        read_captioner(theirs)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "does not contain a JSON object"),
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("{}", "has no words under 'ix_to_word'"),
        ('{"ix_to_word": ["a"]}', "has no words"),
        ('{"ix_to_word": {"1": "a", "3": "hat"}}', "number 2 of 'ix_to_word' is not a word"),
        ('{"ix_to_word": {"1": "a", "2": "b c"}}', "number 2"),
        ('{"ix_to_word": {"1": "a", "2": 5}}', "number 2"),
        ('{"ix_to_word": {"1": "a", "2": "a"}}', "a word twice"),
    ],
)
def test_a_broken_vocabulary_is_named(theirs, content, message):
    (theirs / "cocotalk.json").write_text(content)
    with pytest.raises(WeightsError, match=message):
        read_captioner(theirs)


def test_weights_of_another_network_are_refused(theirs):
    torch.save({"weight": torch.ones(2)}, theirs / "model-best.pth")
    with pytest.raises(WeightsError, match=r"not an FC captioner \(caption_model: newfc\)"):
        read_captioner(theirs)


def test_weights_that_do_not_fit_together_are_named(theirs):
    state = torch.load(theirs / "model-best.pth") | {"logit.bias": torch.zeros(9)}
    torch.save(state, theirs / "model-best.pth")
    with pytest.raises(WeightsError, match=r"logit\.bias"):
        read_captioner(theirs)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def weights(seed=0):
    return draw_captioner(SIZES, seeded(seed)).state_dict()


def test_a_network_is_drawn_as_the_library_draws_it():
    network = draw_captioner(Sizes(100, 400, 100, 100), seeded())
    reference = torch.nn.Linear(100, 401)
    for name in ("weight", "bias"):
        found, expected = getattr(network.logit, name), getattr(reference, name)
        assert found.abs().max() <= 0.1
        assert found.std().item() == pytest.approx(expected.std().item(), rel=0.1)
    assert network.embed.weight.std().item() == pytest.approx(1, rel=0.02)


def test_every_weight_is_drawn_from_the_generator():
    one, again, other = weights(), weights(), weights(1)
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)


def test_an_empty_network_has_the_sizes_and_draws_nothing():
    before = torch.get_rng_state()
    network = empty_captioner(SIZES)
    assert torch.equal(before, torch.get_rng_state())
    assert network.sizes == SIZES
    # Five parts of the LSTM: three gates and two candidates; one word more for the end.
    assert {name: list(w.shape) for name, w in network.state_dict().items()} == {
        "fc_embed.weight": [5, 4],
        "fc_embed.bias": [5],
        "embed.weight": [8, 5],
        "_core.i2h.weight": [30, 5],
        "_core.i2h.bias": [30],
        "_core.h2h.weight": [30, 6],
        "_core.h2h.bias": [30],
        "logit.weight": [8, 6],
        "logit.bias": [8],
    }


def test_a_network_restored_says_what_the_first_said_and_keeps_weights_of_its_own():
    first, features = draw_captioner(SIZES, seeded()), torch.rand(9, 4, generator=seeded())
    second = restore_captioner(first.state_dict(), SIZES)
    assert torch.equal(greedy_captions(first, features), greedy_captions(second, features))
    second.logit.bias.data += 1
    assert torch.equal(second.logit.bias, first.logit.bias + 1)


def test_weights_that_are_not_the_network_s_are_refused():
    lacking = weights()
    del lacking["logit.bias"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "logit.bias"'):
        restore_captioner(lacking, SIZES)
    with pytest.raises(RuntimeError, match=r"size mismatch for fc_embed\.weight"):
        restore_captioner(weights(), SIZES._replace(features=3))


def test_mean_and_deviation_are_of_each_feature_and_what_does_not_vary_has_one():
    features = torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, 1e-7], [5.0, 5.0, 0.0], [7.0, 5.0, 1e-7]])
    mean, deviation = spread(features)
    near(mean, torch.tensor([4.0, 5.0, 5e-8]))
    # (9 + 1 + 1 + 9) / 4 = 5
    near(deviation, torch.tensor([5**0.5, 1.0, 1.0]))
    assert [float(one) for one in spread(torch.tensor([[2.0]]))] == [2.0, 1.0]


def test_deviations_are_numpy_s_of_the_whole_population():
    features = torch.randn(50, 6, generator=seeded()) * torch.arange(1.0, 7.0) + 3
    mean, deviation = spread(features)
    np.testing.assert_allclose(mean.numpy(), features.numpy().mean(0), rtol=1e-5)
    np.testing.assert_allclose(deviation.numpy(), features.numpy().std(0), rtol=1e-5)


def test_unscaled_weights_see_in_features_what_these_see_in_standardised_ones():
    features = torch.randn(9, 4, generator=seeded()) * torch.tensor([3.0, 0.1, 20.0, 0.0]) + 7
    mean, deviation = spread(features)
    given = weights()
    kept = copy.deepcopy(given)
    plain = restore_captioner(fold_scaling(given, mean, deviation), SIZES)
    near(plain.see(features), restore_captioner(given, SIZES).see((features - mean) / deviation))
    assert all(torch.equal(given[name], kept[name]) for name in given)


def test_numbers_scale_every_feature_alike():
    first = torch.tensor([[2.0, 4.0], [6.0, 8.0]])
    given = {"fc_embed.weight": first, "fc_embed.bias": torch.tensor([10.0, 20.0]), "other": first}
    found = fold_scaling(given, 3.0, 2.0)
    assert found["fc_embed.weight"].tolist() == [[1, 2], [3, 4]]
    # Less three times the sums, which are 3 and 7.
    assert found["fc_embed.bias"].tolist() == [1, -1]
    assert found["other"] is first


KNOWN = Vocabulary(("a", "cat", "hat", UNKNOWN))


def test_words_that_occur_five_times_or_less_are_unknown_and_without_them_there_is_no_unknown_one():
    assert learn_vocabulary(["A cat."] * 6 + ["a dog!"] * 5).words == ("a", "cat", UNKNOWN)
    assert learn_vocabulary(["a cat", "a hat"], rare=0).words == ("a", "cat", "hat")


def test_punctuation_is_a_word_only_where_it_is_asked_for():
    told = ["Two cats , it 's a t-shirt ."]
    assert learn_vocabulary(told, rare=0).words == ("a", "cats", "it", "s", "tshirt", "two")
    kept = learn_vocabulary(told, rare=0, punctuation=True)
    assert set(kept.words) == {",", ".", "'s", "a", "cats", "it", "t-shirt", "two"}
    assert kept.split("A t-shirt, two cats .") == ["a", "t-shirt", "two", "cats", "."]


def test_a_text_becomes_numbers_and_numbers_a_text_and_without_unk_unknown_words_are_left_out():
    assert KNOWN.encode("A cat, in a hat.") == [1, 2, 4, 1, 3]
    assert Vocabulary(("a", "cat")).encode("a small cat") == [1, 2]
    assert KNOWN.decode([1, 2, 0, 3]) == "a cat"
    assert KNOWN.texts(torch.tensor([[3, 4, 1], [0, 0, 0]])) == ["hat UNK a", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a\ncat", [1, 2]),
        ("a\u2028cat\r hat", [1, 2, 3]),
        ("a ||| cat", [1, 2]),
        ("", []),
        ("...", []),
        ("zebra", [4]),
    ],
)
def test_odd_texts_are_words_too(text, words):
    assert KNOWN.encode(text) == words


def test_the_known_fraction_of_words():
    assert KNOWN.known(["a cat", "a dog ran"]) == 3 / 5
    assert KNOWN.known([""]) == 1


def test_long_captions_are_cut_to_sixteen_words_and_end():
    found = label(KNOWN, [["cat " * 10_000, "a cat"], ["a hat"]])
    assert found.words[0].tolist() == [2] * 16 + [0]
    assert found.words[1].tolist() == [1, 2] + [0] * 15
    assert found.first.tolist() == [0, 2, 3]


def test_captions_without_words_are_left_out_and_an_image_of_none_but_them_is_named():
    assert label(KNOWN, [["a", ""]]).first.tolist() == [0, 1]
    why = "image 1 of the training captions has no caption with a word"
    with pytest.raises(DataError, match=why):
        label(KNOWN, [["a"], ["", "!"]])


def test_captions_are_drawn_as_neighbours_among_the_images_own():
    labels = label(KNOWN, [["a"] * 7, ["cat"] * 3, ["hat"] * 2])
    drawn = labels.draw(torch.tensor([0, 1] * 500), 3, seeded())
    assert (drawn[:, 1:] - drawn[:, :-1] == 1).all()
    assert set(drawn[::2, 0].tolist()) == {0, 1, 2, 3, 4}
    assert set(drawn[1::2, 0].tolist()) == {7}
    # Of too few captions some are drawn again.
    few = label(KNOWN, [["a"], ["cat", "hat"]]).draw(torch.tensor([1] * 200), 5, seeded())
    assert set(few.flatten().tolist()) == {1, 2}
