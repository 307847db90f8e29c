"""The viewer: one HTML file with the answers of models to each example of a task, and its image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vlbench.boards.items import Card, Item
from vlbench.drawing.html import render_html

HERE = Path(__file__).parent

# The longer side of an image in pixels.
SIDE = 160


def render_viewer(
    title: str,
    models: Sequence[str],
    examples: Sequence[Sequence[Item]],
    cards: Sequence[Card],
    images: Mapping[str, str],
    *,
    lower: bool,
) -> bytes:
    """Return the viewer as UTF-8. `examples` have an item of each of the `models`, and a card.

    `images` are data addresses by digest. A credit of 0 is right if `lower` is better.
    """
    places = {digest: i for i, digest in enumerate(images)}
    entries = [
        {
            "id": first.id,
            "text": card.text,
            "target": first.target,
            "images": [{"place": places[digest], "text": text} for digest, text in card.images],
            "answers": [
                {key: getattr(item, key) for key in ("prediction", "said", "trials", "credit")}
                | {"replies": [reply._asdict() for reply in item.replies]}
                for item in items
            ],
        }
        for items, card in zip(examples, cards, strict=True)
        for first in items[:1]
    ]
    return render_html(
        HERE / "templates" / "viewer.html",
        "".join((HERE / name).read_text("utf-8") for name in ("page.css", "viewer.css")),
        (HERE / "viewer.js").read_text("utf-8"),
        title=title,
        images=[*images.values()],
        data={"models": models, "lower": lower, "examples": entries},
    )
