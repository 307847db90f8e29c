"""Texts of boards, which anybody may have written, for a terminal and for figures."""

from __future__ import annotations


def printed(text: str) -> str:
    """Return a text for a terminal: control characters are spelled out, but for line breaks.

    A carriage return before a line feed is part of one: lines of CSV end so.
    """
    lines = text.split("\r\n")
    return "\r\n".join(
        "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in line)
        for line in lines
    )


def one_line(text: str) -> str:
    """Return a text on one line, control characters spelled out."""
    return printed(text).replace("\r\n", " ").replace("\n", " ")


def drawn(text: str) -> str:
    """Return a text for a figure, as it is: a dollar starts no formula."""
    return printed(text).replace("$", r"\$")
