"""`ddptui manifest`: renders the job of each platform. Every pod is a node that joins the run and starts its ranks."""

import re
import shlex
from pathlib import Path, PurePath
from typing import Literal

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ddptui.host.place.place import quoted

KindName = Literal["trainjob", "pytorchjob", "dlc"]
TEMPLATES = Path(__file__).parent / "manifests"
KUBERNETES = ("cpu", "memory", "nvidia.com/gpu")
AMOUNTS = {"trainjob": KUBERNETES, "pytorchjob": KUBERNETES, "dlc": ("CPU", "Memory", "GPU")}

LONGEST_NAME = 45  # a pod's name appends -node-0-1023-abcde to it, and has to be a label of at most 63 characters
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # DNS-1123, and a service's name, which begins with a letter
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,499}", re.ASCII)
MEMORY = re.compile(r"(?=.*[1-9])\d{1,9}(\.\d{1,3})?([KMGT]i|[kMGT])", re.ASCII)  # a Kubernetes quantity above 0
TICKET_LINE = re.compile(r"[!-~]{1,16384}")
ID = re.compile(r"[\w.-]{1,128}", re.ASCII)


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
    amounts = zip(AMOUNTS[options.kind], (options.cpus, options.memory, options.gpus or None), strict=True)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=False,  # the templates quote each text as JSON, which is YAML, too
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(f"{options.kind}.{'json' if options.kind == 'dlc' else 'yaml'}").render(
        msgspec.structs.asdict(options),
        name=_name_of(preset),
        preset=shlex.quote(preset),
        # requests equal limits: a node that shares its cores with others would measure the others as well
        amounts={name: str(amount) for name, amount in amounts if amount is not None},
    )


def _check(options: Options) -> None:
    """Raises ManifestError."""
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
    if options.kind != "dlc":
        if options.workspace or options.quota or options.ecs:
            raise ManifestError("--workspace, --quota and --ecs are of PAI-DLC: --kind dlc")
        return
    if options.ticket is None:
        raise ManifestError("--kind dlc: its jobs have no Secret to take the ticket from: --ticket FILE")
    amounts = (options.quota, options.cpus, options.memory)
    is_hired = options.ecs is not None and not any(amounts) and not options.gpus  # hired machines come by type
    if not is_hired and (options.ecs is not None or None in amounts):  # a quota is divided by amounts
        raise ManifestError("--kind dlc: either --ecs TYPE, a hired machine, or --quota ID --cpus C --memory M")


def _name_of(preset: str) -> str:
    """The job's name: that of the preset, or of its file, in letters that a platform accepts. Raises ManifestError."""
    stem = PurePath(preset).stem if preset.endswith(".toml") else preset
    name = "ddptui-" + re.sub(r"[_. ]+", "-", stem.lower())
    if not (preset.isprintable() and LABEL.fullmatch(name) and len(name) <= LONGEST_NAME):
        most = LONGEST_NAME - len("ddptui-")
        raise ManifestError(f"preset '{quoted(preset)}' names no job: a-z, 0-9 and -, at most {most} characters")
    return name
