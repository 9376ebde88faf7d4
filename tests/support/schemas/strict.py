"""A JSON schema that takes no field which it does not know. A cluster drops such fields without a word."""

from typing import Any

import jsonschema

Schema = dict[str, Any]


def closed(schema: Any) -> Any:
    """Every object of it has the properties that are named, and no others."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **inner} if isinstance(schema.get("properties"), dict) else inner


def complaints(schema: Schema, value: Any) -> list[str]:
    """What is wrong with it, as path and message."""
    found = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]
