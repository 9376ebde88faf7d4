"""`ddptui manifest`: renders a job for each platform. Every pod is a node that joins the run and starts its ranks."""

import re
import shlex
from pathlib import Path, PurePath
from typing import Literal

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

KindName = Literal["trainjob", "pytorchjob", "dlc"]
TEMPLATES = Path(__file__).parent / "manifests"
KUBERNETES = ("cpu", "memory", "nvidia.com/gpu")
AMOUNTS = {"trainjob": KUBERNETES, "pytorchjob": KUBERNETES, "dlc": ("CPU", "Memory", "GPU")}

LONGEST_NAME = 45  # a pod's name appends -node-0-1023-abcde and may have at most 63 characters
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # a DNS-1123 label that begins with a letter, as services require
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,499}", re.ASCII)
MEMORY = re.compile(r"(?=.*[1-9])\d{1,9}(\.\d{1,3})?([KMGT]i|[kMGT])", re.ASCII)  # a Kubernetes quantity above 0
TICKET_LINE = re.compile(r"[!-~]{1,16384}")
ID = re.compile(r"[\w.-]{1,128}", re.ASCII)


class ManifestError(ValueError):
    """No platform would accept the job. The message is one line: the option, what is wrong with it, and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a manifest: the resources of each node, and the ticket by which its pod joins."""

    kind: KindName
    nodes: int
    image: str
    gpus: int = 0
    cpus: int | None = None
    memory: str | None = None
    ticket: str | None = None  # the text of the ticket; None: the pod reads it from a Secret that the user creates
    workspace: str | None = None  # dlc: the id of the workspace to which the job belongs
    quota: str | None = None  # dlc: the id of the quota from which --cpus, --memory and --gpus are taken
    ecs: str | None = None  # dlc, instead of a quota: the type of the rented machine


def render(preset: str, options: Options) -> str:
    """The manifest of a job, as YAML (for PAI-DLC: JSON). Raises ManifestError."""
    _check(options)
    amounts = zip(AMOUNTS[options.kind], (options.cpus, options.memory, options.gpus or None), strict=True)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # the templates quote each text as JSON, which is also valid YAML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{options.kind}.{'json' if options.kind == 'dlc' else 'yaml'}").render(
        msgspec.structs.asdict(options),
        name=_name_of(preset),
        preset=shlex.quote(preset),
        # requests equal limits: on shared cores, the measurements would include other programs
        amounts={name: str(amount) for name, amount in amounts if amount is not None},
    )


def _check(options: Options) -> None:
    """Raises ManifestError if an option is invalid."""
    for option, text, pattern, why in (
        ("--image", options.image, IMAGE, "is not an image: expected registry/name:tag"),
        ("--memory", options.memory, MEMORY, "is not an amount of memory: expected e.g. 8Gi or 512Mi"),
        ("--workspace", options.workspace, ID, "is not the id of a workspace"),
        ("--quota", options.quota, ID, "is not the id of a quota"),
        ("--ecs", options.ecs, ID, "is not a type of machine: expected e.g. ecs.g6.xlarge"),
    ):
        if text is not None and not pattern.fullmatch(text):
            raise ManifestError(f"{option} {text!r} {why}")
    if options.ticket is not None and not TICKET_LINE.fullmatch(options.ticket):  # not quoted: it is a secret
        raise ManifestError("--ticket: the file holds no ticket: copy the line that the console prints into it")
    if options.kind != "dlc":
        if options.workspace or options.quota or options.ecs:
            raise ManifestError("--workspace, --quota and --ecs are for PAI-DLC: add --kind dlc")
        return
    if options.ticket is None:
        raise ManifestError("--kind dlc: its jobs have no Secret with the ticket: add --ticket FILE")
    amounts = (options.quota, options.cpus, options.memory)
    is_hired = options.ecs is not None and not any(amounts) and not options.gpus  # rented machines are chosen by type
    if not is_hired and (options.ecs is not None or None in amounts):  # parts of a quota are chosen by amounts
        raise ManifestError("--kind dlc: needs either --ecs TYPE (a rented machine) or --quota ID --cpus C --memory M")


def _name_of(preset: str) -> str:
    """The name of the job, made from that of the preset or its file. Raises ManifestError."""
    stem = PurePath(preset).stem if preset.endswith(".toml") else preset
    name = "ddptui-" + re.sub(r"[_. ]+", "-", stem.lower())
    if not (preset.isprintable() and LABEL.fullmatch(name) and len(name) <= LONGEST_NAME):
        most = LONGEST_NAME - len("ddptui-")
        raise ManifestError(
            f"preset {preset!r} makes no valid job name: name it with a-z, 0-9, -, at most {most} characters"
        )
    return name
