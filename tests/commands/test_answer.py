from vlbench.commands.answer import Answer


def test_an_answer_of_lines_alone_ends_well():
    assert Answer(["wrote a"]) == (["wrote a"], (), 0)
