"""A chat template of anybody's is rendered, or refused by name within limits of time and memory."""

from types import SimpleNamespace

import pytest
from mutants import mutant
from tiny_vlm import BLANK, CHAT
from trials import failures, loaded, rng_of

from vlbench.adapter_kit.vlm.prompts import ChatTemplate

pytestmark = pytest.mark.timeout(0)

# What takes long, takes much, or reaches out of the template, among the right statements.
HOSTILE = (
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% set n = namespace(t='a') %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}",
    "{{ 'a' * 10 ** 10 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "{{ raise_exception('no') }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include 'a' %}",
    "{{ ''.join(messages) }}",
)


def changed(template, rng):
    """Return a template of which a part is another, now and then a hostile one."""
    if rng.random() < 0.1:
        start = rng.choice([0, len(template), template.index("{%", 1)])
        return template[:start] + rng.choice(HOSTILE) + template[start:]
    return mutant(template.encode(), [BLANK.encode()], rng).decode("utf-8", "replace")


def test_a_broken_chat_template_is_rendered_or_refused(tmp_path, mutants):
    tokenizer = SimpleNamespace(special_tokens_map={"eos_token": "<eos>"}, bos_token=None)

    def trial(number):
        template = changed(CHAT, rng_of("template", number))
        processor = SimpleNamespace(chat_template=template, tokenizer=tokenizer)
        return loaded(lambda: ChatTemplate(processor, "this model")("a cat"), ["this model"])

    assert failures(mutants, trial, tmp_path / "report") == []
