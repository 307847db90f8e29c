"""An independent reading of captions and questions of `scenes`: what they claim, as true or false.

Written from the words alone; anything that it cannot read is false.
"""

import re

COLOURS = {"red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white"}
NUMBERS = {"a": 1, "an": 1, "the": 1, "one": 1, "two": 2, "three": 3, "four": 4}
PLURALS = {"cherries": "cherry", "canoes": "canoe", "benches": "bench", "roses": "rose"}
PLURALS |= {"puppies": "puppy", "daisies": "daisy", "ferries": "ferry", "beanies": "beanie"}
FAMILIES = {
    "animal": {"dog", "bird", "fish"},
    "vehicle": {"car", "boat", "plane"},
    "plant": {"tree", "flower", "fruit"},
    "furnishing": {"cup", "chair", "hat"},
}


class Truth:
    """The annotations of one row's drawing."""

    def __init__(self, rows, i):
        for name in ("nouns", "categories", "colours", "sizes", "textures", "facings", "angles"):
            setattr(self, name, rows[name][i])
        self.background = rows["background"][i]
        self.boxes = rows["boxes"][i].tolist()
        self.middles = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in self.boxes]

    def described(self, words, boxes):
        """Whether a noun phrase is true of the boxes that it names."""
        if not boxes:
            return words == ["a", self.background, "background"]
        fits = [self._is(words[-1], b) and self._all_hold(words[1:-1], b) for b in boxes]
        return NUMBERS[words[0]] == len(boxes) and all(fits)

    def holds(self, words, a, b):
        """Whether the words between two phrases are true of the first boxes of both."""
        said = [w for w in words if w not in {"placed", "drawn", "painted", "seen", "is", "partly"}]
        (ax, ay), (bx, by) = self.middles[a], self.middles[b]
        front = a > b and self._gap(a, b) < 2
        ahead = bx > ax if self.facings[a] == "right" else bx < ax
        claims = {
            "to the left of": ax < bx,
            "to the right of": ax > bx,
            "above over": ay < by,
            "below under": ay > by,
            "near beside": self._gap(a, b) < 20,
            "behind": a < b and self._gap(a, b) < 2,
            "in front of": front,
            "hides hiding covers covering": front,
            "faces facing": ahead,
            "watches watching": ahead and self.categories[a] in FAMILIES["animal"],
            "dwarfs dwarfing": (self.sizes[a], self.sizes[b]) == ("large", "small"),
        }
        text = " ".join(said)
        return any(true for words, true in claims.items() if text in {words, *words.split()})

    def placed(self, place, b):
        """Whether a box lies at a side of the image."""
        (x, y), side = self.middles[b], 64
        sides = {"left": x < 0.4 * side, "right": x > 0.6 * side}
        return (sides | {"top": y < 0.4 * side, "bottom": y > 0.6 * side})[place]

    def _is(self, word, b):
        singular = PLURALS.get(word, word.removesuffix("s"))
        return {word, singular} & {self.nouns[b], self.categories[b], "thing"} != set()

    def _all_hold(self, adjectives, b):
        return all(self.looks(word, b) for word in adjectives)

    def looks(self, word, b):
        """Whether an adjective is true of a box."""
        tilted = word == "tilted" and abs(self.angles[b]) > 10
        stated = {self.colours[b], self.sizes[b], self.textures[b], "toy"} - {"medium", "plain"}
        return tilted or word in stated

    def _gap(self, a, b):
        first, second = self.boxes[a], self.boxes[b]
        across = max(first[0], second[0]) - min(first[2], second[2])
        down = max(first[1], second[1]) - min(first[3], second[3])
        return max(across, down)


def caption_is_true(truth, words, phrases):
    """Whether all that a caption says is true, and all of it can be read."""
    if not all(truth.described(words[p.start : p.stop], p.boxes) for p in phrases):
        return False
    starts = {p.start: p for p in phrases}
    return _opening(words[: phrases[0].start]) and all(
        _rest(truth, words[phrase.stop : _next(starts, phrase, words)], phrase, starts, words)
        for phrase in phrases
    )


def _next(starts, phrase, words):
    return min([start for start in starts if start >= phrase.stop], default=len(words))


def _opening(words):
    """Whether the words before the first phrase are an opening."""
    picture = r"(a|an|the) (picture|drawing|image) (of|shows)"
    return bool(re.fullmatch(rf"(there (is|are)|{picture}|)", " ".join(words)))


def _rest(truth, words, phrase, starts, all_words):
    """Whether the words from a phrase to the next are true of both."""
    text, after = " ".join(words), _next(starts, phrase, all_words)
    if text in {".", ",", "and", "on"}:
        return True
    if match := re.fullmatch(r"is (\w+) \.", text):
        return match[1] in COLOURS and truth.colours[phrase.boxes[0]] == match[1]
    if match := re.fullmatch(r"(?:covered|decorated) with (stripes|spots) \.", text):
        texture = {"stripes": "striped", "spots": "spotted"}[match[1]]
        return truth.textures[phrase.boxes[0]] == texture
    if match := re.fullmatch(r"at the (\w+) of the (?:picture|drawing|image) \.", text):
        return truth.placed(match[1], phrase.boxes[0])
    return after in starts and truth.holds(words, phrase.boxes[0], starts[after].boxes[0])


def answer_is_true(truth, question, answer):
    """Whether an answer is true of the drawing."""
    for pattern, check in QUESTIONS.items():
        if match := re.fullmatch(pattern + r" \?", question):
            return check(truth, answer, *match.groups())
    return False


def _count(truth, answer, word):
    known = [b for b in range(len(truth.boxes)) if word == "things" or truth._is(word, b)]
    return len(known) == NUMBERS[answer]


def _alone(truth, noun):
    assert truth.nouns.count(noun) == 1
    return truth.nouns.index(noun)


def _yes(is_so, answer):
    return ("yes" if is_so else "no") == answer


def _of_family(truth, answer, family):
    kinds = FAMILIES[family]
    return {n for n, c in zip(truth.nouns, truth.categories, strict=True) if c in kinds} == {answer}


def _shows(truth, word, noun):
    return truth.looks(word, _alone(truth, noun))


def _related(truth, answer, noun, words, other):
    a, b = _alone(truth, noun), _alone(truth, other)
    return _yes(truth.holds(words.split(), a, b), answer)


QUESTIONS = {
    r"how many (\w+) are there": _count,
    r"what is in the background": lambda t, a: a == f"a {t.background} background",
    r"what color is the (\w+)": lambda t, a, noun: t.colours[_alone(t, noun)] == a,
    r"is the (\w+) (striped|spotted|small|large)": (
        lambda t, a, noun, word: _yes(t.looks(word, _alone(t, noun)), a)
    ),
    r"what kind of (\w+) (?:is|are) the \w+": (
        lambda t, a, kind: (kind, a) in set(zip(t.categories, t.nouns, strict=True))
    ),
    r"is there a (\w+) (\w+)": lambda t, a, word, noun: _yes(_shows(t, word, noun), a),
    r"where is the (\w+) (\w+)": (
        lambda t, a, word, noun: (
            _shows(t, word, noun) and t.placed(a.removeprefix("at the "), _alone(t, noun))
        )
    ),
    r"what is (to the left of|to the right of|above|below) the (\w+) (\w+)": (
        lambda t, a, words, word, noun: (
            _shows(t, word, noun) and t.holds(words.split(), _alone(t, a), _alone(t, noun))
        )
    ),
    r"is there a (\w+)": lambda t, a, kind: _yes(kind in t.categories, a),
    r"which (\w+) is there": _of_family,
    r"is the (\w+) (to the left of|to the right of|above|below) the (\w+)": _related,
}
