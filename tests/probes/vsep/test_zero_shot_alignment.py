from itertools import permutations

import pytest
import torch
from named_world import PlantedWords, ReadsRegions, StaticWords, drawn, world
from torch.nn.functional import normalize

from vlbench.engine import Engine
from vlbench.errors import TooFewRows, UnknownNameError
from vlbench.probes.vsep.network import VsepTraining
from vlbench.probes.vsep.zero_shot_alignment import (
    zero_shot_alignment,
    zero_shot_alignment_regions,
)

WIDTH = 8
KNOWN = [f"known{i}" for i in range(40)]


def things(*names):
    return [(name, name) for name in names]


def directions(names):
    return dict(zip(names, normalize(drawn(len(names), WIDTH)), strict=True))


def look(images, table, noise=0.05):
    exact = torch.stack([table[c] for image in images for c, _ in image])
    return exact + noise * drawn(*exact.shape, seed=3)


def probe(model, data, **params):
    """Return the outcome; the fields of `training` may stand beside the others."""
    params = {"held_out": ["new"], "epochs": 40, "batch_size": 200, "objects": [2]} | params
    training = VsepTraining(**{k: params.pop(k) for k in VsepTraining._fields if k in params})
    return zero_shot_alignment(model, data, Engine.for_tests(), training=training, **params)


def values(outcome, objects=2):
    return {s.metric: s.value for s in outcome.scores if s.at == {"objects": objects}}


def small(held_out=("new",), objects=2):
    """Return data of few images in which one known and one new thing are seen."""
    names = [*KNOWN[:4], *held_out]
    train = [things(n) for n in names] * 5
    test = [things(*p) for p in permutations(names, objects)]
    return world(train, test, look(train + test, directions(names)))


def words_of(*held_out):
    return StaticWords({n: drawn(6, seed=i) for i, n in enumerate([*KNOWN[:4], *held_out])})


def test_a_known_map_carries_to_an_unseen_category():
    # Words are a rotation of regions that 40 known things in 8 dimensions give away.
    names = [*KNOWN, "new"]
    table = directions(names)
    rotation = torch.linalg.qr(drawn(WIDTH, WIDTH, seed=9)).Q
    train = [things(n) for n in KNOWN] * 10
    test = [things(n, "new") for n in KNOWN] * 5
    data = world(train, test, look(train + test, table))
    words = StaticWords({n: v @ rotation for n, v in table.items()})
    found = values(probe(words, data, epochs=100))
    assert found["accuracy_unseen"] > 0.9
    assert found["accuracy_seen"] > 0.95


def test_an_unseen_region_that_looks_like_a_known_thing_gets_its_word():
    # The new thing looks exactly like known0: always known0's word, beside any other never.
    names = KNOWN[:8]
    table = dict(zip([*names, "new"], torch.eye(WIDTH)[[*range(8), 0]], strict=True))
    words = StaticWords(dict(zip([*names, "new"], torch.eye(9), strict=True)))
    train = [things(n) for n in names] * 20
    test = [things("known0", "new")] * 30
    data = world(train, test, look(train + test, table, noise=0))
    found = values(probe(words, data, batch_size=16))
    assert (found["accuracy_unseen"], found["accuracy_seen"], found["accuracy"]) == (0, 1, 0.5)
    assert found["mutual_exclusivity"] == 1


def test_constant_words_score_chance_and_their_errors_are_uniform():
    data = small(held_out=("new", "newer"), objects=3)
    words = StaticWords(dict.fromkeys([*KNOWN, "new", "newer"], torch.arange(5.0)))
    outcome = probe(words, data, held_out=["new", "newer"], objects=[3], epochs=1)
    for score in outcome.scores:
        assert score.value == pytest.approx(score.chance)
    (pooled,) = [s for s in outcome.scores if s.at == {"objects": "all"}]
    assert pooled.chance == pytest.approx(unseen_fraction(data, {"new", "newer"}))


def unseen_fraction(data, held_out):
    rows = [set(c) for c in data.splits["test"]["categories"] if set(c) & held_out]
    return sum(len(r & held_out) for r in rows) / sum(map(len, rows))


@pytest.mark.parametrize("objects", [2, 3])
def test_the_identity_holds_where_each_image_has_one_unseen_object(objects):
    data = small(objects=objects)
    words = words_of("new")
    outcome = probe(words, data, objects=[objects], epochs=1)
    found = values(outcome, objects)
    assert outcome.counts["unseen_not_one"] == 0
    assert 0 < found["accuracy"] < 1
    right = (objects - 1) * found["accuracy_seen"] + found["accuracy_unseen"]
    assert objects * found["accuracy"] == pytest.approx(right)


def test_images_with_two_unseen_objects_are_counted():
    data = small(held_out=("new", "newer"))
    words = words_of("new", "newer")
    outcome = probe(words, data, held_out=["new", "newer"], epochs=1)
    # new and newer, in either order
    assert outcome.counts["unseen_not_one"] == 2
    # each with one of four known things in either order, and with each other
    assert outcome.counts["images_2"] == 2 * 8 + 2


def test_a_region_encoder_is_tested_on_images_with_exactly_one_unseen_object():
    data = small(held_out=("new", "newer"), objects=3)
    words = words_of("new", "newer")
    params = {"held_out": ["new", "newer"], "objects": [3], "training": VsepTraining(epochs=1)}
    given = ReadsRegions(), data, Engine.for_tests()
    outcome = zero_shot_alignment_regions(*given, words=words, **params)
    # One of two new things and two of four known ones, in any order; no image has both.
    assert outcome.counts["images_3"] == 2 * 6 * 6
    assert outcome.counts["unseen_not_one"] == 0
    found = values(outcome, 3)
    right = 2 * found["accuracy_seen"] + found["accuracy_unseen"]
    assert 3 * found["accuracy"] == pytest.approx(right)


def test_nothing_wrong_leaves_no_statistic_of_errors():
    # The new thing looks like known1 and is called so, beside known0.
    table = dict(zip(["known0", "known1", "new"], torch.eye(4)[[0, 1, 1]], strict=True))
    train, test = [things("known0"), things("known1")] * 20, [things("known0", "new")] * 5
    data = world(train, test, look(train + test, table, noise=0), classes=list(table))
    outcome = probe(StaticWords(table), data, batch_size=4)
    assert {s.metric for s in outcome.scores} == {"accuracy", "accuracy_seen", "accuracy_unseen"}
    assert {s.value for s in outcome.scores} == {1.0}


def test_held_out_things_and_their_words_are_not_trained_on():
    train = [things("dog")] * 4 + [[("sofa", "couch")]] * 3 + [[("chair", "Recliner")]] * 2
    train += [[("chair", "couch")]] * 2 + [[("chair", "stool")]]
    test = [[("sofa", "couch"), ("dog", "dog")]] * 3
    data = world(train, test, drawn(12 + 6, 4))
    words = PlantedWords(lambda _, word: drawn(3, seed=len(word)))
    params = {"held_out": ["sofa"], "excluded_words": ["recliner"], "epochs": 1}
    # four dogs and a stool; a chair that is called what a sofa is called is left out
    assert probe(words, data, **params).counts["images_1"] == 5


def test_held_out_things_that_are_unknown_or_all_are_refused():
    with pytest.raises(UnknownNameError, match="no category is named 'newt'; did you mean new"):
        probe(words_of("new"), small(), held_out=["newt"])
    with pytest.raises(TooFewRows, match="no train image is left without the held-out"):
        probe(words_of("new"), small(), held_out=[*KNOWN[:4], "new"])


def test_no_image_with_a_held_out_thing_leaves_nothing_to_test():
    names = KNOWN[:3]
    train, test = [things(n) for n in [*names, "new"]], [things(*names[:2])]
    data = world(train, test, look(train + test, directions([*names, "new"])))
    with pytest.raises(TooFewRows, match="no test image of 2 objects has one of a held-out"):
        probe(words_of("new"), data)


def test_both_ways_round_it_is_the_same_probe():
    data, regions = small(), ReadsRegions()
    words = words_of("new")
    params = {"held_out": ["new"], "objects": [2], "training": VsepTraining(epochs=2)}
    engine = Engine.for_tests()
    one = zero_shot_alignment(words, data, engine, regions=regions, **params)
    assert one == zero_shot_alignment_regions(regions, data, engine, words=words, **params)
