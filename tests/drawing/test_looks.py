from planted_boards import board, result, score, write

from vlbench.boards import folder_boards
from vlbench.drawing.looks import looks, looks_of


def test_eight_models_differ_in_colour_and_160_in_some_way():
    found = list(looks(f"{i:03}" for i in range(160)).values())
    assert len({look.colour for look in found[:8]}) == 8
    assert len(set(found)) == 160


def test_the_order_of_names_and_a_name_given_twice_change_nothing():
    assert looks(["b", "a", "b"]) == looks(["a", "b"])


def test_all_models_of_all_boards_of_a_folder_have_a_look(tmp_path):
    failed = result("b", status="failed")
    write(tmp_path, board(result("c"), failed, task="x"), board(result("a"), task="y"))
    assert looks_of(folder_boards(tmp_path).values()) == looks("abc")


def test_controls_come_after_the_models():
    control = result("a", score(), provenance={"control": True})
    found = looks_of([board(control, result("b", score()), result("c", score()))])
    assert found == dict(zip(("b", "c", "a"), looks("xyz").values(), strict=True))
