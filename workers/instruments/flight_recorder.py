"""Keeps what torch's flight recorder holds of a rank when the console stops a launch that stalled: the collectives that
the rank has called last, and whether each has begun and is over.

torch has a recorder for NCCL (from 2.5 on as JSON), and another for gloo (from 2.8 on). Later torches than 2.14 have
one for each backend, and want its name: the backend's own, which for NCCL's newer implementation is nccl2, whatever the
group is called. Only JSON is asked for: a pickle could run code where it is read.
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
LONGEST_S = 2.0  # of the three seconds that the console gives
MOST_BYTES = 8 * 2**20  # torch keeps 2,000 collectives unless TORCH_FR_BUFFER_SIZE says otherwise: about 1 MB

Dump = Callable[..., bytes]


def keep(rank: int) -> None:
    """Write rank-R.flight.json into the folder of logs, unless nothing is recorded. Returns after LONGEST_S at the
    latest; but if torch blocks while it holds Python's lock, no thread of this process runs on, and the console has to
    kill it. Raises RuntimeError if no thread can be started."""
    if LOGS not in os.environ or not dist.is_initialized():
        return
    # In a thread of its own: a recorder has locks, and a rank that hangs may hold them.
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
    """The names by which a recorder may know the backends of this process's group: their own, then the group's."""
    assert dist.group.WORLD is not None
    names = []
    for device in sorted(dist.group.WORLD._device_types, key=lambda device: device.type == "cpu"):  # GPUs first
        with suppress(RuntimeError):  # no backend for this type of device
            names.append(backend_of(device).name())
    return list(dict.fromkeys([*names, str(dist.get_backend())]))


def recorded(backends: Sequence[str]) -> dict[str, Any]:
    """What the recorder of the first of these backends that has one holds, else any other; empty: none holds a
    collective. Raises RuntimeError, ValueError."""
    over_nccl = any(name.startswith("nccl") for name in backends)
    for function in (OF_NCCL, OF_OTHERS) if over_nccl else (OF_OTHERS, OF_NCCL):
        dump: Dump | None = getattr(torch._C._distributed_c10d, function, None)
        for text in _dumps(dump, backends) if dump else ():
            record = msgspec.json.decode(text, type=dict[str, Any])
            if record.get("entries"):
                return record
    return {}


def _dumps(dump: Dump, backends: Sequence[str]) -> Iterator[bytes]:
    """What a function of torch's dumps for each of these backends, and without a name."""
    for backend in backends:
        with suppress(TypeError, RuntimeError, ValueError):  # it takes no name, or does not know this one
            yield dump(backend=backend)
    yield dump()


def bounded(record: dict[str, Any]) -> bytes:
    """The record as JSON, of MOST_BYTES at most: if it is longer, without its earlier collectives."""
    entries = record["entries"]
    while len(text := msgspec.json.encode({**record, "entries": entries})) > MOST_BYTES and entries:
        entries = entries[-(len(entries) // 2) :] if len(entries) > 1 else []
    return text
