"""Explains errors of torch, CUDA and NCCL in one line each, with a remedy. Pure.

Patterns match the messages of torch 2.8 to 2.15 and NCCL 2.19 to 2.28. To add an error, add an entry to KNOWN_ERRORS.
"""

import re
from collections.abc import Callable

from ddptui.config.checks import NO_SENDING, can_share_gpu, needs_point_to_point
from ddptui.config.trial import Trial
from ddptui.diagnosis.memory import gpu_memory_remedy, gpu_out_of_memory
from ddptui.text.words import OLDER, WITH_CUDA

SHARED_MEMORY = "make it larger: `mount -o remount,size=1g /dev/shm` (docker: --shm-size=1g)"
NCCL_SAYS = "put NCCL_DEBUG=INFO before the command for details"
WITHOUT_WORKERS = "with num_workers = 0 the rank fetches its batches itself, and its error shows the cause"
GPU_VISIBLE = "`nvidia-smi` must list one, and CUDA_VISIBLE_DEVICES must not hide it"

Explanation = Callable[["re.Match[str]", Trial], str]


def known_error(error: str, trial: Trial) -> str | None:
    """The explanation of an error as one line, with a remedy that suits the trial. None: the error is not known."""
    text = " ".join(error.split())
    for pattern, explanation in KNOWN_ERRORS:
        if match := re.search(pattern, text):
            return explanation if isinstance(explanation, str) else explanation(match, trial)
    return None


def _two_devices(match: "re.Match[str]", _trial: Trial) -> str:
    # "… cuda:0 and cpu! (when checking argument for argument mat2 in method wrapper_CUDA_mm)", or "… mat2 is on cpu,
    # different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_mm)"
    call = re.search(r"in method wrapper_(?:CUDA_+)?(\w+)", match.string)
    where = f" in {call[1]}" if call else ""
    return (
        f"tensors on two devices, {match['one']} and {match['other']}, met{where}: the model creates one elsewhere "
        "than its inputs; create it with device=inputs.device, or with register_buffer, which moves with the model"
    )


def _too_old(match: "re.Match[str]", _trial: Trial) -> str:
    version = int(match[1])  # 12040 means CUDA 12.4
    return (
        f"the NVIDIA driver is too old for this torch: it offers CUDA {version // 1000}.{version % 1000 // 10}; {OLDER}"
    )


def _same_gpu(match: "re.Match[str]", trial: Trial) -> str:
    sharing = "share_gpu = true lets them share it over gloo; or " if can_share_gpu(trial) else ""
    ranks = f"{match[1]} and {match[2]}"
    return f"NCCL does not allow two ranks on one GPU, here ranks {ranks}: {sharing}take no more ranks than GPUs"


def _timeout(match: "re.Match[str]", _trial: Trial) -> str:
    call = re.search(r"OpType=(\w+)", match.string)
    limit = re.search(r"Timeout\(ms\)=(\d+)", match.string)
    what = f" in {call[1].lower()}" if call else ""
    after = f" after {int(limit[1]) // 1000} s" if limit else ""
    return f"NCCL timed out{what}{after}: another rank did not arrive; its log and the step it was in show why"


def _nccl(match: "re.Match[str]", trial: Trial) -> str:
    kind = re.search(r"ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalid\w+", match.string)
    last = re.search(r"Last error: (?!Exception raised)(.{1,160}?)(?= Exception raised|$)", match.string)
    why = f" ({last[1].strip()})" if last else ""
    without = "" if needs_point_to_point(trial) else "; backend = 'gloo' does without NCCL"
    return f"NCCL failed: {kind[0] if kind else 'unknown error'}{why}; {NCCL_SAYS}{without}"


def _nccl_of_replicas(match: "re.Match[str]", trial: Trial) -> str:
    # nn.DataParallel copies its replicas by NCCL, whatever backend the process group has.
    without = "another launch" if trial.launch == "dp" else "gpus_per_rank = 1"
    return f"NCCL failed in nn.DataParallel ({match[1]}); {NCCL_SAYS}; {without} does without it"


def _sent_by_gloo(_match: "re.Match[str]", trial: Trial) -> str:
    by_nccl = [] if trial.share_gpu else ["backend = 'nccl'"]
    if (field_and_why := needs_point_to_point(trial)) is None:
        return ": take ".join([NO_SENDING, *by_nccl])
    return ", or ".join([field_and_why[1], *by_nccl])


def _worker(match: "re.Match[str]", _trial: Trial) -> str:
    how = match[1].strip()
    if how == "Killed":
        return f"a DataLoader worker was ended ({how}): memory may be short; take a smaller num_workers, or 0"
    return f"a DataLoader worker crashed ({how}) in code of the dataset or of a library; {WITHOUT_WORKERS}"


# Patterns of error messages with their explanations, which are fixed or made from the match and the trial. The first
# match counts, so special cases stand above general ones.
KNOWN_ERRORS: tuple[tuple[str, str | Explanation], ...] = (
    (r"Duplicate GPU detected ?: rank (\d+) and rank (\d+)", _same_gpu),
    (
        r"Error(?: while \w+ shared memory segment|: failed to (?:create|extend)(?: shared memory file)?) \S*nccl",
        f"NCCL finds no room in /dev/shm; {SHARED_MEMORY}",
    ),
    (
        r"(?:no socket interface found|NET/Socket ?: (?:No usable listening|no) interface found)",
        "NCCL finds no network interface to listen on: name one with NCCL_SOCKET_IFNAME (`ip addr` lists them; on one "
        "host use lo)",
    ),
    (
        r"(?i)nccl.{0,400}connection refused",
        "another rank's socket refused NCCL's connection: that rank has ended, or a firewall blocks it; set "
        "NCCL_SOCKET_IFNAME to choose another network interface",
    ),
    (
        r"OutOfMemoryError: (?:CUDA|HIP) (?:ran )?out of memory|(?:CUDA|HIP) out of memory\W+Tried to allocate|"
        r"(?:CUDA|HIP) error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure.{0,4}'out of memory'",
        gpu_out_of_memory,
    ),
    (
        r"CUDNN_STATUS_NOT_INITIALIZED|Unable to find a valid cuDNN algorithm",
        lambda _match, trial: f"cuDNN failed, usually because the GPU's memory is full; {gpu_memory_remedy(trial)}",
    ),
    (r"Watchdog caught collective operation timeout|NCCL operation timed out", _timeout),
    (
        r"ncclRemoteError|remote process exited or there was a network error|NCCL communicator was aborted",
        "NCCL lost another rank: the log of the rank that ended first shows why",
    ),
    (r"NCCL error in|NCCL error:|ncclUnhandledCudaError|ncclSystemError|ncclInternalError", _nccl),
    (r"NCCL Error \d+: ([\w -]+\w)", _nccl_of_replicas),
    (
        r"Expected all tensors to be on the same device, but found at least two devices, (?P<one>\S+) and "
        r"(?P<other>\S+?)!",
        _two_devices,
    ),
    (
        r"Expected all tensors to be on the same device, but got \S+ is on (?P<one>[\w:]+), different from other "
        r"tensors on (?P<other>[\w:]+)",
        _two_devices,
    ),
    (r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)!", _two_devices),
    (
        r"Input type \((?:torch\.cuda\.|CUDA)\w+\) and weight type \((?:torch\.|CPU)\w+\) should be the same",
        "a part of the model stayed on the CPU: .to(device) only moves layers that are attributes, or in nn.ModuleList",
    ),
    (
        r"Input type \((?:torch\.|CPU)\w+\) and weight type \((?:torch\.cuda\.|CUDA)\w+\) should be the same",
        "a layer on the GPU received a tensor on the CPU, which forward has created; create it with "
        "device=inputs.device",
    ),
    (
        r"module must have its parameters and buffers on device (\S+) \(device_ids\[0\]\) but found one of them on "
        r"device: (\S+)",
        lambda match, _trial: (
            f"nn.DataParallel needs the whole model on {match[1]}, but a parameter or buffer is on {match[2]}: create "
            "none with a device of its own, and none after the model was moved"
        ),
    ),
    (r"NVIDIA driver on your system is too old \(found version (\d+)\)", _too_old),
    (
        r"Found no NVIDIA driver on your system",
        "CUDA finds no NVIDIA driver: install it (`nvidia-smi` must list the GPUs; docker: --gpus all), or take "
        "device = 'cpu'",
    ),
    (
        r"(?i)driver/library version mismatch|unsupported display driver / cuda driver combination",
        "the NVIDIA driver was updated while it was loaded: reboot, or reload its kernel module",
    ),
    (
        r"(?:Error 802|CUDA error): system not yet initialized",
        "CUDA waits for the fabric manager, which GPUs connected by NVSwitch need, in the driver's version: "
        "`systemctl start nvidia-fabricmanager`",
    ),
    (
        r"CUDA unknown error - ",
        "CUDA does not start, for an unknown reason: `nvidia-smi` must list the GPUs; after a suspend, reload the "
        "kernel module nvidia_uvm, or reboot; in a container, /dev/nvidia-uvm must exist",
    ),
    (r"No CUDA GPUs are available|no CUDA-capable device is detected", f"CUDA sees no GPU: {GPU_VISIBLE}"),
    (r"CUDA error: invalid device ordinal", f"a rank asked for a GPU that it does not see: {GPU_VISIBLE}"),
    (
        r"CUDA-capable device\(s\) is/are busy or unavailable",
        "another process uses the GPU exclusively: end that process, or set the GPU's compute mode to default "
        "(`nvidia-smi -c 0`)",
    ),
    (
        r"no kernel image is available for execution on the device",
        "this torch has no code for this GPU: install a torch that supports it (pytorch.org/get-started)",
    ),
    (r"Torch not compiled with CUDA enabled", f"this torch is built without CUDA: {WITH_CUDA}, or device = 'cpu'"),
    (r"Cannot re-initialize CUDA in forked subprocess", "CUDA does not survive a fork: take start_method = 'spawn'"),
    (r"(?:write|read)v? \[[^]]*\]:\d+: Bad address", _sent_by_gloo),
    (
        r"(?:ProcessGroupGloo|Backend gloo) does not support reduce_scatter",
        "gloo has reduce_scatter from torch 2.8 on: take a newer torch, or leave reduce_scatter out",
    ),
    (
        r"Unexpected bus error encountered in worker|DataLoader worker \(pid \d+\) is killed by signal: Bus error",
        f"a DataLoader worker was ended by a bus error: /dev/shm is full; {SHARED_MEMORY}, or set num_workers = 0",
    ),
    (r"DataLoader worker \(pid \d+\) is killed by signal: ([\w ]+)", _worker),
    (
        r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly",
        f"a DataLoader worker ended for an unknown reason; {WITHOUT_WORKERS}",
    ),
    (
        r"unable to (?:write to|allocate shared memory\(shm\) for|resize) file </torch_",
        f"a DataLoader worker finds no room in /dev/shm; {SHARED_MEMORY}, or set num_workers = 0",
    ),
    (
        r"No working C\+\+ compiler found|Compiler: \S+ is not found",
        "torch.compile finds no C++ compiler: install g++, or name another with CXX, or set compile = false",
    ),
    (
        r"Cannot find a working triton installation",
        "torch.compile finds no Triton: `pip install triton`, or set compile = false",
    ),
    (
        r"Found (?P<name>.{1,60}?) which is too old to be supported by the triton GPU compiler",
        lambda match, _trial: f"Triton does not support {match['name']}, which is too old: set compile = false",
    ),
    (
        r"CUDA error: (.{1,80}?)(?= Search for| CUDA kernel errors|$)",
        lambda match, _trial: (
            f"CUDA failed ({match[1]}): put CUDA_LAUNCH_BLOCKING=1 before the command to see in which call"
        ),
    ),
)
