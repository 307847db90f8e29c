import pytest
import torch
import transformers
from ports import WIDTH
from safetensors.torch import load_file
from tiny_joint import CPU, SPANS, TEXTS, TWO_DOGS, adapter, picture
from tiny_models import write_visualbert

from vlbench.capabilities import Picture, Regions
from vlbench.errors import CannotDo, DataError, WeightsError

VisualBert = adapter("visualbert:VisualBert")
NAME = "visualbert"


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


def library(folder, seen, **options):
    """Return what the library's model gives for two dogs and a picture."""
    whole = transformers.VisualBertForPreTraining.from_pretrained(folder)
    vectors = seen.regions.vectors[None]
    kinds = torch.zeros(vectors.shape[:2], dtype=torch.long)
    with torch.no_grad():
        return whole(
            input_ids=torch.tensor(TWO_DOGS),
            visual_embeds=vectors,
            visual_token_type_ids=kinds,
            **options,
        )


def test_attention_is_the_librarys_from_text_to_regions(model, folder, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    expected = library(folder, pictures[1], output_attentions=True).attentions
    torch.testing.assert_close(found.weights, torch.stack(expected)[:, 0, :, 1:3, 4:])
    assert found.weights.shape == (2, 2, 2, 5)
    assert found.spans == SPANS
    assert found.whole
    assert torch.equal(found.boxes, pictures[1].regions.boxes)


def test_a_score_is_the_log_odds_of_the_librarys_probability_of_label_0(model, folder, pictures):
    expected = library(folder, pictures[1]).seq_relationship_logits.softmax(-1)[:, 0]
    scores = model.score_pairs(pictures[1:2], TEXTS[1:2])
    torch.testing.assert_close(scores.sigmoid(), expected)


def test_a_row_leaves_the_rest_of_its_attention_to_the_text(model, pictures):
    sums = model.attend(pictures[:1], TEXTS[:1])[0].weights.sum(-1)
    assert 0 < sums.min() <= sums.max() < 1


def test_a_model_six_numbers_wider_reads_the_boxes(tmp_path):
    folder = write_visualbert(tmp_path, width=WIDTH + 6)
    regions = Regions(torch.tensor([[10.0, 5, 40, 20]]), torch.ones(1, WIDTH), None, None, (50, 25))
    box = torch.tensor([[0.2, 0.2, 0.8, 0.8, 0.6, 0.6]])
    described = regions._replace(vectors=torch.cat([regions.vectors, box], 1))
    model = VisualBert(device=CPU, architecture=folder)
    found = [model.attend([Picture(None, r)], TEXTS[:1])[0] for r in (regions, described)]
    torch.testing.assert_close(found[0].weights, found[1].weights)


@pytest.mark.parametrize("lacking", [Picture(None, None), picture(2, WIDTH)])
def test_a_picture_without_region_vectors_is_named(model, pictures, lacking):
    if lacking.regions:
        lacking = Picture(None, lacking.regions._replace(vectors=None))
    with pytest.raises(DataError, match="picture 1 of the batch has no region vectors"):
        model.score_pairs([pictures[0], lacking], TEXTS[:2])


def original_layout(folder):
    """Return the weights under the names of the original code."""
    names = {
        "visual_bert.embeddings.visual_token_type_embeddings.weight": (
            "bert.bert.embeddings.token_type_embeddings_visual.weight"
        ),
        "visual_bert.embeddings.visual_position_embeddings.weight": (
            "bert.bert.embeddings.position_embeddings_visual.weight"
        ),
        "visual_bert.embeddings.visual_projection.weight": (
            "bert.bert.embeddings.projection.weight"
        ),
        "visual_bert.embeddings.visual_projection.bias": "bert.bert.embeddings.projection.bias",
    }
    whole = load_file(f"{folder}/model.safetensors")
    plain = {k: f"bert.{k.replace('visual_bert.', 'bert.')}" for k in whole}
    return {names.get(k, plain[k]): value for k, value in whole.items()}


def test_the_original_layout_gives_the_same(model, folder, tmp_path, pictures):
    torch.save(original_layout(folder), tmp_path / "best.th")
    other = VisualBert(device=CPU, architecture=folder, weights=str(tmp_path / "best.th"))
    scores = other.score_pairs(pictures, TEXTS)
    assert torch.equal(scores, model.score_pairs(pictures, TEXTS))
    found, expected = (m.attend(pictures[:1], TEXTS[:1])[0].weights for m in (other, model))
    assert torch.equal(found, expected)


def test_a_weight_that_the_original_layout_lacks_is_named(folder, tmp_path):
    state = original_layout(folder)
    del state["bert.bert.embeddings.projection.bias"]
    torch.save(state, tmp_path / "best.th")
    with pytest.raises(WeightsError, match=r"lacks 1 weights: .*embeddings\.visual_projection"):
        VisualBert(device=CPU, architecture=folder, weights=str(tmp_path / "best.th"))


def test_a_tokenizer_may_lie_elsewhere(folder, tmp_path, pictures):
    write_visualbert(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").unlink()
    model = VisualBert(device=CPU, architecture=str(tmp_path / "model"), tokenizer=folder)
    assert model.attend(pictures[:1], TEXTS[1:2])[0].spans == SPANS


def test_a_model_that_keeps_regions_out_of_its_layers_is_refused(tmp_path):
    folder = write_visualbert(tmp_path, bypass_transformer=True)
    with pytest.raises(CannotDo, match="keeps regions out of its layers"):
        VisualBert(device=CPU, architecture=folder)
