"""Functions that the exports share: JSON text, and the values of a CSV line."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from ddptui.text.sanitize import ascii_json
from ddptui.text.tables import value_at

Item = TypeVar("Item")


def json_text(value: object) -> str:
    """A value as indented JSON in ASCII."""
    return ascii_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n"


def values_of(item: Item, paths: Mapping[str, str | Callable[[Item], object]]) -> dict[str, object]:
    """The values of an item by key. paths: for each key the path of its value, or a function that computes it."""
    return {key: value_at(item, how) if isinstance(how, str) else how(item) for key, how in paths.items()}
