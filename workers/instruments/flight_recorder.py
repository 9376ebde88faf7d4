"""Saves the content of torch's flight recorder when the console stops a stalled launch: the collectives that the rank
has called last, and whether each has started and completed.

torch has a recorder for NCCL (as JSON from 2.5 on), and another for gloo (from 2.8 on). Versions after 2.14 have one
per backend, and require the backend's own name, which for NCCL's newer implementation is nccl2, whatever the group's
backend is called. We only request JSON: a pickle could run code in the process that reads it.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import torch
import torch.distributed as dist

from ddptui.text.words import first_line
from ddptui.wire.connection import LOGS, flight_record

from .gpu import backend_of
from .output import print_line

OF_NCCL, OF_OTHERS = "_dump_nccl_trace_json", "_dump_fr_trace_json"
LONGEST_S = 2.0  # timeout; the console waits three seconds
MOST_BYTES = 8 * 2**20  # torch keeps 2,000 collectives unless TORCH_FR_BUFFER_SIZE says otherwise: about 1 MB

Dump = Callable[..., bytes]


def keep(rank: int) -> None:
    """Write rank-R.flight.json into the log folder, unless nothing is recorded. Returns after at most LONGEST_S; but if
    torch blocks while it holds Python's lock, no thread of this process continues, and the console must kill it. Raises
    RuntimeError if no thread can be started."""
    if LOGS not in os.environ or not dist.is_initialized():
        return
    # In a separate thread, since a rank that hangs may hold the recorder's locks.
    thread = Thread(target=_write, args=(Path(os.environ[LOGS]) / flight_record(rank),), daemon=True)
    thread.start()
    thread.join(LONGEST_S)


def _write(path: Path) -> None:
    part = path.with_suffix(".part")
    try:
        if record := recorded(backend_names()):
            part.write_bytes(bounded(record))
            part.replace(path)  # in one go: the process may be killed at any moment
    except (OSError, RuntimeError, ValueError) as error:
        print_line(f"torch's flight record could not be kept: {first_line(error)}")


def backend_names() -> list[str]:
    """The names by which a recorder may know the process group's backends: their own, then the group's."""
    assert dist.group.WORLD is not None
    names = []
    for device in sorted(dist.group.WORLD._device_types, key=lambda device: device.type == "cpu"):  # GPUs first
        with suppress(RuntimeError):  # no backend for this type of device
            names.append(backend_of(device).name())
    return list(dict.fromkeys([*names, str(dist.get_backend())]))


def recorded(backends: Sequence[str]) -> dict[str, Any]:
    """The record of the first of these backends that has a recorder, else of any other recorder; empty if none has
    recorded a collective. Raises RuntimeError or ValueError."""
    over_nccl = any(name.startswith("nccl") for name in backends)
    for function in (OF_NCCL, OF_OTHERS) if over_nccl else (OF_OTHERS, OF_NCCL):
        dump: Dump | None = getattr(torch._C._distributed_c10d, function, None)
        for text in _dumps(dump, backends) if dump else ():
            record = msgspec.json.decode(text, type=dict[str, Any])
            if record.get("entries"):
                return record
    return {}


def _dumps(dump: Dump, backends: Sequence[str]) -> Iterator[bytes]:
    """The dumps of a torch function for each of these backends, then without a name."""
    for backend in backends:
        with suppress(TypeError, RuntimeError, ValueError):  # it accepts no name, or does not know this one
            yield dump(backend=backend)
    yield dump()


def bounded(record: dict[str, Any]) -> bytes:
    """The record as JSON, at most MOST_BYTES long: if necessary, the earliest collectives are dropped."""
    entries = record["entries"]
    while len(text := msgspec.json.encode({**record, "entries": entries})) > MOST_BYTES and entries:
        entries = entries[-(len(entries) // 2) :] if len(entries) > 1 else []
    return text
