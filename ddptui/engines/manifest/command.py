"""`ddptui manifest`: the text that a platform takes, and what to type before and after."""

import json
import shlex

from ddptui.engines.manifest import dlc, pod, pytorchjob, trainjob
from ddptui.engines.manifest.options import Options, check, name_of
from ddptui.engines.manifest.yaml_text import Value, yaml_text

OF_KUBEFLOW = {"trainjob": trainjob.manifest, "pytorchjob": pytorchjob.manifest}


def render(preset: str, options: Options) -> str:
    """YAML; of PAI-DLC JSON, which has no room for remarks. Raises ManifestError."""
    check(options)
    name = name_of(preset)
    if options.kind == "dlc":
        return json.dumps(dlc.manifest(name, options), indent=2) + "\n"
    documents = [OF_KUBEFLOW[options.kind](name, options)]
    if options.ticket is not None:
        documents.insert(0, pod.secret(options.ticket))
    return "\n".join(_remarks(preset, options)) + "\n" + _joined(documents)


def _joined(documents: list[dict[str, Value]]) -> str:
    return "---\n".join(yaml_text(document) for document in documents)


def _remarks(preset: str, options: Options) -> list[str]:
    waiting = f"ddptui --preset {shlex.quote(preset)} --engine join --nodes {options.nodes}"
    lines = [f"# {options.nodes} {'pod' if options.nodes == 1 else 'pods'} that join a run. It waits for them in"]
    lines.append(f"#     {waiting}")
    if options.ticket is None:
        lines += ["# which has a ticket. Before this file, in the same namespace:", f"#     {_make_secret()}"]
    return lines


def _make_secret() -> str:
    return f"kubectl create secret generic {pod.SECRET} --from-file={pod.KEY}=TICKET_FILE"
