"""Renders the templates. Text from runs and presets is not trusted: it is sanitized, then escaped."""

import base64
import hashlib
import re
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from ddptui.text.drawing import paragraph, shorten
from ddptui.text.sanitize import at_the_door
from ddptui.text.tables import order
from ddptui.text.words import chosen

MOST_LINES = 3  # of a text in a picture
TEMPLATES = Path(__file__).parent / "templates"
CODE = ("page.css", "chart.css", "page.js")
# The Markdown that a preset's text may use: no HTML, no images (they would be fetched), and no links.
MARKDOWN = ["backticks", "emphasis", "list", "escape", "newline"]


def rendered(template: str, **parts: object) -> str:
    """Renders a template to printable ASCII, which is the same in every encoding."""
    page = _environment().get_template(template).render(parts, lang=chosen())
    return page.encode("ascii", "xmlcharrefreplace").decode()


def prose(text: str) -> Markup:
    """Converts a preset's Markdown to HTML."""
    markdown = MarkdownIt("zero", {"html": False}).enable(MARKDOWN)
    return Markup(markdown.render(at_the_door(text, is_terminal=False)))


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
    page, charts, script = (Markup((TEMPLATES / name).read_text("utf-8")) for name in CODE)
    style = page + charts
    environment.filters.update(with_code=_with_code, shortened=shorten)
    environment.filters["lines"] = partial(paragraph, max_lines=MOST_LINES, placeholder=" …")
    environment.globals.update(style=style, style_hash=_hash(style), script=script, script_hash=_hash(script))
    environment.globals.update(prose=prose, order=order)
    # Programs that draw papers know no variables, so a picture has the colors of the light scheme, which come first.
    colors = dict(reversed(re.findall(r"(--[\w]+): ([^;]+);", page)))
    environment.globals["picture_style"] = Markup(re.sub(r"var\((--\w+)\)", lambda name: colors[name[1]], charts))
    return environment


def _printable(value: object) -> object:
    """Makes control characters and direction marks in a template's values visible."""
    return at_the_door(value, is_terminal=False) if type(value) is str else value


def _with_code(text: str) -> Markup:
    """Converts text between backticks in a sentence to code elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(_printable(text)))))


def _hash(text: str) -> str:
    """The hash by which the page's content security policy allows its style and its script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
