import pytest
import torch
import transformers
from ports import WIDTH
from tiny_joint import SPANS, TEXTS, TWO_DOGS, picture

NAME = "lxmert"


@pytest.fixture
def pictures():
    return [picture(3, WIDTH), picture(5, WIDTH, seed=1), picture(1, WIDTH, seed=2)]


def library(folder, seen):
    """Return what the library's model gives for two dogs and a picture."""
    whole = transformers.LxmertForPreTraining.from_pretrained(folder)
    with torch.no_grad():
        return whole(
            input_ids=torch.tensor(TWO_DOGS),
            visual_feats=seen.regions.vectors[None],
            visual_pos=(seen.regions.boxes / torch.tensor([60, 40, 60, 40]))[None],
            output_attentions=True,
        )


def test_attention_is_the_librarys_in_each_cross_layer(model, folder, pictures):
    found = model.attend(pictures[1:2], TEXTS[1:2])[0]
    expected = torch.stack(library(folder, pictures[1]).cross_encoder_attentions)
    torch.testing.assert_close(found.weights, expected[:, 0, :, 1:3])
    assert found.weights.shape == (2, 2, 2, 5)
    assert not found.whole
    assert found.spans == SPANS
    assert torch.equal(found.boxes, pictures[1].regions.boxes)


def test_a_score_is_the_log_odds_of_the_librarys_probability_of_label_1(model, folder, pictures):
    expected = library(folder, pictures[1]).cross_relationship_score.softmax(-1)[:, 1]
    scores = model.score_pairs(pictures[1:2], TEXTS[1:2])
    torch.testing.assert_close(scores.sigmoid(), expected)
