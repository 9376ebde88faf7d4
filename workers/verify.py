"""Compares checkpoints in pairs, tensor by tensor and bit by bit, for `ddptui verify`.

    python -m workers.verify

Each line that comes in is a JSON list of two paths; each line that goes out is what `compare` found. Checkpoints are
loaded weights-only: a file cannot run code. Nor can it take more memory than its size calls for.
"""

import json
import os
import re
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, is_zipfile

import psutil
import torch
from torch import Tensor

from ddptui.host.files import open_plain
from workers.doctor.answers import answer

# A state_dict does not say which of its tensors are buffers. These are the names that torch's own modules give them.
BUFFERS = re.compile(r"(^|\.)(running_mean|running_var|num_batches_tracked)$")
MOST_BYTES = 2**62  # of a checkpoint: any number, since memory is what limits it
COPIES = 3  # of a file's content that torch may hold while it loads
ROOM = 2**30  # bytes of address space for all else that loading takes


class NoCheckpoint(ValueError):
    """A file cannot be compared; the message says why, in one line."""


def load(path: str) -> dict[str, Tensor]:
    """A checkpoint's tensors by name. Raises NoCheckpoint."""
    try:
        with open_plain(Path(path), MOST_BYTES) as file:
            size = os.fstat(file.fileno()).st_size
            if (unpacked := unpacked_size(file)) > size:
                raise NoCheckpoint(f"{path}: not a checkpoint: {size:,} bytes that unpack to {unpacked:,}")
            with memory_limit(COPIES * size + ROOM):
                state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NoCheckpoint(f"{path}: cannot be read: {error.strerror or error}") from None
    except NoCheckpoint:
        raise
    except MemoryError:
        raise NoCheckpoint(f"{path}: not a checkpoint, or memory is short: it takes more than its size") from None
    except Exception:  # a broken file can make the unpickler raise anything
        what = "not a checkpoint of tensors: write one with `torch.save(model.state_dict(), FILE)`"
        raise NoCheckpoint(f"{path}: {what}") from None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise NoCheckpoint(f"{path}: is no state_dict (tensors by name)")
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor) or not is_plain(tensor):
            raise NoCheckpoint(f"{path}: {shown(name)} is no plain tensor (dense, in memory, not quantized)")
    return state


def unpacked_size(file: BinaryIO) -> int:
    """The bytes that a zip unpacks to, by its directory; 0 if it is none. torch.save makes one, and compresses nothing:
    only a zip bomb has more of them than its file."""
    unpacked = 0
    if is_zipfile(file):
        with ZipFile(file) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
    file.seek(0)
    return unpacked


@contextmanager
def memory_limit(more: int) -> Iterator[None]:
    """While the context is open, this process gets no more than `more` bytes of address space on top of what it has:
    a directory may lie, and a pickle may ask for any size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    ceilings = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    limit = min([psutil.Process().memory_info().vms + more, *ceilings])
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def is_plain(tensor: Tensor) -> bool:
    """Whether it is dense, in memory, and as large as its shape: a view that repeats numbers may claim any size."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def shown(name: str) -> str:
    """A name from a file, without control characters, which a terminal would obey."""
    return name.encode("unicode_escape").decode()


def difference(a: Tensor | None, b: Tensor | None) -> str | None:
    """How two tensors differ, as a phrase; None if they are equal to the last bit (NaN equals NaN)."""
    if a is None or b is None:
        return "is only in the " + ("second" if a is None else "first")
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{_kind(a)} against {_kind(b)}"
    if torch.equal(_bits(a), _bits(b)):
        return None
    exact = torch.complex128 if a.is_complex() else torch.float64  # two float16 may differ by what is no float16
    apart = (a.to(exact) - b.to(exact)).abs()
    count = int((_bits(a) != _bits(b)).any(-1).sum())
    return f"{count} of {a.numel()} elements, at most {apart.max().item():.3g} apart"


def _bits(tensor: Tensor) -> Tensor:
    """The tensor's bytes: (elements, bytes of an element)."""
    return tensor.detach().contiguous().reshape(-1, 1).view(torch.uint8)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}".replace("torch.", "")


def compare(pair: str) -> dict[str, Any]:
    """Compare two checkpoints. Returns `lines`, which say how they differ, and `differ`, whether they do; or `refused`,
    the reason why they cannot be compared. pair: their paths, as JSON."""
    try:
        a, b = (load(path) for path in json.loads(pair))
    except NoCheckpoint as why:
        return {"refused": str(why)}
    names = dict.fromkeys([*a, *b])
    differing = {name: phrase for name in names if (phrase := difference(a.get(name), b.get(name)))}
    lines = []
    for kind, is_buffer in (("parameters", False), ("buffers", True)):
        of_kind = [name for name in names if bool(BUFFERS.search(name)) is is_buffer]
        apart = [name for name in of_kind if name in differing]
        equal = f"all {len(of_kind)} equal" if of_kind else "none"
        lines.append(f"{kind}: {len(apart)} of {len(of_kind)} differ" if apart else f"{kind}: {equal}")
        lines += [f"  {shown(name)}: {differing[name]}" for name in apart]
    return {"lines": lines, "differ": bool(differing)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's, about files that we reject with one line
    answer(compare)
