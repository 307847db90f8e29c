"""Questions as they are compared: in lower case, punctuation apart, single spaces between."""

from __future__ import annotations

import re


def compared(question: str) -> str:
    """Return a question as the data of qgevalcap have it: in lower case, punctuation apart.

    A tokenizer's decoder may join what people write apart, and the reverse.
    """
    return " ".join(re.findall(r"\w+|[^\w\s]", question.lower()))
