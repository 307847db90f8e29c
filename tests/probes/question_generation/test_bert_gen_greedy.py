import pytest
import torch
from question_fakes import KINDS, WIDTH, bert_gen

from vlbench.probes.question_generation.bert_gen import Example, Source, greedy

END, LONGEST = 3, 9


def sources(n=12):
    rng = torch.Generator().manual_seed(2)
    pictures = [torch.randn(1 + i % 5, WIDTH + 4, generator=rng) for i in range(n)]
    captions = [[5 + (i + j) % 20 for j in range(1 + i % 3)] for i in range(n)]
    return [
        Source(p if i % 3 != 0 else None, c if i % 3 != 1 else None)
        for i, (p, c) in enumerate(zip(pictures, captions, strict=True))
    ]


def with_early_ends(kind):
    """Return a network to which the end is so likely that questions differ in length."""
    net = bert_gen(kind)
    (bias,) = [w for n, w in net.module.named_parameters() if n.endswith("bias") and len(w) == 30]
    with torch.no_grad():
        bias[END] += {"bert": 2, "roberta": 4, "distilbert": 0}[kind]
    return net


@pytest.mark.parametrize("kind", KINDS)
def test_the_token_said_is_the_most_probable_in_the_pass_that_trains(kind):
    net = with_early_ends(kind)
    given = sources()
    for source, said in zip(given, greedy(net, given, LONGEST), strict=True):
        whole = [*said, END][:LONGEST]
        with torch.no_grad():
            logits, _ = net._predictions([Example(source, whole)])
        assert logits.argmax(-1).tolist() == whole


@pytest.mark.parametrize("kind", KINDS)
def test_kept_keys_give_the_questions_of_whole_passes(kind):
    net, given = with_early_ends(kind), sources()
    kept = greedy(net, given, LONGEST)
    assert kept == greedy(net, given, LONGEST, keep_keys=False)
    assert len({len(question) for question in kept}) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_asks_what_each_of_it_asks_alone(kind):
    net, given = with_early_ends(kind), sources()
    assert greedy(net, given, LONGEST) == [greedy(net, [one], LONGEST)[0] for one in given]


@pytest.mark.parametrize(("kind", "later"), [("bert", 2), ("roberta", 2), ("distilbert", None)])
def test_only_a_module_without_a_cache_reads_everything_again(kind, later):
    net, read = bert_gen(kind), []
    net.module.base_model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["inputs_embeds"].shape[1]), with_kwargs=True
    )
    greedy(net, [Source(None, [5, 6])], 4)
    assert read == ([4, later, later, later] if later else [4, 5, 6, 7])


def test_decoding_stops_when_every_question_has_ended():
    net, read = bert_gen(), []
    with torch.no_grad():
        net.module.cls.predictions.bias[END] += 1000
    net.module.base_model.register_forward_hook(lambda *_: read.append(1))
    assert greedy(net, sources(), LONGEST) == [[]] * 12
    assert len(read) == 1
