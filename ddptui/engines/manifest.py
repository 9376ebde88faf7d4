"""`ddptui manifest`: renders the job of each platform. Every pod is a node that joins the run and starts its ranks."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Literal, TypeAlias

import msgspec

from ddptui.host.place.place import quoted

KindName = Literal["trainjob", "pytorchjob", "dlc"]
Value: TypeAlias = "str | int | bool | Sequence[Value] | Mapping[str, Value]"

TICKET_VARIABLE = "DDPTUI_TICKET"  # from which `ddptui join` reads the ticket
SECRET, KEY = "ddptui-ticket", "ticket"
CONTAINER = "pytorch"  # the training operator knows the container by this name
JOIN: list[Value] = ["ddptui", "join"]  # no shell in between: the signal that ends the pod has to reach it
FROM_SECRET: list[Value] = [{"name": TICKET_VARIABLE, "valueFrom": {"secretKeyRef": {"name": SECRET, "key": KEY}}}]

MOST_NODES = 1024
MOST_CPUS = 1024
MOST_GPUS = 64
LONGEST_NAME = 45  # a pod's name appends -node-0-1023-abcde to it, and has to be a label of at most 63 characters
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # DNS-1123, and a service's name, which begins with a letter
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,499}", re.ASCII)
MEMORY = re.compile(r"(?=.*[1-9])\d{1,9}(\.\d{1,3})?([KMGT]i|[kMGT])", re.ASCII)  # a Kubernetes quantity above 0
TICKET_LINE = re.compile(r"[!-~]{1,16384}")
ID = re.compile(r"[\w.-]{1,128}", re.ASCII)
PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")  # no number or date of YAML begins with a letter
WORDS = {"true", "false", "yes", "no", "on", "off", "y", "n", "null"}  # in YAML 1.1 no strings


class ManifestError(ValueError):
    """A job that no platform would accept. One line: the option, what is wrong with it, and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of each node, and the ticket with which its pod joins."""

    kind: KindName
    nodes: int
    image: str
    gpus: int = 0
    cpus: int | None = None
    memory: str | None = None
    ticket: str | None = None  # as the console printed it; None: the pod reads it from a Secret that the user creates
    workspace: str | None = None  # dlc: to which the job belongs
    quota: str | None = None  # dlc: from which --cpus, --memory and --gpus are taken
    ecs: str | None = None  # dlc, instead of a quota: the type of the hired machine


def render(preset: str, options: Options) -> str:
    """YAML; for PAI-DLC JSON, which has no room for comments. Raises ManifestError."""
    _check(options)
    name = _name_of(preset)
    if options.kind == "dlc":
        return json.dumps(_dlc(name, options), indent=2) + "\n"
    documents = [_trainjob(name, options) if options.kind == "trainjob" else _pytorchjob(name, options)]
    if options.ticket is not None:
        secret: dict[str, Value] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
        secret |= {"type": "Opaque", "stringData": {KEY: options.ticket}}
        documents.insert(0, secret)  # first: the pods refer to it
    console = f"ddptui run {shlex.quote(preset)} --engine join --nodes {options.nodes}"
    comments = [f"# {options.nodes} {'pod' if options.nodes == 1 else 'pods'} that join a run. It waits for them in"]
    comments.append(f"#     {console}")
    if options.ticket is None:
        make_secret = f"kubectl create secret generic {SECRET} --from-file={KEY}=TICKET_FILE"
        comments += ["# which has a ticket. Before this file, in the same namespace:", f"#     {make_secret}"]
    return "\n".join(comments) + "\n" + "---\n".join(map(yaml_text, documents))


def _check(options: Options) -> None:
    """Raises ManifestError."""
    for option, number, low, high in (
        ("--nodes", options.nodes, 1, MOST_NODES),
        ("--gpus", options.gpus, 0, MOST_GPUS),
        ("--cpus", options.cpus, 1, MOST_CPUS),
    ):
        if number is not None and not low <= number <= high:
            raise ManifestError(f"{option} {number} is out of range: {low} to {high}")
    for option, text, pattern, why in (
        ("--image", options.image, IMAGE, "is no image: registry/name:tag"),
        ("--memory", options.memory, MEMORY, "is no amount of memory: 8Gi, 512Mi"),
        ("--workspace", options.workspace, ID, "is no workspace: its id"),
        ("--quota", options.quota, ID, "is no quota: its id"),
        ("--ecs", options.ecs, ID, "is no type of machine: ecs.g6.xlarge"),
    ):
        if text is not None and not pattern.fullmatch(text):
            raise ManifestError(f"{option} '{quoted(text)}' {why}")
    if options.ticket is not None and not TICKET_LINE.fullmatch(options.ticket):  # not quoted: it is a secret
        raise ManifestError("--ticket: the file holds no ticket, which is one line: the console prints it")
    if options.kind != "dlc" and (options.workspace or options.quota or options.ecs):
        raise ManifestError("--workspace, --quota and --ecs are of PAI-DLC: --kind dlc")


def _name_of(preset: str) -> str:
    """The job's name: that of the preset, or of its file, in letters that a platform accepts. Raises ManifestError."""
    stem = PurePath(preset).stem if preset.endswith(".toml") else preset
    name = "ddptui-" + re.sub(r"[_. ]+", "-", stem.lower())
    if not (preset.isprintable() and LABEL.fullmatch(name) and len(name) <= LONGEST_NAME):
        most = LONGEST_NAME - len("ddptui-")
        raise ManifestError(f"preset '{quoted(preset)}' names no job: a-z, 0-9 and -, at most {most} characters")
    return name


def _trainjob(name: str, options: Options) -> dict[str, Value]:
    """A TrainJob of Kubeflow's Trainer, v2. The variables PET_… belong to its runtime, which refuses a job with one."""
    runtime = {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch-distributed"}
    trainer: dict[str, Value] = {
        "image": options.image,
        "command": JOIN,
        "numNodes": options.nodes,
        "numProcPerNode": 1,  # a pod runs one program, which starts the ranks; by default the runtime counts GPUs
        "env": FROM_SECRET,
        **_resources("resourcesPerNode", options),
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": runtime, "trainer": trainer},
    }


def _pytorchjob(name: str, options: Options) -> dict[str, Value]:
    """A PyTorchJob of Kubeflow's training operator, v1."""
    container: dict[str, Value] = {
        "name": CONTAINER,
        "image": options.image,
        "command": JOIN,
        "env": FROM_SECRET,
    }
    template = {"spec": {"containers": [container | _resources("resources", options)]}}
    # failed pods are not restarted, because their run is over then
    replicas: dict[str, Value] = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}
    if options.nodes > 1:  # the Master is one of the nodes
        replicas["Worker"] = {"replicas": options.nodes - 1, "restartPolicy": "Never", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "nprocPerNode": "1",
            # Running: pods that still run are ended; the others are kept for their logs
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
            "pytorchReplicaSpecs": replicas,
        },
    }


def _resources(key: str, options: Options) -> dict[str, Value]:
    """The entry `key` of a pod's resources; none where the options name no amounts."""
    named = {"cpu": options.cpus, "memory": options.memory, "nvidia.com/gpu": options.gpus or None}
    amounts = {name: str(amount) for name, amount in named.items() if amount is not None}
    # requests equal limits: a node that shares its cores with others would measure the others as well
    return {key: {"requests": amounts, "limits": amounts}} if amounts else {}


def _dlc(name: str, options: Options) -> dict[str, Value]:
    """The body of PAI-DLC's CreateJob, version 2020-12-03; all nodes are alike, and the first is the master."""
    # fields: https://www.alibabacloud.com/help/en/pai/developer-reference/api-pai-dlc-2020-12-03-createjob
    if options.ticket is None:
        raise ManifestError("--kind dlc: its jobs have no Secret to take the ticket from: --ticket FILE")
    has_amounts = options.quota is not None and options.cpus is not None and options.memory is not None
    machine: dict[str, Value]
    if options.ecs is not None and not (options.quota or options.cpus or options.memory or options.gpus):
        machine = {"EcsSpec": options.ecs}  # hired machines come by type
    elif options.ecs is None and has_amounts:  # a quota is divided by amounts
        gpus = {"GPU": str(options.gpus)} if options.gpus else {}
        machine = {"ResourceConfig": {"CPU": str(options.cpus), "Memory": str(options.memory), **gpus}}
    else:
        raise ManifestError("--kind dlc: either --ecs TYPE, a hired machine, or --quota ID --cpus C --memory M")
    workers = {"Type": "Worker", "Image": options.image, "PodCount": options.nodes, "RestartPolicy": "Never", **machine}
    job: dict[str, Value] = {
        "DisplayName": name,
        "JobType": "PyTorchJob",
        "JobSpecs": [workers],
        "UserCommand": "exec ddptui join",
        # no Secret: who may read the job reads the ticket, which is worthless once the run is over
        "Envs": {TICKET_VARIABLE: options.ticket},
    }
    if options.workspace is not None:
        job["WorkspaceId"] = options.workspace
    if options.quota is not None:
        job["ResourceId"] = options.quota
    return job


def yaml_text(value: Mapping[str, Value]) -> str:
    """One YAML document, without its `---`, quoted so that no reader takes a string for another type."""
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _yaml_lines(value: Value) -> list[str]:
    """The lines of a value: one of a scalar, or of an empty block."""
    if isinstance(value, str):
        if PLAIN.fullmatch(value) and value.lower() not in WORDS:
            return [value]
        return ['"' + "".join(map(_escaped, value)) + '"']
    if isinstance(value, int):
        return [str(value).lower()]  # true, not True
    if not value:
        return ["{}" if isinstance(value, Mapping) else "[]"]
    lines = []
    if isinstance(value, Mapping):
        for key, inner in value.items():
            [name], block = _yaml_lines(key), _yaml_lines(inner)
            is_inline = isinstance(inner, str | int) or not inner
            lines += [f"{name}: {block[0]}"] if is_inline else [f"{name}:", *(f"  {line}" for line in block)]
    else:
        for inner in value:
            first, *rest = _yaml_lines(inner)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
    return lines


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if " " <= letter <= "~" else f"\\U{ord(letter):08x}"
