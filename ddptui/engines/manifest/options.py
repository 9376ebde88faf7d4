"""The options of `ddptui manifest`, and whether the platforms would accept them."""

import re
from pathlib import PurePath
from typing import Literal

import msgspec

from ddptui.host.place.variables import quoted

KindName = Literal["trainjob", "pytorchjob", "dlc"]

MOST_NODES = 1024
MOST_CPUS = 1024
MOST_GPUS = 64
LONGEST_NAME = 45  # a pod's name appends -node-0-1023-abcde to it, and has to be a label of at most 63 characters
LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")  # DNS-1123, and a service's name, which begins with a letter
IMAGE = re.compile(r"[A-Za-z0-9][\w.:/@-]{0,499}", re.ASCII)
MEMORY = re.compile(r"(?=.*[1-9])\d{1,9}(\.\d{1,3})?([KMGT]i|[kMGT])", re.ASCII)
TICKET = re.compile(r"[!-~]{1,16384}")
PLAIN = re.compile(r"[\w.-]{1,128}", re.ASCII)


class ManifestError(ValueError):
    """A job that no platform would accept. One line: the option, what is wrong with it, and what to do."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The resources of each node, and the ticket with which its pod joins.

    ticket     as the console has printed it; None: the pod reads it from a Secret that the user creates
    workspace  dlc: the workspace to which the job belongs
    quota      dlc: the quota from which --cpus, --memory and --gpus are taken
    ecs        dlc, instead of a quota: the type of the hired machine
    """

    kind: KindName
    nodes: int
    image: str
    gpus: int = 0
    cpus: int | None = None
    memory: str | None = None
    ticket: str | None = None
    workspace: str | None = None
    quota: str | None = None
    ecs: str | None = None


def name_of(preset: str) -> str:
    """The job's name: that of the preset, or of its file, in letters that a platform accepts. Raises ManifestError."""
    stem = PurePath(preset).stem if preset.endswith(".toml") else preset
    name = "ddptui-" + re.sub(r"[_. ]+", "-", stem.lower())
    if not (preset.isprintable() and LABEL.fullmatch(name) and len(name) <= LONGEST_NAME):
        most = LONGEST_NAME - len("ddptui-")
        raise ManifestError(f"preset '{quoted(preset)}' names no job: a-z, 0-9 and -, at most {most} characters")
    return name


def check(options: Options) -> None:
    """Raises ManifestError."""
    _check_number("--nodes", options.nodes, 1, MOST_NODES)
    _check_number("--gpus", options.gpus, 0, MOST_GPUS)
    if options.cpus is not None:
        _check_number("--cpus", options.cpus, 1, MOST_CPUS)
    _check_text("--image", options.image, IMAGE, "is no image: registry/name:tag")
    _check_text("--memory", options.memory, MEMORY, "is no amount of memory: 8Gi, 512Mi")
    _check_text("--workspace", options.workspace, PLAIN, "is no workspace: its id")
    _check_text("--quota", options.quota, PLAIN, "is no quota: its id")
    _check_text("--ecs", options.ecs, PLAIN, "is no type of machine: ecs.g6.xlarge")
    if options.ticket is not None and not TICKET.fullmatch(options.ticket):
        raise ManifestError("--ticket: the file holds no ticket, which is one line: the console prints it")
    if options.kind != "dlc" and (options.workspace or options.quota or options.ecs):
        raise ManifestError("--workspace, --quota and --ecs are of PAI-DLC: --kind dlc")


def _check_number(option: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ManifestError(f"{option} {value} is out of range: {low} to {high}")


def _check_text(option: str, value: str | None, pattern: re.Pattern[str], why: str) -> None:
    if value is not None and not pattern.fullmatch(value):
        raise ManifestError(f"{option} '{quoted(value)}' {why}")
