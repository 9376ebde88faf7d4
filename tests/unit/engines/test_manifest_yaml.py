"""YAML that reads back as what it was made of, whoever reads it."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ddptui.engines.manifest import yaml_text

TEXTS = st.text(max_size=40)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_it_reads_back_as_it_was(value: dict[str, Any]) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


TRAPS = [
    "yes", "No", "ON", "null", "~", "", " a", "a ", "1", "1.5", "1e3", "0x1f", "0o7", "1_000", "1:30", "2026-01-01",
    ".inf", "- a", "a: b", "a #b", "#", "&a", "*a", "!a", "%a", "@a", "`a", "{a}", "[a]", "'a'", '"a"', "a\nb", "a\\nb",
    "\t", "é", "😀",
    "\x85", "\u2028", "\ufeff", "\x7f", "---", "...", "n", "Y", "<<", "=", "a,b", "$(A)", "|", ">", "?", "?a", "-", ":",
]  # fmt: skip


@pytest.mark.parametrize("text", TRAPS)
def test_a_string_stays_a_string(text: str) -> None:
    assert yaml.safe_load(yaml_text({"key": text, text: ["x"], "list": [text, [text]]})) == {
        "key": text, text: ["x"], "list": [text, [text]],
    }  # fmt: skip


def test_what_needs_no_quotes_has_none() -> None:
    value = {"kind": "Job", "n": 3, "on": True, "spec": {"nvidia.com/gpu": "2", "args": ["a-b", "$(A)"], "none": {}}}
    assert yaml_text(value).splitlines() == [
        "kind: Job",
        '"n": 3',
        '"on": true',
        "spec:",
        '  nvidia.com/gpu: "2"',
        "  args:",
        "    - a-b",
        '    - "$(A)"',
        "  none: {}",
    ]
