import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [*(ROOT / "vlbench/adapter_kit").glob("[a-z]*.py"), *(ROOT / "model_adapters").glob("*.py")]
HEAVY = "torchvision transformers huggingface_hub open_clip timm datasets scipy gensim pyarrow"
PROGRAM = """
import inspect, json, sys
from pathlib import Path
from vlbench.plain import hints
from vlbench.plugins import load_file
classes = []
for file in json.loads(sys.argv[1]):
    module = load_file(Path(file))
    own = [c for _, c in inspect.getmembers(module, inspect.isclass)
           if c.__module__ == module.__name__]
    classes += [c for c in own if "__init__" in vars(c) and "device" in hints(c)]
print(json.dumps([len(classes), sorted(sys.modules)]))
"""


def test_no_library_is_imported_before_a_model_is_made():
    files = json.dumps([str(file) for file in FILES])
    command = [sys.executable, "-c", PROGRAM, files]
    run = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    classes, modules = json.loads(run.stdout)
    assert classes > len(list((ROOT / "model_adapters").glob("*.py")))
    assert {"torch", "vlbench.adapter_kit.hugging_face"} <= set(modules)
    assert set(HEAVY.split()) & set(modules) == set()
