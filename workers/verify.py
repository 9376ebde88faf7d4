"""Compares two checkpoints, tensor by tensor and bit by bit.

python -m workers.verify A.pth B.pth

Exit code 0: they are equal; 1: they differ; 2: one of them cannot be read. They are loaded weights-only: a file cannot
run code.
"""

import re
import sys
import warnings

import torch
from torch import Tensor

# A state_dict does not say which of its tensors are buffers. These are the names that torch's own modules give them.
BUFFERS = re.compile(r"(^|\.)(running_mean|running_var|num_batches_tracked)$")


def load(path: str) -> dict[str, Tensor]:
    """A checkpoint's tensors by name. Ends the process with one line if it is no checkpoint."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        sys.exit(_refuse(f"{path}: cannot be read: {error.strerror}"))
    except Exception:  # a broken file can make the unpickler raise anything
        sys.exit(_refuse(f"{path}: is no checkpoint of plain tensors, as torch.save writes one of a state_dict"))
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        sys.exit(_refuse(f"{path}: is no state_dict (tensors by name)"))
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor) or not is_plain(tensor):
            sys.exit(_refuse(f"{path}: {shown(name)} is no plain tensor (dense, in memory, not quantized)"))
    return state


def is_plain(tensor: Tensor) -> bool:
    """Whether it is dense, in memory, and as large as its shape: a view that repeats numbers may claim any size."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.device.type != "cpu":
        return False
    return tensor.numel() * tensor.element_size() <= tensor.untyped_storage().nbytes()


def shown(name: str) -> str:
    """A name from a file, without control characters, which a terminal would obey."""
    return name.encode("unicode_escape").decode()


def _refuse(reason: str) -> int:
    print(reason, file=sys.stderr)
    return 2


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


def main() -> None:
    warnings.simplefilter("ignore")  # torch's, about files that we reject with one line
    a, b = load(sys.argv[1]), load(sys.argv[2])
    names = dict.fromkeys([*a, *b])
    differing = {name: phrase for name in names if (phrase := difference(a.get(name), b.get(name)))}
    for kind, is_buffer in (("parameters", False), ("buffers", True)):
        of_kind = [name for name in names if bool(BUFFERS.search(name)) is is_buffer]
        apart = [name for name in of_kind if name in differing]
        equal = f"all {len(of_kind)} equal" if of_kind else "none"
        print(f"{kind}: {len(apart)} of {len(of_kind)} differ" if apart else f"{kind}: {equal}")
        for name in apart:
            print(f"  {shown(name)}: {differing[name]}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
