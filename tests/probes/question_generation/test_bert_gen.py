from itertools import product

import pytest
import torch
from question_fakes import KINDS, WIDTH, WORDS, bert_gen, masked_lm, tokenizer

from vlbench.errors import CannotDo
from vlbench.probes.question_generation.bert_gen import BertGen, Example, Source, marks_of

END = 3
BOTH = list(product(KINDS, ["eager", "sdpa"]))


def objects(n, seed=0):
    return torch.randn(n, WIDTH + 4, generator=torch.Generator().manual_seed(seed))


EXAMPLES = [
    Example(Source(objects(5)), [7, 8, 9, 10, END]),
    Example(Source(None, [11, 12, 13]), [14, END]),
    Example(Source(objects(2, seed=1), [15, 16]), [17, 18, 19, END]),
]


def masked_copies(net, examples):
    """Return the log-probability of each token, from a pass that ends in a [MASK] in its place.

    Written with the library's own tokens and positions wherever there are no regions.
    """
    found = []
    for source, question in examples:
        x = net.read([source]).embedded[0]
        of_question = []
        for t in range(len(question)):
            said = net.module.get_input_embeddings()(torch.tensor([*question[:t], 4]))
            n, size = len(x), len(x) + t + 1
            sees = torch.ones(size, size).tril()
            sees[:n, :n] = 1
            mask = torch.zeros(size, size).masked_fill(sees == 0, torch.finfo(torch.float32).min)
            options = {}
            if net.first_position == 0:
                options["position_ids"] = torch.arange(size)[None]
            # RoBERTa counts its positions by itself, from the one after padding.
            logits = net.module(
                inputs_embeds=torch.cat([x, said])[None], attention_mask=mask[None, None], **options
            ).logits
            of_question.append(logits[0, -1].log_softmax(-1)[question[t]])
        found.append(torch.stack(of_question))
    return found


@pytest.mark.parametrize(("kind", "attention"), BOTH)
def test_one_pass_gives_the_loss_and_the_gradients_of_masked_copies(kind, attention):
    net = bert_gen(kind, attention=attention)
    loss = net.loss(EXAMPLES)
    loss.backward()
    gradients = {n: w.grad.clone() for n, w in net.named_parameters() if w.grad is not None}
    net.zero_grad()
    copies = masked_copies(net, EXAMPLES)
    expected = -torch.cat(copies).mean()
    expected.backward()
    for one, other in zip(net.log_probabilities(EXAMPLES), copies, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, weight in net.named_parameters():
        if weight.grad is not None:
            assert torch.allclose(gradients[name], weight.grad, atol=1e-5), name
    assert gradients["projection"].abs().max() > 1e-3


@pytest.mark.parametrize(("kind", "attention"), BOTH)
def test_a_changed_token_changes_no_prediction_before_the_next(kind, attention):
    net = bert_gen(kind, attention=attention)
    source, question = EXAMPLES[2]
    for t in range(len(question) - 1):
        changed = [*question[:t], 20, *question[t + 1 :]]
        pair = [Example(source, question), Example(source, changed)]
        (logits, other) = net._predictions(pair)[0].view(2, len(question), -1)
        assert torch.allclose(logits[: t + 1], other[: t + 1], atol=1e-5)
        assert not torch.allclose(logits[t + 1], other[t + 1], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_unequal_lengths_predicts_as_batches_of_one(kind):
    net = bert_gen(kind)
    for together, example in zip(net.log_probabilities(EXAMPLES), EXAMPLES, strict=True):
        assert torch.allclose(together, net.log_probabilities([example])[0], atol=1e-5)


def test_a_mask_after_a_caption_sees_the_caption_at_its_position():
    # In one layer it makes no difference that the caption does not see the [MASK] in turn.
    net = bert_gen(num_hidden_layers=1)
    inputs, chosen = net.one_pass([Example(Source(None, [11, 12, 13]), [END])])
    plain = net.module(input_ids=torch.tensor([[2, 11, 12, 13, 4]])).logits
    assert torch.allclose(net.run(inputs, chosen).logits[0], plain[0, -1], atol=1e-5)


def test_x_is_start_regions_separator_and_caption():
    net = bert_gen()
    with torch.no_grad():
        ((x,), _) = net.read([EXAMPLES[2].source])
        words = net.module.get_input_embeddings().weight
        regions = EXAMPLES[2].source.objects @ net.projection.T
    expected = torch.stack([words[2], *regions, words[3], words[15], words[16]])
    assert torch.allclose(x, expected)
    assert len(x) == EXAMPLES[2].source.length


@pytest.mark.parametrize(("kind", "limit"), [("bert", 64), ("roberta", 62), ("distilbert", 64)])
def test_positions_follow_x_and_keep_to_those_of_the_module(kind, limit):
    net = bert_gen(kind)
    prefix = net.read([Source(None, [5]), Source(None, [5, 6, 7])])
    positions = net.positions(prefix, torch.arange(2)) - net.first_position
    assert positions.tolist() == [[0, 1, 0, 0, 2, 3], [0, 1, 2, 3, 4, 5]]
    assert net.limit == limit


@pytest.mark.parametrize(("token", "named"), [("mask", "MASK"), ("cls", "CLS"), ("sep", "SEP")])
def test_a_tokenizer_without_a_special_token_is_refused(token, named):
    with pytest.raises(CannotDo, match=f"the tokenizer has no \\[{named}\\]"):
        marks_of(tokenizer(["a"], without=token))


def test_a_tokenizer_s_own_end_is_taken_before_the_separator():
    own = tokenizer(["a", "end"])
    assert marks_of(own).end == own.sep_token_id
    own.add_special_tokens({"eos_token": "end"})
    assert marks_of(own).end == own.convert_tokens_to_ids("end")


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_that_hides_later_tokens_passes(kind):
    bert_gen(kind).require_left_to_right()


def test_a_module_that_ignores_the_mask_is_refused():
    net = bert_gen()
    own = net.module.forward
    net.module.forward = lambda **given: own(**given | {"attention_mask": None})
    with pytest.raises(CannotDo, match="does not hide later tokens"):
        net.require_left_to_right()


def test_a_module_without_learned_positions_is_refused():
    net = masked_lm()
    net.base_model.embeddings.position_embeddings = None
    with pytest.raises(CannotDo, match="BertForMaskedLM has no learned positions"):
        BertGen(WORDS, net, WIDTH, torch.Generator())
