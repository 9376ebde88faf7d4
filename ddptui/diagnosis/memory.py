"""Explains why a rank ran out of memory: what it requested, what was free, and which settings need less. Pure."""

import re

from ddptui.config.trial import Trial

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
GIB = UNITS["GiB"]
RAN_OUT = "ran out of memory"
# How to need less memory, keyed by a trial's `primitives`. "see" is missing, because its buffers are small.
SMALLER = {None: "a smaller batch_size or model", "measure": "a smaller max_bytes"}


def memory_remedy(trial: Trial) -> str:
    """The advice how to make a trial use less host memory."""
    workers = ["fewer DataLoader workers"] if trial.kind == "command" else []
    return _take([*_smaller(trial), *workers, *(["fewer ranks"] if trial.world_size > 1 else [])])


def gpu_memory_remedy(trial: Trial) -> str:
    """The advice how to make a trial use less GPU memory."""
    ways = _smaller(trial)
    ways += ["fewer ranks"] if trial.share_gpu else []  # on GPUs of their own, fewer ranks would each need more memory
    if trial.kind == "command":
        ways.append("bf16 (torch.autocast)")
    elif trial.primitives is None and trial.amp is None and trial.dtype == "float32":
        ways.append("amp = 'bf16'")
    return _take(ways)


def gpu_out_of_memory(match: "re.Match[str]", trial: Trial) -> str:
    """The explanation of an error such as 'CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity
    of 79.11 GiB of which 3.50 GiB is free. Process 7 has 25.97 MiB memory in use. Including non-PyTorch memory, this
    process has 5.13 GiB memory in …'"""
    text = match.string[match.start() :]  # text before the match may mention other memory
    wanted = re.search(r"Tried to allocate ([\d.]+ \w+)", text)
    room = re.search(r"GPU (\d+) has a total capaci?ty of ([\d.]+ \w+) of which ([\d.]+ \w+) is free", text)
    where = f" on cuda:{room[1]}" if room else " on the GPU"
    parts = [f"{wanted[1]} asked"] if wanted else []
    parts += [f"{room[3]} free of {room[2]}"] if room else []
    numbers = f": {', '.join(parts)}" if parts else ""
    return f"{RAN_OUT}{where}{numbers}; {gpu_memory_remedy(trial)}{_held_by_others(text, trial)}"


def _smaller(trial: Trial) -> list[str]:
    if trial.kind == "command":
        return ["smaller batches or a smaller model"]
    return [SMALLER[trial.primitives]] if trial.primitives in SMALLER else []


def _take(ways: list[str]) -> str:
    return f"take {', or '.join(ways)}" if ways else "end other programs that use it"


def _held_by_others(text: str, trial: Trial) -> str:
    """A note on the memory that other processes use on the same GPU, if it is more than their CUDA contexts need."""
    others = re.findall(r"Process \d+ has ([\d.]+) (\w+) memory in use", text)
    held = sum(float(size) * UNITS.get(unit, 0) for size, unit in others)
    if held < GIB:
        return ""
    shares = trial.share_gpu or trial.kind == "command"
    who = "ranks that share it, or other programs" if shares else "other programs (`nvidia-smi` lists them)"
    return f"; other processes use {held / GIB:.2f} GiB of it: {who}"
