"""Folders of trained captioners: vlbench's own, and those of ImageCaptioning.pytorch.

Both have weights of the same names, and the vocabulary in `cocotalk.json` under `ix_to_word`: the
pickle that ImageCaptioning.pytorch writes beside its weights is never read. vlbench's own folder
has `captioner.json` besides, which says what the features are and which vocabulary is right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from torch import Tensor

from vlbench.adapter_kit.weights import load_weights, read_state_dict
from vlbench.data.texts import read_text
from vlbench.digests import digest
from vlbench.errors import DataError, WeightsError
from vlbench.nets.captioner import FcCaptioner, Sizes
from vlbench.nets.captioner_weights import empty_captioner
from vlbench.nets.captioner_words import Vocabulary

# Weights, the best first.
WEIGHTS = ("model.safetensors", "model-best.pth", "model.pth")
WORDS = "cocotalk.json"
ABOUT = "captioner.json"

# More words than any language needs: a file may say anything.
MOST_WORDS = 1_000_000


class StoredCaptioner(NamedTuple):
    """A trained network with its vocabulary; `about` says what its features are, if it is known."""

    network: FcCaptioner
    vocabulary: Vocabulary
    about: dict[str, Any]


def read_captioner(folder: Path) -> StoredCaptioner:
    """Return the captioner in a folder, float32 on the CPU.

    Raises WeightsError where weights or vocabulary are absent or unreadable, or where the
    vocabulary is that of another captioner.
    """
    found = [folder / name for name in WEIGHTS if (folder / name).is_file()]
    if not found:
        raise WeightsError(f"no captioner in {folder}; it has one of {', '.join(WEIGHTS)}")
    vocabulary, about = read_vocabulary(folder / WORDS), _read_about(folder / ABOUT)
    state = read_state_dict(found[0])
    sizes = _sizes(state, found[0])
    if sizes.words != len(vocabulary):
        raise WeightsError(
            f"{folder / WORDS} has {len(vocabulary)} words, {found[0].name} {sizes.words}: it is "
            "the vocabulary of another captioner"
        )
    if about and about.get("vocabulary") != digest(vocabulary.words):
        raise WeightsError(
            f"{folder / WORDS} is not the vocabulary that {folder / ABOUT} names: it is that of "
            "another captioner"
        )
    network = empty_captioner(sizes)
    load_weights(network, {name: value.float() for name, value in state.items()}, found[0])
    return StoredCaptioner(network, vocabulary, about)


def write_captioner(folder: Path, stored: StoredCaptioner, *, half: bool = False) -> None:
    """Write a captioner as vlbench's own folder; `half` halves the precision of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    state = stored.network.state_dict()
    weights = {k: (v.half() if half else v).contiguous().cpu() for k, v in state.items()}
    save_file(weights, folder / WEIGHTS[0], {"format": "pt"})
    words = {str(i): word for word, i in stored.vocabulary.numbers.items()}
    _write(folder / WORDS, {"ix_to_word": words})
    _write(folder / ABOUT, {**stored.about, "vocabulary": digest(stored.vocabulary.words)})


def read_vocabulary(file: Path) -> Vocabulary:
    """Return the words under `ix_to_word` in a cocotalk.json, numbered from 1 without a gap.

    Raises WeightsError.
    """
    if not file.is_file():
        raise WeightsError(
            f"no vocabulary at {file}: put the cocotalk.json that the captioner was trained with "
            "beside its weights (the words in infos_*.pkl are not read)"
        )
    words = _read_json(file).get("ix_to_word")
    if not isinstance(words, dict) or not 0 < len(words) <= MOST_WORDS:
        raise WeightsError(f"{file} has no words under 'ix_to_word'")
    listed = [words.get(str(i + 1)) for i in range(len(words))]
    gaps = [i + 1 for i, word in enumerate(listed) if not _is_word(word)]
    if gaps:
        raise WeightsError(f"{file}: number {gaps[0]} of 'ix_to_word' is no word")
    if len(set(listed)) < len(listed):
        raise WeightsError(f"{file}: 'ix_to_word' has a word twice")
    return Vocabulary(tuple(str(word) for word in listed))


def _is_word(word: object) -> bool:
    return isinstance(word, str) and [word] == word.split()


def _sizes(state: dict[str, Any], file: Path) -> Sizes:
    """Return the widths that the shapes of the weights tell. Raises WeightsError."""
    shapes = [
        list(value.shape) if isinstance(value := state.get(name), Tensor) else []
        for name in ("fc_embed.weight", "embed.weight", "logit.weight")
    ]
    if any(len(shape) != 2 or 0 in shape for shape in shapes):
        raise WeightsError(
            f"{file} has no fc_embed.weight, embed.weight and logit.weight: it is no FC captioner "
            "(caption_model: newfc) of ImageCaptioning.pytorch"
        )
    (embedding, features), (words, _), (_, hidden) = shapes
    return Sizes(features, words - 1, embedding, hidden)


def _read_about(file: Path) -> dict[str, Any]:
    return _read_json(file) if file.is_file() else {}


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError, DataError) as error:
        raise WeightsError(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise WeightsError(f"{file} holds no object of JSON")
    return content


def _write(file: Path, content: dict[str, Any]) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
