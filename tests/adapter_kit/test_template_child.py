import pytest
from tiny_vlm import BLANK, CHAT, cropping_processor

from vlbench.adapter_kit.vlm.template_child import answer, render_chats

PICTURE = {"type": "image"}
CHAT_OF_TWO = [
    {"role": "user", "content": [PICTURE, {"type": "text", "text": 'Is "1 < 2" & é there?'}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]},
]
DIALECT = """
{%- set found = namespace(text='') %}
    {% for m in messages %}
{%- if loop.index > 1 %}{% continue %}{% endif %}
{% set found.text = m.content[1].text %}
    {% endfor %}
{{ found.text | tojson }}{{ messages[0].content | tojson(indent=2) }}{{ bos_token }}
{% generation %}{% set found.text = 'b' %}{{ found.text }}{% endgeneration %}{{ dict(a=1) }}
"""


def request(template, *chats, **variables):
    return {"template": template, "variables": variables, "chats": [*chats]}


@pytest.mark.parametrize("template", [CHAT, BLANK, DIALECT], ids=["chat", "blank", "dialect"])
@pytest.mark.filterwarnings("ignore:.*generation:UserWarning")
def test_a_chat_is_that_of_the_library(template):
    processor = cropping_processor(template)
    chat = {"messages": CHAT_OF_TWO, "add_generation_prompt": True}
    theirs = processor.apply_chat_template(CHAT_OF_TWO, add_generation_prompt=True, tokenize=False)
    words = processor.tokenizer.special_tokens_map
    assert render_chats(request(template.replace("IMAGE", "<image>"), chat, **words)) == [theirs]


NOT_RENDERED = [
    ("{{ raise_exception('no system role') }}", "cannot be rendered: TemplateError: no system"),
    ("{{ ().__class__.__bases__ }}", "cannot be rendered: SecurityError: access to attribute"),
    ("{% for", "cannot be rendered: TemplateSyntaxError: "),
    ("{{ 'a' * 1000001 }}", "writes more than 1,000,000 characters"),
    ("{{ range(10**9) }}", "cannot be rendered: OverflowError: "),
]


@pytest.mark.parametrize(("template", "why"), NOT_RENDERED)
def test_a_template_that_cannot_be_rendered_is_told(template, why):
    assert answer(request(template, {}))["error"].startswith(why)


def test_the_time_of_a_template_is_that_of_this_machine():
    (text,) = render_chats(request("{{ strftime_now('%Y') }}", {}))
    assert int(text) >= 2024
