"""What the words of an error mean, and what to do about it: torch's, CUDA's and NCCL's own, in one line each. Pure.

The words are those that torch 2.6 to 2.15 and NCCL 2.19 to 2.28 say.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
GIB = UNITS["GiB"]
LESS = "take a smaller batch_size or model, or fewer ranks"
LESS_ON_GPU = "take a smaller batch_size or model, or amp = 'bf16'"
SHARED_MEMORY = "make it larger: `mount -o remount,size=1g /dev/shm` (docker: --shm-size=1g)"
FEWER_WORKERS = "memory may be short; take a smaller num_workers, or 0"
WITHOUT_NCCL = "NCCL_DEBUG=INFO before the command says more; backend = 'gloo' does without NCCL"
SEEN = "`nvidia-smi` must list one, and CUDA_VISIBLE_DEVICES must not hide it"
WITH_CUDA = "`pip install --force-reinstall torch torchvision` (on Linux: with CUDA), or device = 'cpu'"

Telling = Callable[["re.Match[str]"], str]


class Case(NamedTuple):
    """An error that is known by its words. `told`: what is said in its place; a text, or made of what was found."""

    words: re.Pattern[str]
    told: str | Telling


def explained(error: str) -> str | None:
    """The error in one line, with its remedy; None: its own words must do."""
    text = " ".join(error.split())
    for case in CASES:
        if found := case.words.search(text):
            return case.told if isinstance(case.told, str) else case.told(found)
    return None


def _out_of_memory(found: "re.Match[str]") -> str:
    """«CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 3.50 GiB is
    free. Process 7 has 25.97 MiB memory in use. Including non-PyTorch memory, this process has 5.13 GiB memory in …»"""
    text = found.string[found.start() :]
    asked = re.search(r"Tried to allocate ([\d.]+ \w+)", text)
    room = re.search(r"GPU (\d+) has a total capaci?ty of ([\d.]+ \w+) of which ([\d.]+ \w+) is free", text)
    where = f" on cuda:{room[1]}" if room else " on the GPU"
    said = [f"{asked[1]} asked"] if asked else []
    said += [f"{room[3]} free of {room[2]}"] if room else []
    numbers = f": {', '.join(said)}" if said else ""
    return f"ran out of memory{where}{numbers}; {LESS_ON_GPU}{_of_others(text)}"


def _of_others(text: str) -> str:
    """What other processes hold of the same GPU, where that is more than a CUDA context takes."""
    others = re.findall(r"Process \d+ has ([\d.]+) (\w+) memory in use", text)
    held = sum(float(size) * UNITS.get(unit, 0) for size, unit in others)
    if held < GIB:
        return ""
    return f"; other processes hold {held / GIB:.2f} GiB of it: ranks that share it (fewer of them), or other programs"


def _two_devices(found: "re.Match[str]") -> str:
    """«Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when checking
    argument for argument mat2 in method wrapper_CUDA_mm)»; or «… but got mat2 is on cpu, different from other tensors
    on cuda:0 (when checking argument in method wrapper_CUDA_mm)»"""
    call = re.search(r"in method wrapper_(?:CUDA_+)?(\w+)", found.string)
    where = f" in {call[1]}" if call else ""
    return (
        f"tensors on two devices, {found['one']} and {found['other']}, met{where}: the model makes one elsewhere than "
        "its inputs; make it with device=inputs.device, or keep it with register_buffer, which moves with the model"
    )


def _too_old(found: "re.Match[str]") -> str:
    """CUDA's number of its version: 12040 is 12.4."""
    version = int(found[1])
    return (
        f"the NVIDIA driver is too old for this torch: it knows CUDA {version // 1000}.{version % 1000 // 10}; update "
        "the driver, or install a torch for an older CUDA (pytorch.org/get-started)"
    )


def _same_gpu(found: "re.Match[str]") -> str:
    return (
        f"NCCL refuses two ranks on one GPU, as ranks {found[1]} and {found[2]} are: share_gpu = true lets them share "
        "it over gloo; or take no more ranks than GPUs"
    )


def _timeout(found: "re.Match[str]") -> str:
    call = re.search(r"OpType=(\w+)", found.string)
    after = re.search(r"Timeout\(ms\)=(\d+)", found.string)
    what = f" in {call[1].lower()}" if call else ""
    long = f" for {int(after[1]) // 1000} s" if after else ""
    return f"NCCL waited in vain{what}{long}: another rank did not come; its log, and the step it was in, say why"


def _nccl(found: "re.Match[str]") -> str:
    kind = re.search(r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalid\w+", found.string)
    last = re.search(r"Last error: (?!Exception raised)(.{1,160}?)(?= Exception raised|$)", found.string)
    why = f" ({last[1].strip()})" if last else ""
    return f"NCCL failed: {kind[0] if kind else 'an error of its own'}{why}; {WITHOUT_NCCL}"


def _case(words: str, told: str | Telling) -> Case:
    return Case(re.compile(words), told)


CASES = (  # the first that fits: what is particular stands above what is general
    _case(r"Duplicate GPU detected ?: rank (\d+) and rank (\d+)", _same_gpu),
    _case(
        r"Error(?: while \w+ shared memory segment|: failed to (?:create|extend)(?: shared memory file)?) \S*nccl",
        f"NCCL finds no room in /dev/shm; {SHARED_MEMORY}",
    ),
    _case(
        r"(?:no socket interface found|NET/Socket ?: (?:No usable listening|no) interface found)",
        "NCCL finds no network interface to listen at: name one with NCCL_SOCKET_IFNAME (`ip addr` lists them; on one "
        "host lo will do)",
    ),
    _case(
        r"(?i)nccl.{0,400}connection refused",
        "NCCL was refused by another rank's socket: that rank is gone, or a firewall stands between; "
        "NCCL_SOCKET_IFNAME names the interface to meet on",
    ),
    _case(
        r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure.{0,4}'out of memory'",
        _out_of_memory,
    ),
    _case(r"Watchdog caught collective operation timeout|NCCL operation timed out", _timeout),
    _case(
        r"ncclRemoteError|remote process exited or there was a network error|NCCL communicator was aborted",
        "NCCL lost another rank: the one that ended first says why",
    ),
    _case(r"NCCL error in|NCCL error:|ncclUnhandledCudaError|ncclSystemError|ncclInternalError", _nccl),
    _case(
        r"Expected all tensors to be on the same device, but found at least two devices, (?P<one>\S+) and "
        r"(?P<other>\S+?)!",
        _two_devices,
    ),
    _case(
        r"Expected all tensors to be on the same device, but got \S+ is on (?P<one>[\w:]+), different from other "
        r"tensors on (?P<other>[\w:]+)",
        _two_devices,
    ),
    _case(r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)!", _two_devices),
    _case(
        r"Input type \((?:torch\.)?cuda\.\w+\) and weight type \((?:torch\.)?\w+\) should be the same",
        "a part of the model stayed on the CPU: .to(device) finds only layers that are attributes, or in nn.ModuleList",
    ),
    _case(r"NVIDIA driver on your system is too old \(found version (\d+)\)", _too_old),
    _case(
        r"Found no NVIDIA driver on your system",
        "CUDA finds no NVIDIA driver: install it (`nvidia-smi` must list the GPUs; docker: --gpus all), or take "
        "device = 'cpu'",
    ),
    _case(
        r"(?i)driver/library version mismatch|unsupported display driver / cuda driver combination",
        "the NVIDIA driver was updated while it was loaded: reboot, or load its kernel module anew",
    ),
    _case(r"No CUDA GPUs are available|no CUDA-capable device is detected", f"CUDA sees no GPU: {SEEN}"),
    _case(r"CUDA error: invalid device ordinal", f"a rank asked for a GPU that it does not see: {SEEN}"),
    _case(
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "the GPU lets nobody else in: end whoever holds it, or set its compute mode to default (`nvidia-smi -c 0`)",
    ),
    _case(
        r"no kernel image is available for execution on the device",
        "this torch has no code for this GPU: install one that has (pytorch.org/get-started)",
    ),
    _case(r"Torch not compiled with CUDA enabled", f"this torch is built without CUDA: {WITH_CUDA}"),
    _case(
        r"Cannot re-initialize CUDA in forked subprocess",
        "CUDA does not survive a fork: take start_method = 'spawn'",
    ),
    _case(
        r"(?:write|read)v? \[[^]]*\]:\d+: Bad address",
        "gloo sends and receives nothing that lies on a GPU: take a strategy other than 'ring', or backend = 'nccl'",
    ),
    _case(
        r"Unexpected bus error encountered in worker|DataLoader worker \(pid \d+\) is killed by signal: Bus error",
        f"a DataLoader worker was ended by a bus error: /dev/shm is full; {SHARED_MEMORY}, or num_workers = 0",
    ),
    _case(
        r"DataLoader worker \(pid \d+\) is killed by signal: ([\w ]+)",
        lambda found: f"a DataLoader worker was ended ({found[1]}): {FEWER_WORKERS}",
    ),
    _case(
        r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly", f"a DataLoader worker was ended: {FEWER_WORKERS}"
    ),
    _case(
        r"unable to (?:write to|allocate shared memory\(shm\) for|resize) file </torch_",
        f"a DataLoader worker finds no room in /dev/shm; {SHARED_MEMORY}, or num_workers = 0",
    ),
    _case(
        r"No working C\+\+ compiler found|Compiler: \S+ is not found",
        "torch.compile finds no C++ compiler: install g++, or name another with CXX, or compile = false",
    ),
    _case(
        r"Cannot find a working triton installation",
        "torch.compile finds no Triton: `pip install triton`, or compile = false",
    ),
    _case(
        r"Found (?P<name>.{1,60}?) which is too old to be supported by the triton GPU compiler",
        lambda found: f"Triton compiles nothing for {found['name']}, which is too old: compile = false",
    ),
)
