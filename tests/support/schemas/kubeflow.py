"""What Kubeflow publishes of its resources. Of Trainer v2, and of Kubernetes, there are models, of which pydantic makes
a JSON schema (kubeflow-trainer-api, Apache-2.0); of the operator v1 tables of fields and types (kubeflow-training,
Apache-2.0), which are read without importing it, as that would want a client of Kubernetes."""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.schemas.strict import Schema, closed

SIMPLE = {"int": "integer", "str": "string", "bool": "boolean", "float": "number", "datetime": "string"}
AMOUNT = {"type": ["string", "number"], "pattern": r"^[+-]?[0-9.]+([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"}
NOT_NONE = re.compile(r"Invalid value for `(\w+)`, must not be `None`")
KUBERNETES = {
    "V1PodTemplateSpec": "IoK8sApiCoreV1PodTemplateSpec",
    "V1ObjectMeta": "IoK8sApimachineryPkgApisMetaV1ObjectMeta",
}


@cache
def definitions() -> dict[str, Any]:
    models = pytest.importorskip("kubeflow_trainer_api.models", reason="pip install kubeflow-trainer-api")
    from pydantic.json_schema import models_json_schema

    names = ["TrainerV1alpha1TrainJob", "IoK8sApiCoreV1Secret", *KUBERNETES.values()]
    _, whole = models_json_schema([(getattr(models, name), "validation") for name in names])
    return closed(whole["$defs"]) | {"IoK8sApimachineryPkgApiResourceQuantity": AMOUNT}


def trainjob() -> Schema:
    return {"$ref": "#/$defs/TrainerV1alpha1TrainJob", "$defs": definitions()}


def secret() -> Schema:
    return {"$ref": "#/$defs/IoK8sApiCoreV1Secret", "$defs": definitions()}


def pytorchjob() -> Schema:
    return {**_of_type("KubeflowOrgV1PyTorchJob"), "$defs": definitions()}


def _of_type(name: str) -> Schema:
    """A type as these tables spell it: dict(str, X), list[X], or the name of a class."""
    if name in SIMPLE:
        return {"type": SIMPLE[name]}
    if name in KUBERNETES:
        return {"$ref": f"#/$defs/{KUBERNETES[name]}"}
    if name.startswith("dict(str, "):
        return {"type": "object", "additionalProperties": _of_type(name[len("dict(str, ") : -1])}
    if name.startswith("list["):
        return {"type": "array", "items": _of_type(name[len("list[") : -1])}
    return _of_class(name) if name.startswith("KubeflowOrg") else {}  # of Kubernetes, and in no manifest of ours


def _of_class(name: str) -> Schema:
    source = next(text for text in _sources() if f"\nclass {name}(" in text)
    types, keys = (_table(source, table) for table in ("openapi_types", "attribute_map"))
    required = [keys[field] for field in dict.fromkeys(NOT_NONE.findall(source))]
    fields = {keys[field]: _of_type(kind) for field, kind in types.items()}
    return {"type": "object", "properties": fields, "required": required, "additionalProperties": False}


def _table(source: str, name: str) -> dict[str, str]:
    assigned = next(
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name
    )
    return dict(ast.literal_eval(assigned))


@cache
def _sources() -> list[str]:
    found = find_spec("kubeflow.training") if find_spec("kubeflow") else None
    if found is None or found.origin is None:
        pytest.skip("what the operator v1 takes is not installed here: pip install --no-deps kubeflow-training")
    return [path.read_text() for path in sorted((Path(found.origin).parent / "models").glob("kubeflow_org_v1_*.py"))]
