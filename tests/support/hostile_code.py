"""Folders of a model whose files name Python code of their own, which nothing may run."""

import json

CODE = """\
from pathlib import Path
Path({marker!r}).touch()
from transformers import PreTrainedConfig, PreTrainedTokenizerFast


class Evil(PreTrainedConfig, PreTrainedTokenizerFast):
    model_type = "evil"
"""
KINDS = [
    *("AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoModelForImageTextToText"),
    *("AutoProcessor", "AutoImageProcessor"),
]
FILES = ("config", "tokenizer_config", "processor_config", "preprocessor_config")


def write_code(folder, kind="evil"):
    """Let each file of a folder name code in it; return the file that the code would write."""
    marker = folder / "marker"
    (folder / "evil.py").write_text(CODE.format(marker=str(marker)))
    auto = dict.fromkeys(KINDS, "evil.Evil") | {"AutoTokenizer": [None, "evil.Evil"]}
    for name in FILES:
        content = {"model_type": kind, "auto_map": auto}
        (folder / f"{name}.json").write_text(json.dumps(content))
    return marker
