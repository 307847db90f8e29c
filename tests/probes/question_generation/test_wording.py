import pytest
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from vlbench.probes.question_generation.wording import compared

QUESTIONS = [
    "What's  the Dog's name?",
    "  is it 5:30 p.m. -- or 17:30?! ",
    "\tWhy?\nBecause...",
    '"Où" est-ce que c\'est, (ici)?',
    "a $5 hot-dog & 100% beef ?",
]


def test_questions_are_compared_in_lower_case_with_punctuation_apart():
    assert compared("What's  the Dog's name?") == "what ' s the dog ' s name ?"
    assert compared("what ' s the dog ' s name ?") == compared("What's the dog's name?")


@pytest.mark.parametrize("question", QUESTIONS)
def test_words_are_those_of_bert(question):
    text = BertNormalizer(lowercase=True, strip_accents=False).normalize_str(question)
    words = [word for word, _ in BertPreTokenizer().pre_tokenize_str(text)]
    assert compared(question).split(" ") == words


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_compared_stays_as_it_is(question):
    assert compared(compared(question)) == compared(question)


@pytest.mark.parametrize("question", ["", "  \n"])
def test_a_question_of_nothing_is_empty(question):
    assert compared(question) == ""
