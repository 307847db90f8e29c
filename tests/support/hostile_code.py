"""Files that name Python code of their own, or pickle a call, which nothing may run."""

import json
from pathlib import Path

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


class Bomb:
    """Pickled as a call that touches a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)
