"""What Alibaba publishes of PAI-DLC's CreateJob: no schema, but a client that was generated from one, with every field
and its type (alibabacloud-pai-dlc20201203, Apache-2.0). It is read without importing it: that would want much more."""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.schemas.strict import Schema

SIMPLE = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
REQUIRED = re.compile(r"# This parameter is required\.\n\s+self\.(\w+) = ")


@cache
def create_job() -> Schema:
    return _of_class("CreateJobRequest")


def _of_class(name: str) -> Schema:
    source = next(text for text in _sources() if f"\nclass {name}(" in text)
    parsed = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    methods = {node.name: node for node in parsed.body if isinstance(node, ast.FunctionDef)}
    keys = dict(_keys(methods["from_map"]))
    types = {each.arg: each.annotation for each in methods["__init__"].args.args if each.annotation}
    fields = {keys[field]: _of_type(kind) for field, kind in types.items()}
    required = [keys[field] for field in REQUIRED.findall(ast.get_source_segment(source, parsed) or "")]
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _keys(from_map: ast.FunctionDef) -> Any:
    """`if m.get('JobType') is not None: self.job_type = …`: the field's name in Python, and its key."""
    for tested in (node for node in from_map.body if isinstance(node, ast.If)):
        key = next(node.value for node in ast.walk(tested.test) if isinstance(node, ast.Constant) and node.value)
        fields = (node for node in ast.walk(tested) if isinstance(node, ast.Attribute))
        yield next(node.attr for node in fields if getattr(node.value, "id", "") == "self"), key


def _of_type(kind: ast.expr) -> Schema:
    if isinstance(kind, ast.Name):
        return {"type": SIMPLE[kind.id]} if kind.id in SIMPLE else {}
    if isinstance(kind, ast.Attribute):
        return _of_class(kind.attr)
    assert isinstance(kind, ast.Subscript)
    if getattr(kind.value, "id", "") == "List":
        return {"type": "array", "items": _of_type(kind.slice)}
    assert isinstance(kind.slice, ast.Tuple)
    return {"type": "object", "additionalProperties": _of_type(kind.slice.elts[1])}


@cache
def _sources() -> list[str]:
    found = find_spec("alibabacloud_pai_dlc20201203")
    if found is None or found.origin is None:
        pytest.skip("what PAI-DLC takes is not installed here: pip install --no-deps alibabacloud-pai-dlc20201203")
    return [path.read_text() for path in sorted((Path(found.origin).parent / "models").glob("_*.py"))]
