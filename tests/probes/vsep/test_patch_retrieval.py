import pytest
import torch
from named_world import PlantedWords, StaticWords, drawn, world

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.vsep.network import VsepTraining
from vlbench.probes.vsep.patch_retrieval import Pools, patch_retrieval

WIDTH = 12


def planted(images=30, train=600):
    """Return data whose every region is of its own, and a model that knows each by its caption."""
    one = [[("a", "a")], [("b", "b")]] * (train // 2)
    two = [[("a", "a"), ("b", "b")]] * images
    regions = drawn(train + 2 * images, WIDTH)
    rotation = torch.linalg.qr(drawn(WIDTH, WIDTH, seed=9)).Q

    def look_up(text, word):
        if ":" not in text or ":" in word:
            return None if ":" in word else drawn(WIDTH, seed=len(text))
        number, alone = int(text.split(":")[0]), len(text.split()) == 2
        row = number if alone else train + 2 * number + "ab".index(word)
        return regions[row] @ rotation

    return world(one, two, regions), PlantedWords(look_up)


def probe(model, data, **params):
    """Return the outcome with the fields of `training` and `pools`."""
    params = {"epochs": 40, "batch_size": 100} | params
    training = VsepTraining(**{k: params.pop(k) for k in VsepTraining._fields if k in params})
    given = {"pools": Pools(**params), "training": training}
    return patch_retrieval(model, data, Engine.for_tests(), **given)


def test_words_that_carry_their_own_region_find_it():
    data, words = planted()
    first, fifth = probe(words, data, seeds=2).scores
    assert first.value > 0.9
    assert (first.at, fifth.at, first.n) == ({"k": 1}, {"k": 5}, 2)
    assert (first.chance, fifth.chance) == (1 / 30, 5 / 30)
    assert fifth.value >= first.value
    assert len(first.draws) == 5
    assert first.floors["shuffled_words"] < 0.2


def test_static_words_score_chance():
    data, _ = planted()
    words = StaticWords({"a": drawn(5), "b": drawn(5, seed=2)})
    scores = probe(words, data, epochs=2).scores
    assert [s.value for s in scores] == pytest.approx([s.chance for s in scores])


def test_static_words_score_chance_among_things_of_one_word_but_not_of_one_category():
    two = [[("a", word), ("b", "b")] for word in ("cat", "dog")] * 10
    one = [[("a", "cat")], [("a", "dog")], [("b", "b")]] * 20
    table = dict(zip(["cat", "dog", "b"], drawn(3, WIDTH), strict=True))
    seen = torch.stack([table[word] for image in one + two for _, word in image])
    data = world(one, two, seen + 0.1 * drawn(*seen.shape, seed=4))
    words = StaticWords(table)
    broad, fine = (probe(words, data, k=[1], within=kind) for kind in ("category", "word"))
    # Chance is 1/20 in both categories, and 1/10, 1/10 and 1/20 among cats, dogs and b.
    assert broad.scores[0].value > 1.4 * broad.scores[0].chance
    assert fine.scores[0].value == pytest.approx(0.25 / 3, abs=1e-12)
    assert (broad.scores[0].n, fine.scores[0].n) == (2, 3)
    assert sorted(set(fine.items["id"].to_pylist())) == ["a/cat", "a/dog", "b/b"]


def test_a_category_with_fewer_images_uses_all_of_them():
    two = [[("a", "a"), ("b", "b")]] * 6 + [[("a", "a"), ("c", "c")]]
    data = world([[("a", "a")]] * 4, two, drawn(4 + 14, 4))
    words = PlantedWords(lambda _, word: drawn(6, seed=ord(word[0])))
    outcome = probe(words, data, epochs=1, size=7, k=[1])
    # seven of a, six of b; the only c has nothing to be told from
    expected = {"categories": 2, "categories_short": 1, "smallest_pool": 6}
    assert expected.items() <= outcome.counts.items()
    assert outcome.scores[0].chance == pytest.approx((1 / 7 + 1 / 6) / 2)


def test_each_draw_has_the_network_of_the_next_seed():
    data, words = planted(train=50)
    options = {"epochs": 2, "draws": 3, "seed": 0}
    both = [probe(words, data, **options, seeds=seeds).scores[0].draws for seeds in (2, 1)]
    # Pools are drawn by the first seed alone.
    assert [a == b for a, b in zip(*both, strict=True)] == [True, False, True]


def test_categories_of_single_images_leave_nothing_to_rank():
    data = world([[("a", "a")]], [[("a", "a"), ("b", "b")]], drawn(3, 4))
    words = StaticWords({"a": drawn(3), "b": drawn(3)})
    with pytest.raises(TooFewRows, match="no category has two images of 2 objects"):
        probe(words, data)
    with pytest.raises(TooFewRows, match="no word has two images of 2 objects"):
        probe(words, data, within="word")


@pytest.mark.parametrize("params", [{"size": 1}, {"draws": 0}, {"k": [0, 1]}, {"seeds": 6}])
def test_nothing_to_draw_is_refused(params):
    data, words = planted(train=50)
    with pytest.raises(ValueError, match="wanted a pool of 2 or more, draws and k of 1 or more"):
        probe(words, data, **params)
