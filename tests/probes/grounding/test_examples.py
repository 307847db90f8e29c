import numpy as np
import pytest
from grounding_fakes import REGIONS, Patches, Planted, picture_of, two_things

from vlbench.probes.grounding.attention import AttentionReader
from vlbench.probes.grounding.examples import ExampleReader, choose_examples, draw
from vlbench.probes.grounding.queries import Query
from vlbench.probes.grounding.scores import Group

PICTURE = picture_of(two_things(0, 0, 1), confident=True)


def read(model, span=(2, 8)):
    (found,) = ExampleReader(AttentionReader(model, 1)).read(
        [PICTURE], [{"text": "a thing0 sees the thing1 0", "span": list(span), "head": 5}]
    )
    return found


def test_a_model_of_patches_is_shown_to_choose_among_regions():
    found = read(Patches())
    assert found["boxes"].tolist() == REGIONS
    # Each quarter of the image has 1/8 of the attention, the one that the word names four times
    # as much; the second region lies in two quarters, 12 x 24 of 32 x 32 pixels in each.
    wanted = [4 / 8 * 100 / 1024, (4 / 8 + 1 / 8) * 288 / 1024]
    assert found["weights"][:2].tolist() == pytest.approx(wanted)
    assert float(found["total"]) == pytest.approx(7 / 8)


def test_a_model_of_regions_is_shown_its_own_weights():
    found = read(Planted())
    assert found["boxes"].tolist() == REGIONS
    assert float(found["weights"][0] / found["total"]) == pytest.approx(0.9)


def test_dollar_signs_of_a_caption_are_no_formula():
    example = {"text": "a $_$ sign", "span": [0, 1], "gold": [REGIONS[0]], "title": "head 0-0"}
    draw([PICTURE], [example], [None]).unlink()


def test_a_word_without_a_token_has_no_attention():
    assert read(Planted(), span=(60, 65)) is None


def group(number, sizes, best):
    """Return a group of two heads, of which `best` is right."""
    accuracy = np.zeros((len(sizes), 2))
    accuracy[:, best] = sizes
    return Group(
        number=number, at={"relation": f"r{number}"}, measures={"accuracy": accuracy},
        stats={"n": np.array(sizes)}, shape=(1, 2), whole=True, has_scores=True, seed=0,
    )  # fmt: skip


def test_examples_are_spread_over_the_images_of_each_group_in_turn():
    def one(*groups):
        texts = [f"word {group}" for group in groups]
        queries = [[Query(group, 0, 4, 0)] for group in groups]
        return {"texts": texts, "queries": queries, "targets": [[REGIONS[0]]]}

    queries = [one(0), one(1), one(0, 1), one(0)]
    groups = [group(0, [1.0, 0, 1, 1], best=1), group(1, [0.0, 1, 1, 0], best=0)]
    chosen = choose_examples(queries, groups, 4)
    assert [(e["image"], e["text"], e["head"]) for e in chosen] == [
        (0, "word 0", 1), (1, "word 1", 0), (2, "word 0", 1), (2, "word 1", 0)
    ]  # fmt: skip
    assert chosen[0]["title"] == "r0 head 0-1"
