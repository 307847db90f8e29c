"""`vlbench attention`: draw where each head of a model looks in a picture of your own."""

from __future__ import annotations

import argparse
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlbench.commands import Answer
from vlbench.commands.parser import add_dtype, add_file, add_model, options_of
from vlbench.errors import CannotDo, DataError, UnknownNameError
from vlbench.system.files import write_whole

if TYPE_CHECKING:  # these import torch
    from vlbench.capabilities import JointAttention, Picture


def add_options(attention: argparse.ArgumentParser) -> None:
    """Add the options for the model, the picture, the text and the file."""
    attention.add_argument("model", metavar="MODEL")
    attention.add_argument("image", type=Path, metavar="IMAGE")
    attention.add_argument("text", metavar="TEXT")
    add_file(attention, ".png")
    attention.add_argument(
        "--word", metavar="WORD", help="a word of the text that heads look from (default: all)"
    )
    attention.add_argument(
        "--regions",
        type=Path,
        metavar="FILE",
        help="region features of the image, for a model that reads regions",
    )
    attention.add_argument(
        "--without",
        type=_heads,
        metavar="LAYER-HEAD,...",
        help="heads to remove from the model, numbered from 0 as in the figure",
    )
    add_model(attention)
    add_dtype(attention)


def _heads(text: str) -> tuple[tuple[int, int], ...]:
    pairs = [re.fullmatch(r"(\d+)-(\d+)", word) for word in text.split(",")]
    if not all(pairs):
        raise argparse.ArgumentTypeError(
            f"must be LAYER-HEAD,... such as 2-0,3-1, not '{text:.40}'"
        )
    return tuple((int(pair[1]), int(pair[2])) for pair in pairs if pair)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the figure, and return its layers and heads."""
    from vlbench.api import loaded
    from vlbench.capabilities import Cut, Intervenable, JointAttender, has
    from vlbench.probes.grounding.measures import require_attention

    picture = _picture(arguments.image, arguments.regions)
    with loaded(arguments.model, options_of(arguments)) as (model, live, _):
        if not has(model.adapter, JointAttender, model.spec.without):
            raise CannotDo(f"{model.name} is not a JointAttender: it has no attend")
        if model.spec.regions and picture.regions is None:
            kind = model.spec.regions["kind"]
            raise UnknownNameError(f"{model.name} reads regions of kind {kind}; give --regions")
        adapter, name = live.get(model).adapter, model.name
        if arguments.without:
            if not has(model.adapter, Intervenable, model.spec.without):
                raise CannotDo(f"{name} is not Intervenable: it has no cut")
            adapter = adapter.cut(Cut(heads=arguments.without))
            name += f" without {', '.join('-'.join(map(str, head)) for head in arguments.without)}"
        (maps,) = adapter.attend([picture], [arguments.text])
    require_attention(maps, arguments.text)
    span = _span(arguments.text, arguments.word)
    write_whole(arguments.file, _draw(picture, maps, span, f"{name}: {_mark(arguments, span)}"))
    layers, heads = maps.weights.shape[:2]
    return Answer([f"{layers} layers x {heads} heads in {arguments.file}"])


def _picture(image: Path, regions: Path | None) -> Picture:
    from vlbench.capabilities import Picture
    from vlbench.data.images import read_image
    from vlbench.data.regions import image_name, region_features

    if not image.is_file():
        raise UnknownNameError(f"there is no image {image}")
    pixels = read_image(image.absolute().parent, image.name)
    if regions is None:
        return Picture(pixels, None)
    features, key = region_features(regions), image_name(image.name)
    if key not in features:
        raise DataError(f"{features.name} has no regions of {key}")
    return Picture(pixels, features.of(key, pixels.size))


def _span(text: str, word: str | None) -> tuple[int, int]:
    """Return the characters that heads look from. Raises UnknownNameError for an absent word."""
    if word is None:
        return 0, len(text)
    match = re.search(rf"\b{re.escape(word)}\b", text) if word else None
    if match is None:
        raise UnknownNameError(f"the text {text!r:.80} has no word {word!r:.40}")
    return match.span()


def _mark(arguments: argparse.Namespace, span: tuple[int, int]) -> str:
    text: str = arguments.text
    start, stop = span
    return f"{text[:start]}[{text[start:stop]}]{text[stop:]}" if arguments.word else text


def _draw(picture: Picture, attention: JointAttention, span: tuple[int, int], title: str) -> bytes:
    """Return a PNG of the attention from the tokens inside a span, averaged over the tokens."""
    from vlbench.drawing.attention_maps import attention_by_pixel, attention_figure
    from vlbench.drawing.fonts import add_fonts, without_glyph_warnings

    tokens = [i for i, (a, b) in enumerate(attention.spans) if a < span[1] and b > span[0]]
    if not tokens:
        raise DataError(f"the model has no token for characters {span[0]} to {span[1]} of the text")
    weights = attention.weights[:, :, tokens].double().mean(2).cpu().numpy()
    assert picture.image
    maps = attention_by_pixel(weights, attention.boxes.cpu().numpy(), picture.image.size)
    shares: Any = weights.sum(-1)
    scale = (
        "fraction of attention to the image" if attention.whole else "softmax over the image only"
    )
    content = BytesIO()
    with without_glyph_warnings():
        figure = attention_figure(picture.image, maps, shares, f"{title} ({scale})")
        add_fonts(figure)
        figure.savefig(content, format="png", dpi=150)
    return content.getvalue()
