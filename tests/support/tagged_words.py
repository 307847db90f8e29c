"""Captions tagged with a handful of words; whatever else they say is a noun."""

TAGS = {
    **dict.fromkeys(["a", "the", "this", "these"], "DET"),
    **dict.fromkeys(["of", "above", "towards", "with", "near", "on"], "ADP"),
    **dict.fromkeys(["posing", "riding", "parked", "shows"], "VERB"),
    **dict.fromkeys(["but", "and"], "CCONJ"),
    **dict.fromkeys(["is", "was"], "AUX"),
    **dict.fromkeys(["white", "brown", "rural"], "ADJ"),
    **dict.fromkeys(["his", "there"], "PRON"),
    "that": "SCONJ",
    ".": "PUNCT",
}


def tagged(text):
    """Return the words of a text with their tags."""
    return [(word, TAGS.get(word, "NOUN")) for word in text.split()]
