"""`ddptui doctor`: what this machine can do, each line with what mends it if it is missing."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from ddptui import launch
from ddptui.environment import cpu_model
from ddptui.preflight import DATA_VARIABLE, FILES, data_folder
from ddptui.preset import Trial, available_cores
from ddptui.rank_side import run_module
from ddptui.record import runs_folder

GB = 2**30
ENOUGH_MEMORY_GB = 2  # for two ranks


class Finding(NamedTuple):
    """One thing looked at. `remedy`: what to do about it, if it is not as it should be; `fatal`: nothing runs so."""

    what: str
    found: str
    remedy: str = ""
    fatal: bool = False


def examine() -> int:
    """Print all findings; returns 1 if something stands in the way of a run."""
    findings = [*_machine(), *_torch(), *_folders()]
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        mark = "✗" if finding.fatal else "!" if finding.remedy else "✓"
        print(f"{mark} {finding.what:{width}}  {finding.found}")
        if finding.remedy:
            print(f"  {'':{width}}  → {finding.remedy}")
    return 1 if any(finding.fatal for finding in findings) else 0


def _machine() -> Iterator[Finding]:
    free = psutil.virtual_memory().available / GB
    yield Finding("python", f"{sys.version.split()[0]}, {sys.executable}")
    yield Finding(
        "cores",
        f"{available_cores()}, {cpu_model()}",
        "ranks will share one core: times mean little" if available_cores() < 2 else "",
    )
    yield Finding("memory", f"{free:.1f} GB free", "two ranks want 2 GB" if free < ENOUGH_MEMORY_GB else "")
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    found = ", ".join(f"{name} {' '.join(own)}" for name, own in addresses.items() if own)
    loopback = any(address.startswith("127.") for own in addresses.values() for address in own)
    remedy = "" if loopback else "ranks meet at 127.0.0.1: `ip link set lo up`"
    yield Finding("interfaces", found or "none", remedy, fatal=not loopback)


def _torch() -> Iterator[Finding]:
    for package in ("torch", "torchvision"):
        if find_spec(package) is None:
            yield Finding(package, "not installed", f"pip install {package}", fatal=True)
            return
    probe = run_module("workers.probe", captured=True)
    if probe.returncode != 0:
        last = (probe.stderr.strip().splitlines() or ["no message"])[-1]
        yield Finding("torch", f"cannot be imported: {last}", "pip install --force-reinstall torch torchvision", True)
        return
    facts: dict[str, Any] = json.loads(probe.stdout)
    yield Finding("torch", f"{facts['torch']}, torchvision {facts['torchvision']}")
    yield from _devices(facts)
    yield Finding("launch", f"{launch.LABELS['launch']}")
    hooks = "seen through the process group's hooks" if facts["group_hooks"] else "seen by wrapping torch's functions"
    yield Finding("collectives", hooks)


def _devices(facts: dict[str, Any]) -> Iterator[Finding]:
    gpus, backends = facts["gpus"], facts["backends"]
    if gpus:
        yield Finding("GPUs", ", ".join(gpus))
    elif Path("/proc/driver/nvidia/gpus").is_dir() and facts["cuda_build"] is None:
        yield Finding("GPUs", "present, but this torch is built without CUDA", "pip install torch, the CUDA build")
    else:
        yield Finding("GPUs", "none: ranks run on the CPU, and dp is a stand-in with threads")
    there = [name for name, present in backends.items() if present]
    remedy = "" if "gloo" in there else "this torch has no gloo: pip install --force-reinstall torch"
    unused = " (nccl needs a GPU)" if "nccl" in there and not gpus else ""
    yield Finding("backends", ", ".join(there) + unused, remedy, fatal=not there)


def _folders() -> Iterator[Finding]:
    runs = runs_folder(None)
    nearest = next(path for path in (runs, *runs.parents) if path.exists())
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    remedy = "" if writable else "cannot be written: name another folder with --runs or DDPTUI_RUNS"
    yield Finding("runs", str(runs), remedy, fatal=not writable)
    folder = data_folder(Trial())
    there = [name for name, files in FILES.items() if all((folder / file).is_file() for file in files)]
    found = ", ".join(there) or "nothing else"
    yield Finding("data", f"digits and random are built in; {found} in {folder} ({DATA_VARIABLE})")
