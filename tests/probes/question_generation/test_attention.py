import pytest
import torch
from question_fakes import TOY_WORDS, toy_asked, toy_trainings

from vlbench.errors import CannotDo
from vlbench.nets.bert_gen import Example
from vlbench.probes.question_generation.attention import AttentionReader, look_rows
from vlbench.probes.question_generation.steps import STEPS

BY_NAME = {step.name: step for step in STEPS}
CAPTION = "a thing0 here"


@pytest.fixture(scope="module")
def column():
    return toy_asked().split["regions"]


def untrained(step):
    return toy_trainings().asker(BY_NAME[step], untrained=True)


def look_of(asker, column):
    """Return what the first image's question, with its caption, looks at."""
    (look,) = AttentionReader(asker).looks([column[0]], ["0"], [CAPTION])
    return look


def test_attention_is_that_of_the_mask_in_the_place_of_each_token(column):
    asker = untrained("3")
    look = look_of(asker, column)
    source = asker.sources([column[0]], ["0"], [CAPTION])[0]
    said = TOY_WORDS.convert_tokens_to_ids(look["tokens"])
    assert look["kinds"] == ["region"] * 2 + ["word"] * 3
    assert look["places"] == ["0", "1", "a", "thing0", "here"]
    inputs, _ = asker.network.one_pass([Example(source, said)])
    n = source.length
    for t in range(len(said)):
        # X, the tokens before, and the [MASK], in a pass of their own.
        own = [*range(n + t), n + len(said) - 1 + t]
        alone = {
            "inputs_embeds": inputs.embedded[:, own],
            "position_ids": torch.arange(n + t + 1)[None],
        }
        sees = torch.ones(n + t + 1, n + t + 1).tril()
        sees[:n, :n] = 1
        mask = torch.zeros_like(sees).masked_fill(sees == 0, torch.finfo(torch.float32).min)
        with torch.no_grad():
            attention = asker.network.module(
                **alone, attention_mask=mask[None, None], output_attentions=True
            ).attentions[-1]
        row = attention[0].mean(0)[-1]
        assert torch.allclose(look["weights"][t], row[[1, 2, 4, 5, 6]], atol=1e-5)


@pytest.mark.parametrize(("step", "columns", "x"), [("1", 3, 4), ("2", 2, 3), ("3", 5, 7)])
def test_without_queries_all_that_is_seen_is_looked_at_alike(column, step, columns, x):
    asker = untrained(step)
    query = asker.network.module.base_model.encoder.layer[-1].attention.self.query
    torch.nn.init.zeros_(query.weight)
    torch.nn.init.zeros_(query.bias)
    weights = look_of(asker, column)["weights"]
    # Token t sees X, t tokens before it, and its own [MASK].
    expected = 1 / (x + 1 + torch.arange(len(weights)))
    torch.testing.assert_close(weights, expected[:, None].expand(-1, columns))


def test_a_look_has_the_question_that_is_asked_and_at_most_so_many_tokens(column):
    asker = untrained("3")
    look = look_of(asker, column)
    assert [look["question"]] == asker.ask([column[0]], ["0"], [CAPTION])
    assert 1 <= len(look["tokens"]) == len(look["weights"]) <= asker.texts.most


def test_the_end_is_a_token_that_looks(column):
    asker = untrained("1")
    with torch.no_grad():
        asker.network.module.cls.predictions.bias[asker.texts.end] += 1000
    look = look_of(asker, column)
    assert (look["question"], look["tokens"]) == ("", ["[SEP]"])
    assert (look["kinds"], look["places"]) == (["word"] * 3, ["a", "thing0", "here"])


def test_a_module_that_returns_no_attention_is_refused(column):
    asker = untrained("1")
    own = asker.network.module.forward
    asker.network.module.forward = lambda **given: own(**given | {"output_attentions": False})
    with pytest.raises(CannotDo, match="BertForMaskedLM returns no attention"):
        look_of(asker, column)


def test_a_row_is_of_a_token_and_what_it_looks_at():
    look = {
        "question": "who?",
        "tokens": ["who", "?"],
        "kinds": ["region", "word"],
        "places": ["0", "dog"],
        "weights": torch.tensor([[0.5, 0.25], [0.125, 0.0]]),
    }
    common = {"id": "7.jpg", "step": "3", "question": "who?"}
    region = {"kind": "region", "column": 0, "text": "0"}
    word = {"kind": "word", "column": 1, "text": "dog"}
    first, second = {"token": 0, "token_text": "who"}, {"token": 1, "token_text": "?"}
    assert look_rows("7.jpg", "3", look) == [
        {**common, **first, **region, "weight": 0.5},
        {**common, **first, **word, "weight": 0.25},
        {**common, **second, **region, "weight": 0.125},
        {**common, **second, **word, "weight": 0.0},
    ]
