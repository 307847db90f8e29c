"""Which option a reply names: one set of rules for replies of all models and recordings.

docs/replies.md lists replies with what these rules read in them, which the tests check.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, cast

# Letters of options, and a right answer given as the letter of an option: B, b. or (b).
LETTERS = "ABCDEFGHIJ"
LETTER = re.compile(r"\(?([A-Ja-j])[.):]?\)?")

# Reasons why a reply names no option.
EMPTY = "empty"
UNFINISHED = "thinking without an end"
NO_OPTION = "no option"
SEVERAL = "several options"
RULED_OUT = "only ruled out"
CONTRADICTION = "named and ruled out"
TOO_LONG = "too long"

# A longer reply names no option.
MOST_TEXT = 100_000

# Where thinking begins and ends in the replies of models that think before they answer.
THINKING = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<unused94>", "<unused95>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
)

# Tokens of chat templates, which are no part of a reply.
TOKENS = re.compile(r"<\|[^|<>]{1,40}\|>|</?(?:s|pad|eos|bos|end_of_turn)>|\[/?INST\]")
ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)

# Marks of other scripts and typographic quotes, and what they are read as.
MARKS = str.maketrans("（）【】「」『』［］：．，。；！？“”‘’", "()[]()()[]:.,.;!?\"\"''")

# Marks before and after a label: brackets, quotes, emphasis, LaTeX.
OPEN = r"(?:[(\[{\"'`*_$<]|\\boxed\{|\\text\{|\\textbf\{|\\mathbf\{|\\\()"
CLOSE = r"[)\]}\"'`*_$>]"

# Letters and digits next to which a label is part of a word. Chinese and Japanese have no blanks.
OF_WORD = r"[A-Za-z0-9_À-ɏЀ-ӿ]"
BEFORE, AFTER = r"(?<![A-Za-z0-9À-ɏЀ-ӿ.'&+-])", r"(?![A-Za-z0-9À-ɏЀ-ӿ'&+])"

# Words that announce an answer, and words that name the kind of an option.
# A label after an announcement may follow a mark or a Chinese character directly.
BEFORE_ANY = r"(?<![A-Za-z0-9])"
ANSWER = (
    r"(?:\b(?:answer|antwort|réponse|respuesta|resposta|risposta|antwoord|odpowiedź|cevap|jawaban"
    r"|ответ|đáp án|(?:correct|right|best|final)\s+(?:choice|option))\b|答案|答え|回答|答|正解|정답"
    r"|답)"
)
KIND = (
    r"(?:\b(?:option|choice|letter|alternative|opción|opção|opzione|optie|buchstabe|lettre|letra"
    r"|вариант)\b|选项|選項|选择|選擇|选|選|선택지|보기)"
)
# What an option may be called where the whole reply is its name and label, as in "Image 2".
NAME = r"(?:the\s+)?(?:image|picture|photo|caption|sentence|number|output|point|box|answer)"
IS = (
    r"(?:\s|[:=*_`\"'>-]|\b(?:is|was|would be|should be|must be|will be|ist|est|es|é|è|to the "
    r"question|therefore|thus|most likely|probably|clearly|definitely)\b|是|为|為|は|은|는|应该"
    r"|應該)*"
)
CHOOSE = (
    r"\b(?:choose|chose|pick|select|go with|going with|say|guess|is|be|are|it's|so|thus|hence"
    r"|therefore)\b"
)
BECAUSE = r"\b(?:because|since|as|for|is|was|has|shows|matches|if|but|which|with)\b"

# Between two labels that are named together: "A or B", "A, C and D", "(A) a cat or (B) a dog", and
# labels of a list, one on each line.
FAR = r"[^.;\n]{0,80}\b(?:or|and)\s*(?=[(\[])|[^\n]{0,80}\n\s*(?=[(\[*]|\S[.):])"
AND = r"\s*(?:,\s*(?:or|and)?|[/&+、和或与]|\b(?:or|and|nor|und|oder|et|ou|y|o)\b)\s*"
NEXT = rf"(?:{AND}|{FAR})"

# What rules an option out: before it in a clause, with at most three words between, or after it.
NOT_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot|without|except|exclud\w+|eliminat\w+|nicht|kein\w*|pas"
    r"|rather than|instead of|non)\b|\b\w+n't\b|rul(?:e|es|ed|ing) out|不是|不选|并非|没有|\bне\b)"
    r"(?:[\W_]*\b[^\W\d_]+\b){0,3}[\W_]*$",
    re.IGNORECASE,
)
NOT_AFTER = re.compile(
    rf"{CLOSE}*\s*(?:(?:is|are|was|can|could|does|has|seems|looks)\s*(?:clearly|also|definitely|"
    r"probably|likely)?\s*(?:not\b|n't\b|wrong\b|incorrect\b|false\b|ruled out\b|impossible\b|"
    r"unlikely\b|out\b)|(?:isn|aren|wasn|doesn|can|couldn)'t\b|cannot\b|不对|不是|错|ist falsch"
    r"|est faux)",
    re.IGNORECASE,
)
CLAUSE_END = re.compile(r"[.,:;!?\n]|\b(?:but|so)\b")


# A long run of blanks and marks, of which both ends are kept: patterns that may begin at each of
# its characters would take minutes.
LONG_RUN = re.compile(r"([\W_]{8})[\W_]{16,}([\W_]{8})")

# How far before a word is searched for what belongs to it, in characters.
NEAR = 80

NEXT_WORD = re.compile(r"\s+(?P<word>[^\W_]+)")

# Words that begin a clause after yes or no; another word belongs to it, as in "no idea".
SUBJECT = r"(?:there|it|this|that|they|he|she|we|you|i|the|not|none|or|and)\b"


class Reading(NamedTuple):
    """The place of the option that a reply names; None if it names no single option, and why."""

    place: int | None
    why: str = ""


class _Mention(NamedTuple):
    """A label: its place, and where the labels that it is named together with begin and end."""

    place: int
    start: int
    end: int


def read_reply(reply: str, labels: Sequence[str], *, in_words: bool = False) -> Reading:
    """Return which option a reply names by its label, or, `in_words`, by its text.

    Thinking before the answer is left out. An option that the reply rules out is not named. A reply
    that names several options names none.

    Example:
        >>> read_reply("<think>A? No.</think> **B**. A British flag.", "AB").place
        1
        >>> read_reply("A British flag", "AB")
        Reading(place=None, why='no option')
        >>> read_reply("It is not visible.", ["visible", "hidden"], in_words=True).why
        'only ruled out'
    """
    if len(reply) > MOST_TEXT:
        return Reading(None, TOO_LONG)
    answer = without_thinking(_plain(reply))
    if answer is None:
        return Reading(None, UNFINISHED)
    if tagged := ANSWER_TAG.findall(answer):
        answer = tagged[-1]
    answer = TOKENS.sub(" ", answer).strip()
    if not answer:
        return Reading(None, EMPTY)
    find = _texts if in_words else _labels
    mentions = find(answer, [_plain(label).strip() for label in labels])
    out = {mention.place for mention in mentions if _is_ruled_out(answer, mention)}
    named = {mention.place for mention in mentions if not _is_ruled_out(answer, mention)}
    if len(named) != 1:
        return Reading(None, SEVERAL if named else RULED_OUT if out else NO_OPTION)
    return Reading(None, CONTRADICTION) if named <= out else Reading(named.pop())


def first_label(reply: str, labels: Sequence[str]) -> Reading:
    """Return the label with which a reply begins, even if a word goes on after it.

    If several fit, such as 1 and 10, the longest counts. For letters, this is the rule of
    lmms-eval's BLINK before September 2026 (its issue 1434).

    Example:
        >>> first_label("(B) Point B", "AB").place, first_label("Based on the image, A", "AB").place
        (1, 1)
        >>> first_label("The answer is (B).", "AB").why
        'no option'
    """
    start = reply.strip().lstrip("( \t\n").casefold()
    bare = [label.strip("()").casefold() for label in labels]
    named = [place for place, label in enumerate(bare) if start.startswith(label)]
    if not named:
        return Reading(None, NO_OPTION if start else EMPTY)
    return Reading(max(named, key=lambda place: len(bare[place])))


def last_label(reply: str, labels: Sequence[str]) -> Reading:
    """Return the last label that stands alone in a reply, in brackets or not.

    A letter is compared as printed, so that the article "a" is no label; "A" is.

    Example:
        >>> last_label("(A) is a cat, so the answer is B.", "AB").place
        1
    """
    if len(reply) > MOST_TEXT:
        return Reading(None, TOO_LONG)
    names = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
    matches = re.findall(rf"(?<!{OF_WORD})({names})(?!{OF_WORD})", reply)
    if not matches:
        return Reading(None, NO_OPTION if reply.strip() else EMPTY)
    return Reading([*labels].index(matches[-1]))


def without_thinking(reply: str) -> str | None:
    """Return what follows the thinking in a reply; None if the thinking does not end.

    An end without a beginning also ends thinking: templates put the beginning into the prompt.

    Example:
        >>> without_thinking("Hm.</think>B"), without_thinking("<think>A? B?")
        ('B', None)
    """
    for begin, end in THINKING:
        last = reply.lower().rfind(end)
        rest = reply if last < 0 else reply[last + len(end) :]
        if begin in rest.lower():
            return None
        reply = rest
    return reply


def _plain(text: str) -> str:
    """Return a text in NFC, with the marks of other scripts as those of English.

    Long runs of blanks and marks are shortened.
    """
    return LONG_RUN.sub(r"\1\2", unicodedata.normalize("NFC", text).translate(MARKS))


def _labels(reply: str, labels: Sequence[str]) -> list[_Mention]:
    """Return where labels stand as labels: announced as the answer, else elsewhere."""
    names = sorted(map(re.escape, labels), key=len, reverse=True)
    any_label = f"(?:{'|'.join(names)})"
    if labels and labels[0].startswith("("):
        return _standing(reply, labels, any_label, [rf"(?<!\w)(?P<label>{any_label})(?!\w)"])
    announced = _standing(reply, labels, any_label, _announced(any_label))
    return announced or _standing(reply, labels, any_label, _alone(any_label))


def _standing(
    reply: str, labels: Sequence[str], any_label: str, patterns: Sequence[str]
) -> list[_Mention]:
    """Return the labels that patterns find, and the labels named together with these.

    Labels that are named together have one beginning and end: what rules out one rules out all.
    """
    places = {label.lower(): place for place, label in enumerate(labels)}
    following = re.compile(rf"{CLOSE}*{NEXT}{OPEN}*(?P<label>{any_label}){AFTER}")
    mentions = dict[int, _Mention]()
    for match in chain.from_iterable(re.finditer(p, reply, re.MULTILINE) for p in patterns):
        if match.end("label") in mentions or _is_article(reply, match):
            continue
        together, label = list[re.Match[str]](), cast("re.Match[str] | None", match)
        while label:
            together += [] if _is_article(reply, label) else [label]
            label = following.match(reply, label.end("label"))
        ends = [label.end("label") for label in together]
        for label in together:
            mention = _Mention(places[label["label"].lower()], match.start("label"), ends[-1])
            earlier = mentions.get(label.end("label"), mention)
            wider = min(earlier.start, mention.start), max(earlier.end, mention.end)
            mentions[label.end("label")] = _Mention(mention.place, *wider)
    return [*mentions.values()]


def _announced(any_label: str) -> list[str]:
    """Return the patterns of labels after a word for answer: "Answer: b", "答案是B"."""
    label = rf"{OPEN}*{BEFORE_ANY}(?P<label>(?i:{any_label})){AFTER}"
    return [
        rf"(?i:{ANSWER}){IS}(?i:{KIND})?\s*:?\s*{label}",
        rf":\s*\n\s*{label}{CLOSE}*[^\n]{{0,80}}\Z",  # the last line, after a colon
    ]


def _alone(any_label: str) -> list[str]:
    """Return the patterns of labels that stand as labels in other ways."""
    low, label = rf"(?P<label>(?i:{any_label}))", rf"(?P<label>{any_label})"
    follows = rf"(?:$|\n|[,;]|[-–—]\s|[^\x00-\x7f]|{AND}|{BECAUSE})"
    end = rf"(?=\s*{CLOSE}*\s*(?:[.,;:!?、)]|$|\n|{BECAUSE}))"
    return [
        rf"\A[\W_]*(?:(?i:{NAME})\s+)?{OPEN}*{low}[\W_]*\Z",  # the whole reply
        rf"{BEFORE}{OPEN}+{low}{AFTER}(?=\s*{CLOSE})",  # (b), **b**, "b", \boxed{b}
        rf"(?:^|\n)\s*{OPEN}*{label}{CLOSE}*[.):、]{CLOSE}*(?=\s|$|[^\x00-\x7f])",  # B. text
        rf"(?:^|\n)\s*{OPEN}*{label}{AFTER}(?=\s*{CLOSE}*\s*{follows})",  # B because
        rf"(?i:{KIND})\s*:?\s*{OPEN}*{low}{AFTER}",  # option b
        rf"(?i:{CHOOSE})\s*:?\s*{OPEN}*{label}{AFTER}{end}",  # I choose B because
        rf"[是为為选選はを→⇒=]\s*{OPEN}*{label}{AFTER}",  # 应该是B
        rf"(?<=[^\x00-\x7f]){label}(?=[^\x00-\x7f]|$)",  # between Chinese characters
        rf"(?<=[.!?:]\s){label}(?=[\W_]*\Z)",  # the last sentence
    ]


def _is_article(reply: str, label: re.Match[str]) -> bool:
    """Return whether a letter is a word of prose: "A" or "I", or a small letter, before a word."""
    letter = label["label"]
    follows = NEXT_WORD.match(reply, label.end("label"))
    if not follows or not (letter in ("A", "I") or letter.islower()):
        return False
    return not re.fullmatch(rf"{BECAUSE}|or|and", follows["word"])


def _texts(reply: str, options: Sequence[str]) -> list[_Mention]:
    """Return where options stand as texts; a text inside a longer option does not count."""
    mentions, left = list[_Mention](), reply
    for place in sorted(range(len(options)), key=lambda place: -len(options[place])):
        option = r"\s+".join(map(re.escape, options[place].split()))
        if not option:
            continue
        edges = _edge(options[place][0], "(?<!", "-"), _edge(options[place][-1], "(?!", "")
        pattern = re.compile(rf"{edges[0]}{option}{edges[1]}", re.IGNORECASE)
        mentions += [
            _Mention(place, *match.span())
            for match in pattern.finditer(left)
            if _is_said(options[place], left, match)
        ]
        left = pattern.sub(lambda match: " " * len(match[0]), left)
    return mentions


def _edge(character: str, kind: str, more: str) -> str:
    """Return the pattern of the end of a word; none at a character of a script without blanks."""
    if not (character.isalnum() or character == "_") or ord(character) > 0x2E80:
        return ""
    return rf"{kind}[^\W\u2e80-\U0010ffff]|{more})" if more else rf"{kind}[^\W\u2e80-\U0010ffff])"


def _is_said(option: str, reply: str, match: re.Match[str]) -> bool:
    """Return whether `yes` or `no` stands as an answer; other options always do.

    It begins a sentence or ends it, and no word that it belongs to follows, as in "no idea".
    """
    if option.casefold() not in ("yes", "no"):
        return True
    before = reply[max(0, match.start() - NEAR) : match.start()]
    after = reply[match.end() : match.end() + NEAR]
    begins = re.search(r"(?:^|[.!?:;,\n\"'(*>/\]-])\s*[\"'(*_`]*$", before)
    follows = re.search(rf"(?i:{ANSWER}{IS}|{CHOOSE}[\s\"'*:]*|\b(?:or|and)\s+)$", before)
    return bool((begins or follows) and not re.match(rf"\s+(?!{SUBJECT})\w", after, re.IGNORECASE))


def _is_ruled_out(reply: str, mention: _Mention) -> bool:
    """Return whether a reply says within the same clause that an option is not the answer."""
    before = CLAUSE_END.split(reply[max(0, mention.start - NEAR) : mention.start])[-1]
    return bool(NOT_BEFORE.search(before) or NOT_AFTER.match(reply, mention.end))
