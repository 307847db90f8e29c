import pytest
import torch
from named_world import StaticWords, world

from vlbench.data.coco_files import Named
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.ranking import Choice, without_answer
from vlbench.metrics.scores import measure_items, score_of, subset
from vlbench.probes.vsep.alignment import (
    Objects,
    Splits,
    assigned_words,
    chosen_words,
    gather,
    region_items,
    similarities,
    train_on,
)
from vlbench.probes.vsep.named_objects import ObjectEncoders
from vlbench.probes.vsep.network import VsepTraining

WORDS = StaticWords({name: torch.randn(3) for name in "abc"})
ONE, TWO = [("a", "a")], [("a", "a"), ("b", "b")]


def sets_of(train, test, objects=(2,), words=WORDS, splits=Splits()):  # noqa: B008 - a tuple
    data = world(train, test, torch.randn(sum(map(len, [*train, *test])), 4))
    return gather(ObjectEncoders(words, None), data, Engine.for_tests(), objects, splits)


def test_images_are_sorted_by_split_and_number_of_objects_and_splits_may_be_pooled():
    sets = sets_of([ONE, TWO, ONE], [TWO, ONE, TWO, TWO])
    assert (len(sets.train.named), len(sets.tests[2].named)) == (2, 3)
    assert (sets.counts["images_1"], sets.counts["clusters"]) == (2, 3)
    assert sets.tests[2].regions.shape == (3, 2, 4)
    both = Splits(["train", "test"], ["train", "test"])
    pooled = sets_of([ONE, TWO, ONE], [TWO, ONE, TWO, TWO], splits=both)
    assert (len(pooled.train.named), len(pooled.tests[2].named)) == (3, 4)


def test_an_image_with_a_word_without_a_vector_is_left_out_and_counted():
    sets = sets_of([ONE], [TWO, [("a", "a"), ("b", "blurb")]])
    assert [sets.counts[name] for name in ("images_2", "oov_words", "oov_images")] == [1] * 3


def test_a_model_without_any_of_the_words_cannot():
    with pytest.raises(CannotDo, match="no vector for any of 3 words"):
        sets_of([ONE], [TWO], words=StaticWords({}))


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [([TWO], [TWO], "no train image has 1 object"), ([ONE], [ONE], "no test image has 2 objects")],
)
def test_a_set_without_images_is_refused(train, test, message):
    with pytest.raises(TooFewRows, match=message):
        sets_of(train, test)


@pytest.mark.parametrize("objects", [(), (1, 2)])
def test_fewer_than_two_objects_are_nothing_to_choose_from(objects):
    with pytest.raises(ValueError, match="must be numbers of 2 or more"):
        sets_of([ONE], [TWO], objects)


def test_a_region_chooses_its_most_similar_word():
    cosines = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.5, 0.5], [0.1, 0.3]]]).double()
    choice = chosen_words(cosines)
    assert choice.credit.tolist() == [[1.0, 0.0], [0.5, 1.0]]
    assert choice.tied.tolist() == [[False, False], [True, False]]


def test_an_assignment_gives_each_word_to_one_region_and_tied_ones_share_the_credit():
    # 0.9 + 0.2 < 0.1 + 1.1: the second image's regions swap their words.
    cosines = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [1.1, 0.2]]]).double()
    assert assigned_words(cosines).credit.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    tied = assigned_words(torch.ones(1, 3, 3).double()).credit.tolist()
    assert tied[0] == pytest.approx([1 / 3] * 3)


def test_similarities_are_the_cosines_of_mapped_regions_and_words(monkeypatch):
    sets = sets_of([ONE, [("b", "b")]] * 3, [TWO] * 5)
    training = VsepTraining(1, 4, seeds=2)
    nets = train_on(sets.train, Engine.for_tests(), training, layer_normed=False)
    objects = sets.tests[2]
    found = similarities(nets, objects)
    words = torch.nn.functional.normalize(objects.words[3].double(), dim=-1)
    for net, cosines in zip(nets, found, strict=True):
        assert torch.allclose(cosines[3], net.directions(objects.regions[3]) @ words.T)
    monkeypatch.setattr("vlbench.probes.vsep.alignment.BLOCK", 2)
    assert torch.allclose(similarities(nets, objects), found)


def test_a_seed_trains_alone_what_it_trains_among_others():
    sets, engine = sets_of([ONE, [("b", "b")]] * 3, [TWO]), Engine.for_tests()
    several = train_on(sets.train, engine, VsepTraining(1, 4, seed=3, seeds=2))
    (alone,) = train_on(sets.train, engine, VsepTraining(1, 4, seed=4))
    weights = [net.weights["out.bias"] for net in (*several, alone)]
    assert torch.equal(weights[1], weights[2])
    assert not torch.equal(weights[0], weights[1])


def test_shuffled_training_pairs_regions_with_words_of_other_images():
    sets = sets_of([ONE, [("b", "b")], [("c", "c")]] * 4, [TWO])
    engine, training = Engine.for_tests(), VsepTraining(2, 4)
    nets = [train_on(sets.train, engine, training, shuffled=s)[0] for s in (False, True)]
    assert not torch.equal(nets[0].weights["out.bias"], nets[1].weights["out.bias"])


def test_a_selection_keeps_regions_words_and_names_together():
    names = [[Named("a", "a", i, i + 1)] for i in range(3)]
    objects = Objects(torch.arange(3.0).view(3, 1, 1), torch.zeros(3, 1, 2), names)
    found = objects.select([2, 0])
    assert found.regions.flatten().tolist() == [2, 0]
    assert [row[0].start for row in found.named] == [2, 0]


NAMES = [
    [Named("animal", "cat", 0, 3), Named("vehicle", "car", 4, 7)],
    [Named("animal", "dog", 0, 3), Named("vehicle", "car", 4, 7)],
]
IMAGES = [("a", "sha256:a"), ("b", "sha256:b")]
OBJECTS = Objects(torch.zeros(2, 2, 1), torch.zeros(2, 2, 1), NAMES, images=IMAGES)
CREDIT = torch.tensor([[[1.0, 0.0], [0.5, 1.0]]])


def score_regions(credit, objects=OBJECTS, **floors):
    return score_of(region_items("accuracy", objects, without_answer(credit), floors))


def choose(chosen, credit=CREDIT):
    return Choice(credit, chosen < 0, chosen)


def test_a_score_counts_regions_and_has_the_chance_of_its_number_of_objects():
    credit = torch.tensor([[[1.0, 0.0], [1.0, 1.0]]]).double()
    score = score_regions(credit, shuffled_words=without_answer(credit / 2))
    assert (score.value, score.n, score.chance, score.at) == (0.75, 4, 0.5, {"objects": 2})
    assert score.floors == {"shuffled_words": 0.375}
    assert score.draws == []


def test_a_score_of_several_networks_is_their_mean_and_as_unsure_as_they_are():
    once = torch.tensor([[1.0, 0.0], [1.0, 1.0]] * 20).double()
    objects = OBJECTS._replace(named=NAMES * 20, images=[(f"{i}", "") for i in range(40)])
    one, same = (score_regions(once.expand(k, -1, -1), objects) for k in (1, 3))
    varied = score_regions(torch.stack([once, once, once.flip(1) * 0]), objects)
    assert (varied.value, varied.draws) == (0.5, [0.75, 0.75, 0.0])
    assert varied.stderr == pytest.approx((0.25**2 + (2 / 3) ** 2 * one.stderr**2) ** 0.5, rel=0.05)
    # As the clusters alone, whose errors the first has from a bootstrap.
    assert same.stderr == pytest.approx(one.stderr, rel=0.05)


def test_a_region_is_an_item_in_the_cluster_of_its_image():
    items = region_items("accuracy", OBJECTS, choose(torch.tensor([[[0, 0], [-1, 1]]])))
    found = measure_items(items).items.to_pylist()
    assert [(row["id"], row["cluster"], row["prediction"], row["target"]) for row in found] == [
        ("a/animal", "a", "cat", "cat"), ("a/vehicle", "a", "cat", "car"),
        ("b/animal", "b", None, "dog"), ("b/vehicle", "b", "car", "car"),
    ]  # fmt: skip
    assert [row["credit"] for row in found] == [1.0, 0.0, 0.5, 1.0]
    assert [row["trial"] for row in found] == [None] * 4


def test_a_region_is_an_item_of_each_network_and_the_items_may_be_some_of_the_regions():
    chosen = torch.tensor([[[0, 0], [-1, 1]], [[0, 1], [0, 0]]])
    credit = torch.cat([CREDIT, torch.tensor([[[1.0, 1.0], [1.0, 0.0]]])])
    found = measure_items(region_items("accuracy", OBJECTS, choose(chosen, credit)))
    found = found.items.to_pylist()
    assert [row["trial"] for row in found] == [0] * 4 + [1] * 4
    assert [row["prediction"] for row in found[4:]] == ["cat", "car", "dog", "dog"]
    assert [row["credit"] for row in found[4:]] == [1.0, 1.0, 1.0, 0.0]
    some = measure_items(subset(region_items("accuracy", OBJECTS, without_answer(CREDIT)), [1, 2]))
    assert some.items["id"].to_pylist() == ["a/vehicle", "b/animal"]
    assert some.items["credit"].to_pylist() == [0.0, 0.5]
