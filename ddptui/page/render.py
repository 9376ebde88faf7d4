"""Fills in the templates. Whatever comes from a run or a preset is spelled out, then escaped, and never trusted."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from ddptui.text.door import at_the_door

TEMPLATES = Path(__file__).parent / "templates"
# What a preset's text may use: neither HTML nor images, which would be fetched, nor links, which lead elsewhere.
MARKDOWN = ["backticks", "emphasis", "list", "escape", "newline"]


def rendered(template: str, **parts: object) -> str:
    """The page in printable ASCII, so that every encoding leaves it as it is."""
    return _environment().get_template(template).render(parts).encode("ascii", "xmlcharrefreplace").decode()


def prose(text: str) -> Markup:
    """A preset's Markdown as HTML."""
    return Markup(_markdown().render(at_the_door(text, is_terminal=False)))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = (Markup((TEMPLATES / name).read_text("utf-8")) for name in ("page.css", "page.js"))
    environment.filters["with_code"] = _with_code
    environment.globals.update(
        style=style, style_hash=_hash(style), script=script, script_hash=_hash(script), prose=prose
    )
    return environment


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("zero", {"html": False}).enable(MARKDOWN)


def _printable(value: object) -> object:
    """What an expression of a template shows: control characters and those that change the direction are spelled."""
    return at_the_door(value, is_terminal=False) if type(value) is str else value


def _with_code(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_printable(text)))))


def _hash(text: str) -> str:
    """As the page's security policy names the one style and the one script that may apply."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
