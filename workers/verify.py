"""Compares checkpoints in pairs, tensor by tensor and bit by bit, for `ddptui verify`.

    python -m workers.verify

Each input line is a JSON list of two paths; each output line is the result of `compare`, as JSON. Checkpoints are
loaded with weights_only, so that a file cannot run code. A file also cannot take more memory than its size justifies.
"""

import json
import os
import re
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from ddptui.host.folders import open_plain
from workers.doctor.answers import answer

# A state_dict does not say which of its tensors are buffers. These are the names that torch's own modules give them.
BUFFERS = re.compile(r"(^|\.)(running_mean|running_var|num_batches_tracked)$")
MOST_BYTES = 2**62  # a checkpoint's size in bytes: practically no limit, since memory limits it
COPIES = 3  # copies of a file's content that torch may hold while it loads
ROOM = 2**30  # bytes of address space for everything else that loading needs


class NoCheckpoint(ValueError):
    """A file is not a checkpoint that can be compared. The message says why, in one line."""


def load(path: str) -> dict[str, Tensor]:
    """Load a checkpoint. Returns its tensors by name. Raises NoCheckpoint."""
    try:
        with (
            open_plain(Path(path), MOST_BYTES) as file,
            memory_limit(COPIES * os.fstat(file.fileno()).st_size + ROOM),
        ):
            state = torch.load(file, map_location="cpu", weights_only=True)
    except OSError as error:
        raise NoCheckpoint(f"{path}: cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise NoCheckpoint(f"{path}: needs more memory than its size: not a checkpoint, or memory is short") from None
    except Exception:  # a broken file can make the unpickler raise anything
        what = "not a checkpoint of tensors: write one with `torch.save(model.state_dict(), FILE)`"
        raise NoCheckpoint(f"{path}: {what}") from None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise NoCheckpoint(f"{path}: not a state_dict (tensors by name)")
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor) or not is_plain(tensor):
            raise NoCheckpoint(f"{path}: {shown(name)} is not a plain tensor (dense, in memory, not quantized)")
    return state


@contextmanager
def memory_limit(more: int) -> Iterator[None]:
    """Limit this process to `more` bytes of address space beyond what it has, while the context is open: a zip may
    unpack to any size, and a pickle may request any."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    ceilings = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    limit = min([psutil.Process().memory_info().vms + more, *ceilings])
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is dense, in memory, and as large as its shape: an expanded view may claim any size."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def shown(name: str) -> str:
    """A name from a file with its control characters escaped, since a terminal would execute them."""
    return name.encode("unicode_escape").decode()


def difference(a: Tensor | None, b: Tensor | None) -> str | None:
    """Describe how two tensors differ; None if all their bits are equal (NaN equals NaN)."""
    if a is None or b is None:
        return "is only in the " + ("second" if a is None else "first")
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{_kind(a)} against {_kind(b)}"
    if torch.equal(_bits(a), _bits(b)):
        return None
    exact = torch.complex128 if a.is_complex() else torch.float64  # the difference may overflow in float16
    apart = (a.to(exact) - b.to(exact)).abs()
    count = int((_bits(a) != _bits(b)).any(-1).sum())
    return f"{count} of {a.numel()} elements, at most {apart.max().item():.3g} apart"


def _bits(tensor: Tensor) -> Tensor:
    """The tensor's bytes: (elements, bytes of an element)."""
    return tensor.detach().contiguous().reshape(-1, 1).view(torch.uint8)


def _kind(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}".replace("torch.", "")


def compare(pair: str) -> dict[str, Any]:
    """Compare two checkpoints. pair: a JSON list of their paths. Returns `lines` (how they differ) and `differ`
    (whether they do), or `refused` (why they cannot be compared)."""
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
    warnings.simplefilter("ignore")  # torch warns of files that we reject in one line
    answer(compare)
