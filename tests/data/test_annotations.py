from vlbench.data.annotations import Arc, Named, Phrase


def test_annotations_are_plain_tuples_that_storage_can_name():
    assert Arc("nsubj", 1, 0)._asdict() == {"relation": "nsubj", "head": 1, "dependent": 0}
    assert Phrase(0, 2, (1,))._asdict() == {"start": 0, "stop": 2, "boxes": (1,)}
    assert Named("dog", "puppies", 4, 11) == ("dog", "puppies", 4, 11)
