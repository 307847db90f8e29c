from vlbench.drawing.looks import looks


def test_eight_models_differ_in_colour_and_160_in_some_way():
    found = list(looks(f"{i:03}" for i in range(160)).values())
    assert len({look.colour for look in found[:8]}) == 8
    assert len(set(found)) == 160


def test_the_order_of_names_and_a_name_given_twice_change_nothing():
    assert looks(["b", "a", "b"]) == looks(["a", "b"])


def test_controls_come_after_the_models():
    assert looks("abc", {"a"}) == dict(zip(("b", "c", "a"), looks("xyz").values(), strict=True))
