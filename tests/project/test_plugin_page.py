"""docs/plugins.md lists what plug-ins may import; whatever ships as an example keeps to it."""

import ast
import re
from importlib import import_module
from pathlib import Path

from vlbench import capabilities
from vlbench.commands.init import TEMPLATE

ROOT = Path(__file__).resolve().parents[2]
PROMISED, _, OTHERS = (ROOT / "docs" / "plugins.md").read_text("utf-8").partition("## Used by")
NAME = re.compile(r"\bvlbench[\w.]*:\w+")
NAMES = set(NAME.findall(PROMISED))
NOT_PROMISED = tuple(re.findall(r"`(vlbench[\w.:]*)`", OTHERS))


def imported(text):
    """Return what a text of Python imports from vlbench, and takes from `vlbench` itself."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("vlbench."):
            names |= {f"{node.module}:{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            names |= {f"{one.name}:" for one in node.names if one.name.startswith("vlbench.")}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "vlbench":
            names.add(f"vlbench:{node.attr}")
    return names


def is_plug_in(text):
    """Return whether a text is Python that defines something, and is no program and no command."""
    try:
        nodes = ast.parse(text).body
    except (SyntaxError, ValueError):
        return False
    defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes)
    return defines and not any(name in text for name in ("vlbench.bench", "vlbench.commands"))


def plug_ins_of_tests():
    """Return the plug-ins that tests write into folders of their own, as (file, text)."""
    for file in sorted((ROOT / "tests").rglob("*.py")):
        source = file.read_text("utf-8")
        holds_texts = '"""' in source or "'''" in source
        nodes = ast.walk(ast.parse(source)) if holds_texts else ()
        yield from ((file.name, n.value) for n in nodes if is_text(n) and is_plug_in(n.value))


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value


def test_the_names_on_the_page_are_there():
    parts = [name.split(":") for name in sorted(NAMES)]
    assert len(parts) > 50
    assert [part for part in parts if not hasattr(import_module(part[0]), part[1])] == []


def test_every_capability_is_on_the_page():
    own = {f"vlbench.capabilities:{c.__name__}" for c in capabilities.capabilities_in(capabilities)}
    assert own - NAMES == set()


def test_the_other_pages_and_what_init_writes_keep_to_the_page():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "".join(page.read_text("utf-8") for page in pages if page.name != "plugins.md")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    examples = [file.read_text("utf-8") for file in TEMPLATE.rglob("*.py")]
    names = set(NAME.findall(text)).union(*map(imported, blocks + examples))
    assert {"vlbench:evaluate", "vlbench.results:Outcome"} <= names
    assert names - NAMES == set()


def test_shipped_adapters_keep_to_the_page_and_to_what_it_says_they_use_besides():
    texts = [file.read_text("utf-8") for file in (ROOT / "model_adapters").glob("*.py")]
    rest = set().union(*map(imported, texts)) - NAMES
    assert {name for name in rest if not name.startswith(NOT_PROMISED)} == set()
    assert all(any(name.startswith(entry) for name in rest) for entry in NOT_PROMISED)


def test_plug_ins_that_tests_write_keep_to_the_page():
    found = list(plug_ins_of_tests())
    beside = {file: imported(text) - NAMES for file, text in found}
    assert {file: names for file, names in beside.items() if names} == {}
    assert {"test_tutorial.py", "test_datasets.py"} <= {file for file, _ in found}


def test_the_page_stays_one_page():
    assert len((PROMISED + OTHERS).splitlines()) <= 112
