"""The WordPiece vocabulary of the captions, which the models of texts share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerFast

from vlbench.data.scenes.world import CATEGORIES, NOUNS, plural

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
PAD, UNKNOWN, START, END, MASK = range(len(SPECIAL))

LETTERS = "abcdefghijklmnopqrstuvwxyz"

# A word that stands less often is spelled out, so that single letters are learnt a little too.
OFTEN = 2

# Tokens of the longest text, special ones included.
LENGTH = 32

# A thing has one token also for a model that is never shown it: the token is then not learnt.
NAMES = tuple({name for one in NOUNS + CATEGORIES for name in (one, plural(one))})


def learn(captions: Iterable[str], folder: Path, *, length: int = LENGTH) -> Any:
    """Return a tokenizer of whole words, where they are not rare, of NAMES, and of letters.

    Its files are written. The vocabulary is counted here, since the library's own trainer orders it
    anew at each run.
    """
    counts = Counter(word for caption in captions for word in caption.split())
    whole = {word for word, count in counts.items() if count >= OFTEN} | {*LETTERS, *NAMES}
    vocabulary = [*SPECIAL, *(f"##{letter}" for letter in LETTERS), *sorted(whole)]
    ids = {token: i for i, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(WordPiece(ids, unk_token=SPECIAL[UNKNOWN]))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", START), ("[SEP]", END)],
    )
    names = dict(zip(ROLES, SPECIAL, strict=True))
    learnt = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=length, **names)
    # Before its first use, which would leave a padding in the file.
    learnt.save_pretrained(folder)
    return learnt
