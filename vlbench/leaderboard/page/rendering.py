"""The page as HTML: one file with its style and script inside, which loads nothing."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from vlbench.leaderboard.page.bars import rules
from vlbench.leaderboard.page.values import Page

# No table shows more columns at first.
MOST_VISIBLE = 16

HERE = Path(__file__).parent


def render(page: Page) -> bytes:
    """Return the page as UTF-8. Texts of boards are escaped; the same page gives the same bytes.

    The policy in it allows the style and the script that are in the file, by their digests, and
    nothing else: what a board may have smuggled in does not run, and no request is made.
    """
    style = (HERE / "page.css").read_text("utf-8") + rules() + _columns()
    script = (HERE / "page.js").read_text("utf-8")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["broken"] = _broken
    template = environment.get_template("index.html")
    # Both are our own files, and end no element.
    inside = {"style": Markup(style), "script": Markup(script)}  # noqa: S704
    return template.render(page=page, policy=policy, **inside).encode()


def _broken(name: str) -> Markup:
    """Return a name as HTML that may be broken behind each underscore."""
    return escape(name).replace("_", Markup("_<wbr>"))


def _columns() -> str:
    """Return the CSS that hides the columns beyond the first N of a table, where a script runs."""
    return "".join(
        f".js .m{n}>*>*>:nth-child(n+{n + 1}){{display:none}}" for n in range(2, MOST_VISIBLE + 1)
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
