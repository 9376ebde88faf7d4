"""A moving picture as one SVG file, made of the pictures that Textual exports. It has no script: CSS shows its rows.

A row that several frames have in common stands in the file once. Where nothing may move (prefers-reduced-motion), or in
a viewer that knows no animation, the last frame shows.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

XMLNS = "http://www.w3.org/2000/svg"
LINE, BASE, TOP = 24.4, 20.0, 1.5  # of Rich's pictures: the height of a row, where its text stands, where it begins
HEIGHT = f"{LINE + 0.25:g}"  # of a background: no gap shows between two rows
SHOWS = {True: "visible", False: "hidden"}
FONTS = "'Fira Code',ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
STYLE = f"""
.row{{font:{BASE:g}px {FONTS};shape-rendering:crispEdges;clip-path:url(#row)}}
.title{{font:bold 18px arial,sans-serif}}
"""


class Frame(NamedTuple):
    """A picture, as Textual exports it, and for how many seconds it shows."""

    picture: str
    s: float


class Piece(NamedTuple):
    """A text of a row, or a background; its place is within the row."""

    x: float
    width: float
    look: str  # the name of a text's style, or a background's color
    text: str  # empty: a background


Row = tuple[int, tuple[Piece, ...]]  # its number, from the top
When = tuple[bool, ...]  # in which frames a row shows


def moving(frames: Sequence[Frame]) -> str:
    """The frames one after another, over and over. They are of the same size; a single one stands still."""
    pictures = [ElementTree.fromstring(frame.picture.replace(f' xmlns="{XMLNS}"', "")) for frame in frames]
    styles: dict[str, str] = {}  # their names, by their rules
    rows = [{*_rows(picture, styles)} for picture in pictures]
    shown = {row: tuple(row in frame for frame in rows) for row in sorted(set[Row]().union(*rows))}
    times = {when: f"t{number}" for number, when in enumerate(dict.fromkeys(shown.values())) if not all(when)}
    css = STYLE + "".join(f".{name}{{{rules}}}\n" for rules, name in styles.items())
    file = _window(pictures[0], css + _timetable(times, [frame.s for frame in frames]))
    for (number, pieces), when in shown.items():
        moves = f" moves {times[when]}{' last' * when[-1]}" if when in times else ""
        place = f"translate(0,{number * LINE + BASE:g})"
        SubElement(file[-1], "g", {"class": f"row{moves}", "transform": place}).extend(map(_drawn, pieces))
    ElementTree.indent(file, "")
    return ElementTree.tostring(file, encoding="unicode") + "\n"


def _rows(picture: Element, styles: dict[str, str]) -> Iterator[Row]:
    """The rows of a picture. Adds what is new among its styles to `styles`."""
    rules = _rules(picture.findtext("style", ""))
    pieces: dict[int, list[Piece]] = {}
    for rect in picture.iterfind("g[@clip-path]/rect"):
        row = pieces.setdefault(round((float(rect.attrib["y"]) - TOP) / LINE), [])
        x, width, color = float(rect.attrib["x"]), float(rect.attrib["width"]), rect.attrib["fill"]
        if row and row[-1].look == color:  # each text has a background of its own
            row[-1] = row[-1]._replace(width=x + width - row[-1].x)
        else:
            row.append(Piece(x, width, color, ""))
    for text in picture.iterfind("g[@clip-path]/g/text"):
        if words := (text.text or "").strip("\n"):  # the end of a line counts as a text, too
            style = styles.setdefault(rules[text.attrib["class"]], f"s{len(styles)}")
            row = pieces.setdefault(round((float(text.attrib["y"]) - BASE) / LINE), [])
            row.append(Piece(float(text.attrib["x"]), float(text.attrib["textLength"]), style, words))
    return ((number, tuple(row)) for number, row in pieces.items())


def _rules(css: str) -> dict[str, str]:
    """The rules of the styles of a picture's texts, by name."""
    return dict(re.findall(r"\.(\S+) { (.+?);? }", css))


def _drawn(piece: Piece) -> Element:
    x, width = f"{piece.x:g}", f"{piece.width:g}"
    if not piece.text:
        return Element("rect", {"x": x, "y": f"{TOP - BASE:g}", "width": width, "height": HEIGHT, "fill": piece.look})
    text = Element("text", {"x": x, "textLength": width, "class": piece.look})
    text.text = piece.text
    return text


def _timetable(times: Mapping[When, str], s: Sequence[float]) -> str:
    """The CSS that shows each row when it is its turn, or those of the last frame where nothing may move."""
    begins = [f"{begin / sum(s):.3%}" for begin in accumulate(s[:-1], initial=0.0)]
    lines = [
        f".moves{{visibility:hidden;animation:{sum(s):g}s step-end infinite}}",
        ".last{visibility:visible}",
        "@media (prefers-reduced-motion:no-preference){",
    ]
    for when, name in times.items():
        changes = [number for number, shows in enumerate(when) if number == 0 or shows != when[number - 1]]
        keys = "".join(f"{begins[number]}{{visibility:{SHOWS[when[number]]}}}" for number in changes)
        lines += [f".{name}{{animation-name:{name}}}", f"@keyframes {name}{{{keys}}}"]
    return "\n".join([*lines, "}", ""]) if times else ""


def _window(picture: Element, css: str) -> Element:
    """The file without rows: a picture's window. Its last element is the place for them."""
    file = Element("svg", {"xmlns": XMLNS, "viewBox": picture.get("viewBox", "")})
    SubElement(file, "style").text = css
    clip = SubElement(file, "clipPath", {"id": "row"})
    SubElement(clip, "rect", {"y": f"{TOP - BASE:g}", "width": "100%", "height": HEIGHT})
    file.extend(picture[2:-1])  # what is neither styles nor clips before it, nor rows after it
    for title in file.iterfind("text"):
        title.set("class", "title")
    SubElement(file, "g", {"transform": picture[-1].get("transform", "")})
    return file
