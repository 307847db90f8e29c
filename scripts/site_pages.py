"""A Sphinx extension: writes docs/generated/ before a build, and two schemas into the site.

Links to files of the repository are changed to links to pages of the site.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import catalogue
import gallery
import reference
from schemas import board_schema, task_schema
from sphinx.application import Sphinx

from vlbench.catalog.catalog import load_catalog
from vlbench.system.files import write_whole

DOCS = Path(__file__).resolve().parents[1] / "docs"
GALLERY = "generated/gallery"
LINK = re.compile(r"\[([^\]]+)\]\(([\w./-]+)(#[\w-]+)?\)")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension with the build."""
    app.connect("builder-inited", write_pages)
    app.connect("builder-inited", lambda app: gallery.draw_boards(Path(app.srcdir, GALLERY)))
    app.connect("source-read", lambda _, page, content: follow(DOCS / page, content))
    app.connect("include-read", lambda _, file, __, content: follow(DOCS / file, content))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write the pages that changed and remove old ones; write the schemas into the site."""
    catalog = load_catalog()
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    pages = {**catalogue.pages(catalog), **reference.pages()}
    for name, text in pages.items():
        _write(folder / f"{name}.md", f"{text.rstrip()}\n")
    for file in folder.glob("*.md"):
        if file.stem not in pages:
            file.unlink()
    for name, schema in (("task", task_schema(catalog)), ("board", board_schema())):
        _write(Path(app.outdir) / f"{name}.schema.json", json.dumps(schema, indent=1))


def _write(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text("utf-8") != text:
        write_whole(file, text.encode())


def follow(file: Path, content: list[str]) -> None:
    """Change links in a page of docs/, or a file that it includes, to pages of the site."""
    if file.parent == DOCS or ".." in file.parts:
        content[0] = LINK.sub(lambda link: _on_site(file.parent, link), content[0])


def _on_site(folder: Path, link: re.Match[str]) -> str:
    """Return a link to a page as from docs/, to another file unchanged, and to a folder as text."""
    text, name, place = link.groups("")
    target = (folder / name).resolve()
    if target.is_dir():
        return text
    if not target.is_file():  # a page made by the build
        return link[0]
    page = DOCS / f"{target.stem.lower()}.md"
    target = page if target.parent == DOCS.parent and page.is_file() else target
    return f"[{text}]({os.path.relpath(target, DOCS)}{place})"
