import datetime as dt
import json

import pytest
import torch
from ported import golden, near, noisy, tiny_folder
from tiny_joint import CPU, SPANS, TEXTS, adapter, broken_promises, picture

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, DataError, WeightsError

Rosita, RENAMED = adapter("rosita:Rosita"), adapter("rosita:RENAMED")
WIDTH = 8
SIZES = {"vocab_size": 120, "hidden_size": 36, "num_hidden_layers": 3, "num_attention_heads": 3}
MORE = {"intermediate_size": 80, "max_position_embeddings": 40, "imgfeat_size": 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_folder(tmp_path_factory.mktemp("rosita"), imgfeat_size=WIDTH)


@pytest.fixture
def parts(folder):
    """The weights of a file of the original code: a state dict for each part."""
    drawn = Rosita(device=CPU, architecture=folder, weights="random").network.state_dict()
    found = {"epoch": 3, "net_optim": dt.date(2021, 1, 1), "text_mlm_head": {"bias": torch.ones(3)}}
    for name, value in noisy(drawn).items():
        for old, new in RENAMED.items():
            name = name.replace(new, old)  # noqa: PLW2901 - one name after the other
        part, _, key = name.partition(".")
        found.setdefault(part, {})[key] = value
    return found


@pytest.fixture
def load(folder, tmp_path):
    """Return the adapter of a file with these weights."""

    def make(parts, **options):
        torch.save(parts, tmp_path / "rosita.pkl")
        return Rosita(
            device=CPU, architecture=folder, weights=str(tmp_path / "rosita.pkl"), **options
        )

    return make


@pytest.fixture
def model(load, parts):
    return load(parts)


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


@pytest.fixture(params=["weights.pt", "weights_pretrain.pt"])
def original(request, real_data, tmp_path):
    """What the original code gave, fine-tuned or pre-trained, and the adapter of its weights."""
    found = golden(real_data, "rosita", tmp_path, **SIZES, **MORE)
    prefix = "pretrain." if "pretrain" in request.param else ""
    own = {key: value for key, value in found.outputs.items() if key.startswith(prefix)}
    outputs = {key.removeprefix(prefix): value for key, value in own.items()}
    model = Rosita(device=CPU, architecture=found.folder, weights=str(found.files / request.param))
    given = found._replace(outputs=outputs)
    counts = found.inputs["imgfeat_mask"].sum(1).int()
    sizes = found.inputs["raw_image_hw"].flip(1)
    pictures = given.pictures(found.inputs["imgfeat_input"], counts, sizes)
    return given, model, (pictures, given.texts(found.inputs["text_ids"]))


def real(given):
    """Return where the original has a token or a region, bool [N, L]."""
    return torch.cat([given.inputs["text_mask"], given.inputs["imgfeat_mask"]], 1).bool()


def test_embeddings_and_hidden_states_are_the_originals(original):
    given, model, pairs = original
    inputs, seen = model._inputs(*pairs)[0], real(given)
    parts = [given.outputs[f"{kind}_embeddings"] for kind in ("text", "visual")]
    near(model.network.embed(inputs)[seen], torch.cat(parts, 1)[seen])
    for i, states in enumerate(model.network(inputs).states):
        near(states[seen], given.outputs[f"hidden_states.{i}"][seen])


def test_attention_over_the_whole_sequence_is_the_originals(original):
    given, model, pairs = original
    for i, found in enumerate(model.network(model._inputs(*pairs)[0]).attentions):
        seen = real(given)[:, None, :, None].expand(found.shape)
        near(found[seen], given.outputs[f"attentions.{i}"][seen])


def test_attention_of_words_to_regions_is_the_originals(original):
    given, model, pairs = original
    layers = torch.stack([given.outputs[f"attentions.{k}"] for k in range(3)])
    for i, found in enumerate(model.attend(*pairs)):
        words = int(given.inputs["text_mask"][i].sum())
        regions = pairs[0][i].regions.boxes
        near(found.weights, layers[:, i, :, 1 : words - 1, 12 : 12 + len(regions)])
        assert torch.equal(found.boxes, regions)


def test_scores_are_the_originals(original):
    given, model, pairs = original
    near(model.score_pairs(*pairs), given.outputs["itm_softmax"][:, 1])


@pytest.fixture
def tokenised(real_data, tmp_path):
    """The original code's tokens of real texts, and an adapter that knows their words."""
    texts = json.loads((real_data / "ports/rosita/tokenization_real_vocab.json").read_text())
    pairs = {(i, w) for one in texts for w, i in zip(one["tokens"], one["input_ids"][1:])}  # noqa: B905
    known = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]", **dict(pairs)}
    folder = tiny_folder(tmp_path, vocab_size=30522, max_position_embeddings=40)
    words = [known.get(i, f"[unused{i}]") for i in range(30522)]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    return texts, Rosita(device=CPU, architecture=folder, weights="random")


def test_texts_become_the_originals_tokens(tokenised):
    texts, model = tokenised
    ids = model._inputs([picture(1, 2048)] * 4, [one["text"] for one in texts])[0].ids
    assert ids.tolist() == [one["input_ids"] for one in texts]


def test_spans_are_those_of_the_text_with_its_punctuation(tokenised):
    text = tokenised[0][1]["text"]
    (found,) = tokenised[1].attend([picture(1, 2048)], [text])
    pieces = [text[slice(*span)] for span in found.spans]
    assert " ".join(pieces) == "Two kids and 1 dog play on the T-s hir t_s hop s stairs"


def test_a_text_of_punctuation_alone_has_no_spans(model, pictures):
    assert model.attend(pictures[:1], ["?!"])[0].spans == []


def test_label_1_is_a_match(load, parts, pictures):
    bias = {"dense.weight": torch.zeros(2, 16), "dense.bias": torch.tensor([0.0, 2.0])}
    found = load({**parts, "mm_itm_head": bias}).score_pairs(pictures, TEXTS)
    torch.testing.assert_close(found, torch.full((3,), 2.0).sigmoid())


def test_padding_changes_neither_attention_nor_scores(model, pictures):
    together, scores = model.attend(pictures, TEXTS), model.score_pairs(pictures, TEXTS)
    for i, (seen, text) in enumerate(zip(pictures, TEXTS, strict=True)):
        alone = model.attend([seen], [text])[0]
        assert alone.spans == together[i].spans
        torch.testing.assert_close(alone.weights, together[i].weights, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(model.score_pairs([seen], [text]), scores[i : i + 1])


def test_spans_are_those_of_the_words_alone(model, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    assert found.spans == SPANS
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.whole


def test_regions_in_another_order_get_their_own_attention(model, pictures):
    seen, order = pictures[1].regions, torch.tensor([3, 0, 4, 1, 2])
    mixed = seen._replace(boxes=seen.boxes[order], vectors=seen.vectors[order])
    one, other = (model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (seen, mixed))
    torch.testing.assert_close(one.weights[..., order], other.weights)


def test_regions_of_another_width_are_refused_with_both_widths(model, pictures):
    with pytest.raises(DataError, match=r"picture 1 .* 9 wide; the model reads 8$"):
        model.attend([pictures[0], picture(2, 9)], TEXTS[:2])


@pytest.mark.parametrize(("options", "most"), [({}, 16), ({"limit": 6}, 6)])
def test_what_passes_the_limit_is_cut_and_counted(load, parts, pictures, options, most):
    model = load(parts, **options)
    assert model.context_length == most
    assert model.count_tokens(["a cat!", "cat " * 40]) == [4, 42]
    assert len(model.attend(pictures[:1], ["cat " * 40])[0].spans) == most - 2


def test_a_missing_weight_is_named_as_the_library_names_it(load, parts):
    del parts["backbone"]["layers.1.ffn.dense1.bias"]
    lost = r"backbone\.layers\.1\.output\.dense\.bias"
    with pytest.raises(
        WeightsError, match=rf"rosita\.pkl does not fit Network; 1 missing: {lost}$"
    ):
        load(parts)


def test_a_missing_part_is_named(load, parts):
    with pytest.raises(
        WeightsError, match=r"2 missing: pooler\.dense\.weight, pooler\.dense\.bias"
    ):
        load({**parts, "pooler": None})


def test_an_object_in_place_of_a_weight_is_no_weight(load, parts):
    parts["pooler"]["dense.bias"] = dt.date(2021, 1, 1)
    with pytest.raises(WeightsError, match=r"1 missing: pooler\.dense\.bias$"):
        load(parts)


def test_a_weight_of_another_shape_is_named(load, parts):
    parts["mm_itm_head"]["dense.bias"] = torch.ones(3)
    shapes = r"1 of another shape: mm_itm_head\.dense\.bias \(3,\), not \(2,\)"
    with pytest.raises(WeightsError, match=shapes):
        load(parts)


def test_a_file_without_the_head_attends_and_scores_nothing(load, parts, pictures):
    model = load({key: value for key, value in parts.items() if key != "mm_itm_head"})
    assert model.attend(pictures[:1], TEXTS[:1])[0].weights.shape[-1] == 3
    with pytest.raises(CannotDo, match="this checkpoint has no matching head"):
        model.score_pairs(pictures[:1], TEXTS[:1])


def test_random_weights_obey_their_seed(folder, pictures):
    first, same, other = (
        Rosita(device=CPU, architecture=folder, weights="random", init_seed=seed).score_pairs(
            pictures, TEXTS
        )
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert not torch.allclose(first, other)


def test_the_contract_holds(model):
    assert broken_promises(model, region_width=WIDTH) == []
