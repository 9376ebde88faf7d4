"""Keeps what torch's flight recorder holds of a rank when the console stops a launch that stalled: the collectives that
the rank has called last, and whether each has begun and is over.

torch has a recorder for NCCL (from 2.5 on as JSON), and another for gloo (from 2.8 on). Later torches than 2.14 have
one for each backend, and want its name. Only JSON is asked for: a pickle could run code where it is read.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import torch
import torch.distributed as dist

from ddptui.text.words import first_line
from ddptui.wire.connection import LOGS, flight_record

OF_NCCL, OF_OTHERS = "_dump_nccl_trace_json", "_dump_fr_trace_json"
LONGEST_S = 0.5  # of the second that the console gives
MOST_BYTES = 8 * 2**20  # torch keeps 2,000 collectives unless TORCH_FR_BUFFER_SIZE says otherwise: about 1 MB

Dump = Callable[..., bytes]


def keep(rank: int) -> None:
    """Write rank-R.flight.json into the folder of logs, unless nothing is recorded. Returns after LONGEST_S at the
    latest, and raises nothing: what called is about to end the process."""
    if LOGS not in os.environ or not dist.is_initialized():
        return
    # In a thread of its own: a recorder has locks, and a rank that hangs may hold them.
    thread = Thread(target=_write, args=(Path(os.environ[LOGS]) / flight_record(rank),), daemon=True)
    thread.start()
    thread.join(LONGEST_S)


def _write(path: Path) -> None:
    part = path.with_suffix(".part")
    try:
        if record := recorded(str(dist.get_backend())):
            part.write_bytes(bounded(record))
            part.replace(path)  # in one go: the process may be killed at any moment
    except (OSError, RuntimeError, ValueError) as error:
        print(f"torch's flight record could not be kept: {first_line(error)}", flush=True)


def recorded(backend: str) -> dict[str, Any]:
    """What the recorder of this backend holds, else the other one; empty: neither holds a collective. Raises
    RuntimeError, ValueError."""
    for name in (OF_NCCL, OF_OTHERS) if backend == "nccl" else (OF_OTHERS, OF_NCCL):
        dump: Dump | None = getattr(torch._C._distributed_c10d, name, None)
        record = msgspec.json.decode(_call(dump, backend), type=dict[str, Any]) if dump else {}
        if record.get("entries"):
            return record
    return {}


def _call(dump: Dump, backend: str) -> bytes:
    try:
        return dump(backend=backend)
    except TypeError:  # it takes no backend
        return dump()


def bounded(record: dict[str, Any]) -> bytes:
    """The record as JSON, of MOST_BYTES at most: if it is longer, without its earlier collectives."""
    entries = record["entries"]
    while len(text := msgspec.json.encode({**record, "entries": entries})) > MOST_BYTES and entries:
        entries = entries[-(len(entries) // 2) :] if len(entries) > 1 else []
    return text
