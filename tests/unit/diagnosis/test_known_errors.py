"""What an error's words mean. The words are torch's, CUDA's and NCCL's own, as they stand in their libraries or were
said elsewhere: none of them was heard here, where there is no GPU."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.failure import explain_failure
from ddptui.diagnosis.known_errors import (
    GPU_VISIBLE,
    KNOWN_ERRORS,
    NCCL_SAYS,
    SHARED_MEMORY,
    WITHOUT_WORKERS,
    known_error,
)
from tests.support.builders import failed

LESS_ON_GPU = "take a smaller batch_size or model, or amp = 'bf16'"
WITHOUT_NCCL = f"{NCCL_SAYS}; backend = 'gloo' does without NCCL"
AT = "/pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:93"
FREE = "GPU 0 has a total capacity of 79.11 GiB of which 3.50 GiB is free."
OURS = (
    "Including non-PyTorch memory, this process has 75.60 GiB memory in use. Of the allocated memory 74.00 GiB is "
    "allocated by PyTorch, and 1.05 GiB is reserved by PyTorch but unallocated."
)
OOM = f"OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. {FREE} {OURS}"
SHARED_OOM = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 196.00 MiB. GPU 1 has a total capacity of 47.40 GiB of "
    f"which 11.50 MiB is free. Process 58488 has 11.00 GiB memory in use. {OURS} Process 58482 has 512.00 MiB memory "
    "in use."
)
NCCL = f"DistBackendError: NCCL error in: {AT}, {{}}, NCCL version 2.28.9\n{{}}\nLast error:\n{{}}"
INVALID = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
UNHANDLED = "ncclUnhandledCudaError: Call to CUDA function failed."
SYSTEM = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. "
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
DUPLICATE = NCCL.format(
    "invalid usage (run with NCCL_DEBUG=WARN for details)",
    INVALID,
    "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device ac000",
)
WATCHDOG = (
    "[rank1]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE, NumelIn=1000, "
    "NumelOut=1000, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)
TWO = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
    "(when checking argument for argument mat2 in method wrapper_CUDA_mm)"
)
TWO_ANEW = (
    "RuntimeError: Expected all tensors to be on the same device, but got mat2 is on cpu, different from other tensors "
    "on cuda:1 (when checking argument in method wrapper_CUDA_addmm)"
)
SHM = "node:93:95 [1] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-WU88OE"
DATA = "RuntimeError: DataLoader worker (pid {}) is killed by signal: {}. "

SAYINGS = {
    OOM: f"ran out of memory on cuda:0: 20.00 GiB asked, 3.50 GiB free of 79.11 GiB; {LESS_ON_GPU}",
    SHARED_OOM: (
        f"ran out of memory on cuda:1: 196.00 MiB asked, 11.50 MiB free of 47.40 GiB; {LESS_ON_GPU}; other processes "
        "use 11.50 GiB of it: other programs (`nvidia-smi` lists them)"
    ),
    "RuntimeError: CUDA error: out of memory": f"ran out of memory on the GPU; {LESS_ON_GPU}",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.": "ran out of memory on the GPU: 2.00 GiB",
    "OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed": (
        f"ran out of memory on the GPU; {LESS_ON_GPU}"
    ),
    "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": f"because the GPU's memory is full; {LESS_ON_GPU}",
    "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution": "the GPU's memory is full",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": (
        f"ran out of memory on the GPU; {LESS_ON_GPU}"
    ),
    "torch.cuda.OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1.\nOriginal Traceback\n"
    + SHARED_OOM: ("ran out of memory on cuda:1"),
    TWO: (
        "tensors on two devices, cuda:0 and cpu, met in mm: the model creates one elsewhere than its inputs; create it "
        "with device=inputs.device, or with register_buffer, which moves with the model"
    ),
    TWO_ANEW: "tensors on two devices, cpu and cuda:1, met in addmm: the model creates one elsewhere",
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!": (
        "tensors on two devices, cuda:0 and cuda:1, met: the model"
    ),
    "RuntimeError: Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the same": (
        "a part of the model stayed on the CPU"
    ),
    "RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same": (
        "a layer on the GPU received a tensor on the CPU, which forward has created"
    ),
    "RuntimeError: Input type (CPUBFloat16Type) and weight type (CUDABFloat16Type) should be the same": (
        "a layer on the GPU received a tensor on the CPU"
    ),
    "RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them "
    "on device: cpu": "nn.DataParallel needs the whole model on cuda:0, but a parameter or buffer is on cpu: create",
    (
        "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU "
        "driver by downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
    ): "the NVIDIA driver is too old for this torch: it offers CUDA 12.4; update the driver, or install",
    "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU": (
        "CUDA finds no NVIDIA driver: install it (`nvidia-smi` must list the GPUs; docker: --gpus all)"
    ),
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized": (
        "`systemctl start nvidia-fabricmanager`"
    ),
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.": (
        "CUDA does not start, for an unknown reason: `nvidia-smi` must list the GPUs"
    ),
    "RuntimeError: No CUDA GPUs are available": f"CUDA sees no GPU: {GPU_VISIBLE}",
    "AssertionError: Torch not compiled with CUDA enabled": "this torch is built without CUDA: `pip install --force",
    "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors": (
        f"a GPU that it does not see: {GPU_VISIBLE}"
    ),
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda "
    "driver combination": "the NVIDIA driver was updated while it was loaded: reboot",
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable": (
        "another process uses the GPU exclusively"
    ),
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "has no code for this GPU",
    "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
    "Search for": "CUDA failed (an illegal memory access was encountered): put CUDA_LAUNCH_BLOCKING=1",
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
    "'spawn' start method": "CUDA does not survive a fork: take start_method = 'spawn'",
    DUPLICATE: (
        "NCCL does not allow two ranks on one GPU, here ranks 1 and 0: share_gpu = true lets them share it over gloo; "
        "or take no more ranks than GPUs"
    ),
    f"{SHM} (size 9637888), error: No space left on device (28)": f"NCCL finds no room in /dev/shm; {SHARED_MEMORY}",
    "NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)": (
        "NCCL finds no room in /dev/shm"
    ),
    NCCL.format(
        "internal error", "ncclInternalError: Internal check failed.", "Bootstrap : no socket interface found"
    ): ("NCCL finds no network interface to listen on: name one with NCCL_SOCKET_IFNAME"),
    NCCL.format("x", SYSTEM, "socketPollConnect: connect to 10.0.0.2<41235> returned Connection refused"): (
        "another rank's socket refused NCCL's connection"
    ),
    NCCL.format(
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)", UNHANDLED, "Cuda failure 'out of memory'"
    ): (f"ran out of memory on the GPU; {LESS_ON_GPU}"),
    NCCL.format("unhandled cuda error", UNHANDLED, "Cuda failure 'peer access is not supported'"): (
        f"NCCL failed: ncclUnhandledCudaError (Cuda failure 'peer access is not supported'); {WITHOUT_NCCL}"
    ),
    NCCL.format(
        "unhandled system error", SYSTEM, "Exception raised from getNCCLComm at x.cpp:1 (most recent call first)"
    ): (f"NCCL failed: ncclSystemError; {WITHOUT_NCCL}"),
    NCCL.format("remote process exited or there was a network error", REMOTE, "socketProgress: Connection closed"): (
        "NCCL lost another rank: the log of the rank that ended first shows why"
    ),
    "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)": (
        f"NCCL failed in nn.DataParallel (unhandled system error); {NCCL_SAYS}; gpus_per_rank = 1 does without it"
    ),
    WATCHDOG: "NCCL timed out in allreduce after 600 s: another rank did not arrive",
    "RuntimeError: ProcessGroupGloo does not support reduce_scatter": (
        "gloo has reduce_scatter from torch 2.8 on: take a newer torch, or leave reduce_scatter out"
    ),
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] writev [127.0.0.1]:4711: Bad address": (
        "gloo cannot send or receive tensors on a GPU: take backend = 'nccl'"
    ),
    DATA.format(123, "Bus error") + "It is possible that dataloader's workers are out of shared memory.": (
        f"a DataLoader worker was ended by a bus error: /dev/shm is full; {SHARED_MEMORY}, or set num_workers = 0"
    ),
    DATA.format(
        123, "Killed"
    ): "a DataLoader worker was ended (Killed): memory may be short; take a smaller num_workers",
    DATA.format(123, "Segmentation fault"): (
        "a DataLoader worker crashed (Segmentation fault) in code of the dataset or of a library; with num"
    ),
    "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly": (
        f"a DataLoader worker ended for an unknown reason; {WITHOUT_WORKERS}"
    ),
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).": (
        "a DataLoader worker was ended by a bus error: /dev/shm is full"
    ),
    "RuntimeError: Tensor on device meta is not on the expected device cpu!": "two devices, meta and cpu, met",
    "RuntimeError: unable to write to file </torch_123_456_0>: No space left on device (28)": (
        "a DataLoader worker finds no room in /dev/shm"
    ),
    "InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx: (None,": (
        "torch.compile finds no C++ compiler: install g++"
    ),
    "TritonMissing: Cannot find a working triton installation. Either the package is not installed or it is too old.": (
        "torch.compile finds no Triton: `pip install triton`, or set compile = false"
    ),
    "GPUTooOldForTriton: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler": (
        "Triton does not support Tesla P100-PCIE-16GB, which is too old: set compile = false"
    ),
}


@pytest.mark.parametrize("words", SAYINGS)
def test_an_error_is_told_in_one_line_with_what_to_do(words: str) -> None:
    told = known_error(words, Trial())
    assert told is not None
    assert SAYINGS[words] in told
    assert "\n" not in told
    assert told[0] == told.lstrip()[0]


def test_every_case_is_tried() -> None:
    """A case that no saying above reaches, since another stands before it, would never be said."""
    patterns = [pattern for pattern, _ in KNOWN_ERRORS]
    reached = {next(each for each in patterns if re.search(each, " ".join(words.split()))) for words in SAYINGS}
    assert sorted(reached) == sorted(patterns)


@pytest.mark.parametrize(
    "words",
    [
        "ValueError: no",
        "RuntimeError: Connection closed by peer [127.0.0.1]:1",
        "RuntimeError: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1",
        "RuntimeError: params, grads, exp_avgs must have same dtype, device, and layout (fused=True)",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "RuntimeError: connect [127.0.0.1]:4711: Connection refused",
        "FileNotFoundError: [Errno 2] No such file or directory: 'cuda'",
        "ValueError: my cache: CUDA out of memory budget exceeded",
        "RuntimeError: Input type (CUDABFloat16Type) and weight type (torch.cuda.FloatTensor) should be the same",
        "RuntimeError: my own system not yet initialized",
        "",
    ],
)
def test_what_is_not_known_keeps_its_own_words(words: str) -> None:
    assert known_error(words, Trial()) is None


BAD_ADDRESS = "RuntimeError: [pair.cc:598] writev [127.0.0.1]:4711: Bad address"
OF_REPLICAS = "RuntimeError: NCCL Error 1: unhandled cuda error"
BY_GLOO = "backend = 'gloo' does without NCCL"
RING, DP, ALL, SHARED = Trial(strategy="ring"), Trial(launch="dp"), Trial(primitives="measure"), Trial(share_gpu=True)


@pytest.mark.parametrize(
    ("words", "trial", "says", "not_offered"),
    [
        (BAD_ADDRESS, RING, "choose another strategy, or backend = 'nccl'", "operations"),
        (BAD_ADDRESS, Trial(strategy="ring", share_gpu=True), "choose another strategy", "nccl"),
        (BAD_ADDRESS, ALL, "list the others, without send_recv and isend_irecv, or backend = 'nccl'", "ring"),
        (BAD_ADDRESS, Trial(primitives="see", share_gpu=True), "without send_recv and isend_irecv", "nccl"),
        (BAD_ADDRESS, SHARED, "gloo cannot send or receive tensors on a GPU", "nccl"),
        (OF_REPLICAS, DP, "another launch does without it", "backend"),
        (OF_REPLICAS, Trial(gpus_per_rank=2), "gpus_per_rank = 1 does without it", "backend"),
        (NCCL.format("x", SYSTEM, ""), Trial(), BY_GLOO, "launch"),
        (NCCL.format("x", SYSTEM, ""), RING, NCCL_SAYS, "gloo"),
        (DUPLICATE, RING, "take no more ranks than GPUs", "share_gpu"),
        (SHARED_OOM, SHARED, "ranks that share it, or other programs", "nvidia-smi"),
        (DATA.format(1, "Aborted"), Trial(), WITHOUT_WORKERS, "memory"),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", ALL, "take a smaller max_bytes", "amp"),
    ],
)
def test_only_what_helps_a_trial_is_offered(words: str, trial: Trial, says: str, not_offered: str) -> None:
    told = known_error(words, trial)
    assert told is not None
    assert told.endswith(says)
    assert not_offered not in told


# In the place of a failure's first line


def told(**known: Any) -> list[str]:
    nothing: dict[str, Any] = {
        "trial": Trial(), "exit_code": 1, "launcher_log": "", "rank_logs": {},
        "failed": [], "silent": [], "missing": [],
    }  # fmt: skip
    return explain_failure(**(nothing | known)).splitlines()


def test_the_rank_is_named_and_its_log_follows() -> None:
    first, *rest = told(failed=[failed(1, OOM)], rank_logs={1: "Traceback\n  a line"})
    assert first == f"rank 1 ran out of memory on cuda:0: 20.00 GiB asked, 3.50 GiB free of 79.11 GiB; {LESS_ON_GPU}"
    assert rest == ["Traceback", "  a line"]


def test_an_error_of_several_lines_is_one() -> None:
    [line] = told(failed=[failed(0, DUPLICATE)])
    assert line.startswith("rank 0: NCCL does not allow two ranks on one GPU, here ranks 1 and 0: share_gpu = true")


def test_what_nccl_wrote_to_the_log_is_better_than_its_error() -> None:
    words = NCCL.format("unhandled system error (run with NCCL_DEBUG=INFO for details)", SYSTEM, "")
    assert "NCCL failed: ncclSystemError" in told(failed=[failed(0, words)])[0]
    log = f"a note\n{SHM} (size 9637888), error: No space left on device (28)\nTraceback\n"
    assert (
        told(failed=[failed(0, words)], rank_logs={0: log})[0]
        == f"rank 0: NCCL finds no room in /dev/shm; {SHARED_MEMORY}"
    )


def test_why_a_dataloaders_worker_ended_stands_in_the_log() -> None:
    words = "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly"
    assert "for an unknown reason" in told(failed=[failed(0, words)])[0]
    for log, says in (
        (f"Traceback\n{DATA.format(7, 'Killed')}\n", "ended (Killed): memory may be short"),
        ("ERROR: Unexpected bus error encountered in worker. This might be\n", "/dev/shm is full"),
    ):
        assert says in told(failed=[failed(0, words)], rank_logs={0: log})[0]
    assert told(failed=[failed(0, "ValueError: no")], rank_logs={0: log})[0] == "rank 0 ValueError: no"


def test_a_rank_that_said_nothing_is_explained_by_its_log() -> None:
    killed = {"launcher_log": "rank 1 ended with exit code -6", "silent": [1]}
    assert told(**killed)[0] == "rank 1 killed by SIGABRT"
    frames = "\n".join(f"frame #{number}: c10d::f()" for number in range(20))
    first = told(**killed, rank_logs={1: f"{WATCHDOG}\n{frames}"})[0]
    assert first.startswith("rank 1 killed by SIGABRT: NCCL timed out in allreduce after 600 s")
    alone = told(exit_code=-6, rank_logs={0: f"RuntimeError: {OOM}"}, one_process=True)[0]
    assert alone.startswith("rank 0 killed by SIGABRT: ran out of memory on cuda:0")


DRIVER = (
    "/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found "
    "version 12040). Please update your GPU driver (Triggered internally at CUDAFunctions.cpp:109.)\n"
    "  return torch._C._cuda_getDeviceCount() > 0\n"
)


def test_a_warning_in_the_log_is_not_the_cause() -> None:
    ended = {"exit_code": 7, "one_process": True}
    assert told(**ended, rank_logs={0: DRIVER})[0] == "rank 0 ended with exit code 7"
    assert "too old" in told(**ended, rank_logs={0: DRIVER + DRIVER.replace("UserWarning", "RuntimeError")})[0]


@pytest.mark.parametrize("kind", ["kill", "exit", "abort"])
def test_a_fault_that_was_put_in_is_the_cause_whatever_else_the_log_says(kind: str) -> None:
    ended = {"exit_code": 7, "one_process": True}
    log = f"RuntimeError: {OOM}\nfault, step 10: {kind}\n"
    assert told(**ended, rank_logs={0: log})[0] == "rank 0 ended with exit code 7"
    elsewhere = told(**ended, rank_logs={0: f"RuntimeError: {OOM}\nfault, step 10: skip\n"})[0]
    assert "ran out of memory" in elsewhere


def test_a_rank_that_ended_well_is_not_blamed_for_what_its_log_says() -> None:
    assert told(silent=[], exit_code=0, rank_logs={0: OOM}, one_process=True)[0] == "rank 0 ended with exit code 0"


def victims() -> Iterator[str]:
    yield WATCHDOG
    yield NCCL.format("remote process exited or there was a network error", REMOTE, "")
    yield "DistBackendError: NCCL communicator was aborted on rank 0."
    yield "DistBackendError: NCCL error in: x, socketProgress: Connection closed by remote peer node<4711>"
    yield "RuntimeError: [x.cc:81] Timed out waiting 1800000ms for recv operation to complete"


@pytest.mark.parametrize("victim", victims())
def test_who_lost_another_rank_is_not_the_cause(victim: str) -> None:
    words = [failed(0, victim, at_ms=1), failed(1, OOM, at_ms=2)]
    assert told(failed=words)[0].startswith("rank 1 ran out of memory")
    ended_first = "rank 0 ended with exit code 1\n"  # while the cause still tidied up
    assert told(failed=words, launcher_log=ended_first)[0].startswith("rank 1 ran out of memory")
    assert told(failed=words[:1], launcher_log=ended_first)[0].startswith("rank 0")
