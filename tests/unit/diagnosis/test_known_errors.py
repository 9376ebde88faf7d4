"""What an error's words mean. The words are torch's, CUDA's and NCCL's own, as they stand in their libraries or were
said elsewhere: none of them was heard here, where there is no GPU. Those of gloo, of the store and of DDP were provoked
with torch 2.14, as far as PROVOKED says."""

import re

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.known_errors import (
    GPU_VISIBLE,
    KNOWN_ERRORS,
    NCCL_SAYS,
    SAME_CALLS,
    SHARED_MEMORY,
    is_consequence,
    known_error,
)

WITHOUT_WORKERS = "with num_workers=0 in the DataLoader the rank fetches its batches itself, and its error shows it"
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

BAD_ADDRESS = "RuntimeError: [pair.cc:598] writev [127.0.0.1]:4711: Bad address"
SAME_DEVICE = "RuntimeError: Expected all tensors to be on the same device"
TYPES = "RuntimeError: Input type ({}) and weight type ({}) should be the same"
COUNT = "RuntimeError: Unexpected error from cudaGetDeviceCount()"

SAYINGS = {
    OOM: f"ran out of memory on cuda:0: 20.00 GiB asked, 3.50 GiB free of 79.11 GiB; {LESS_ON_GPU}",
    SHARED_OOM: (
        f"ran out of memory on cuda:1: 196.00 MiB asked, 11.50 MiB free of 47.40 GiB; {LESS_ON_GPU}; other processes "
        "use 11.50 GiB of it: other programs (`nvidia-smi` lists them)"
    ),
    "RuntimeError: CUDA error: out of memory": f"ran out of memory on the GPU; {LESS_ON_GPU}",
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.": "ran out of memory on the GPU: 2.00 GiB",
    "OutOfMemoryError: CUDA out of memory. Allocation was preempt": f"ran out of memory on the GPU; {LESS_ON_GPU}",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when": f"ran out of memory on the GPU; {LESS_ON_GPU}",
    f"OutOfMemoryError: Caught OutOfMemoryError in replica 1 on device 1.\n{SHARED_OOM}": "ran out of memory on cuda:1",
    "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": f"because the GPU's memory is full; {LESS_ON_GPU}",
    "RuntimeError: Unable to find a valid cuDNN algorithm to run convolution": "the GPU's memory is full",
    TWO: (
        "tensors on two devices, cuda:0 and cpu, met in mm: move batch and labels to the GPU; in a model, create "
        "tensors with device=inputs.device, or with register_buffer, which moves with the model"
    ),
    TWO_ANEW: "tensors on two devices, cpu and cuda:1, met in addmm: move batch and labels to the GPU",
    f"{SAME_DEVICE}, but found at least two devices, cuda:0 and cuda:1!": "devices, cuda:0 and cuda:1, met: move batch",
    "RuntimeError: Tensor on device meta is not on the expected device cpu!": "two devices, meta and cpu, met",
    TYPES.format("torch.cuda.FloatTensor", "torch.FloatTensor"): "a part of the model stayed on the CPU",
    TYPES.format("torch.FloatTensor", "torch.cuda.FloatTensor"): "received a tensor on the CPU: move the batch",
    TYPES.format("CPUBFloat16Type", "CUDABFloat16Type"): "a layer on the GPU received a tensor on the CPU",
    "RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update your GPU": (
        "the NVIDIA driver is too old for this torch: it offers CUDA 12.4; update the driver, or install"
    ),
    "RuntimeError: Found no NVIDIA driver on your system. Please check that": "finds no NVIDIA driver: install it",
    f"{COUNT}. Did you run some cuda functions before? Error 802: system not yet initialized": "nvidia-fabricmanager`",
    f"{COUNT}. Error 803: system has unsupported display driver / cuda driver combination": "was loaded: reboot",
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env": (
        "CUDA does not start, for an unknown reason: `nvidia-smi` must list the GPUs"
    ),
    "RuntimeError: No CUDA GPUs are available": f"CUDA sees no GPU: {GPU_VISIBLE}",
    "AssertionError: Torch not compiled with CUDA enabled": "this torch is built without CUDA: `pip install --force",
    "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel": "it does not see: use LOCAL_RANK, not RANK",
    "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable": "uses the GPU exclusively",
    "RuntimeError: CUDA error: no kernel image is available for execution on the device": "has no code for this GPU",
    "Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
    "Search for": "CUDA failed (an illegal memory access was encountered): put CUDA_LAUNCH_BLOCKING=1",
    DUPLICATE: "two ranks on one GPU, here ranks 1 and 0: share_gpu = true lets them share it over gloo; or take no",
    f"{SHM} (size 9637888), error: No space left on device (28)": f"NCCL finds no room in /dev/shm; {SHARED_MEMORY}",
    "NCCL WARN Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes": "NCCL finds no room in /dev/shm",
    NCCL.format("internal error", "ncclInternalError: no", "Bootstrap : no socket interface found"): (
        "NCCL finds no network interface to listen on: name one with NCCL_SOCKET_IFNAME"
    ),
    NCCL.format("x", SYSTEM, "socketPollConnect: connect to 10.0.0.2<41235> returned Connection refused"): (
        "another rank's socket refused NCCL's connection"
    ),
    NCCL.format("unhandled cuda error", UNHANDLED, "Cuda failure 'out of memory'"): "ran out of memory on the GPU; ",
    NCCL.format("unhandled cuda error", UNHANDLED, "Cuda failure 'peer access is not supported'"): (
        f"NCCL failed: ncclUnhandledCudaError (Cuda failure 'peer access is not supported'); {WITHOUT_NCCL}"
    ),
    NCCL.format("unhandled system error", SYSTEM, "Exception raised from getNCCLComm at x.cpp:1 (most recent"): (
        f"NCCL failed: ncclSystemError; {WITHOUT_NCCL}"
    ),
    NCCL.format("remote process exited or there was a network error", REMOTE, "socketProgress: Connection closed"): (
        "NCCL lost another rank: the log of the rank that ended first shows why"
    ),
    "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)": (
        f"NCCL failed in nn.DataParallel (unhandled system error); {NCCL_SAYS}; gpus_per_rank = 1 does without it"
    ),
    WATCHDOG: "NCCL timed out in allreduce after 600 s: another rank did not arrive",
    BAD_ADDRESS: "gloo cannot send or receive tensors on a GPU: take backend = 'nccl'",
    DATA.format(1, "Bus error"): f"by a bus error: /dev/shm is full; {SHARED_MEMORY}, or set num_workers = 0",
    DATA.format(1, "Killed"): "DataLoader worker was ended (Killed): memory may be short; take a smaller num_workers",
    DATA.format(1, "Segmentation fault"): "crashed (Segmentation fault) in code of the dataset or of a library; with",
    "RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly": f"an unknown reason; {WITHOUT_WORKERS}",
    "ERROR: Unexpected bus error encountered in worker. This might be": "ended by a bus error: /dev/shm is full",
    "RuntimeError: unable to write to file </torch_123_456_0>: No space left on device (28)": "no room in /dev/shm",
    "InductorError: InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config": "install g++",
}


@pytest.mark.parametrize(("words", "says"), SAYINGS.items())
def test_an_error_is_told_in_one_line_with_what_to_do(words: str, says: str) -> None:
    told = known_error(words, Trial())
    assert says in told
    assert "\n" not in told
    assert told == told.lstrip()


def test_every_case_is_tried() -> None:
    """A case that no saying above reaches, since another stands before it, would never be said."""
    patterns = [known.pattern for known in KNOWN_ERRORS]
    every = [*SAYINGS, *PROVOKED, *READ]
    reached = {next(each for each in patterns if re.search(each, " ".join(words.split()))) for words in every}
    assert sorted(reached) == sorted(patterns)


@pytest.mark.parametrize(
    "words",
    [
        "ValueError: no",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "ProtocolError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))",
        "error: unrecognized arguments: --lr-rank=0",
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


# Provoked with torch 2.14.1, mostly on two ranks over gloo, and shortened. Beside each stand a part of its explanation
# and whether the error only shows that another rank is gone or late.

UNUSED = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. You can enable unused parameter "
    "detection by passing the keyword argument `find_unused_parameters=True` to `torch.nn.parallel."
    "DistributedDataParallel`, and by \nmaking sure all `forward` function outputs participate in calculating loss. \n"
)
HINT = "\n In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print"
GLOO = "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/{}"
CRASHED = "This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting"
PRINT = (
    "CollectiveFingerPrint(SequenceNumber=0, OpType={}, TensorShape=[{}], TensorDtypes=Float, TensorDeviceTypes="
    "TensorOptions(dtype=float (default), device=cpu, layout=Strided (default), requires_grad=false (default)))"
)
NO_ENV = "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable {} expected, "
TRACEBACK = (
    "KeyError: Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    '  File "/v/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 375, in _worker_loop\n'
    "    data = fetcher.fetch(index)\n"
    '  File "/home/me/data/words.py", line 7, in __getitem__\n    raise KeyError("val")\n'
    "KeyError: 'val'\n"
)

# fmt: off
PROVOKED: dict[str, tuple[str, bool]] = {
    f"{UNUSED}Parameter indices which did not receive grad for rank 1: 2 3{HINT}": (
        "DDP received no gradient of the parameters 2, 3 of rank 1, which the loss of the step before did not use; use "
        "all outputs of forward in the loss, or set find_unused_parameters=True (accelerate: "
        "DistributedDataParallelKwargs; Trainer: ddp_find_unused_parameters; Lightning: strategy='ddp_find", False),
    f"{UNUSED}Parameters which did not receive grad for rank 0: b.bias, b.weight\nParameter indices which did not "
    f"receive grad for rank 0: 2 3{HINT}": (
        "parameters b.bias, b.weight of rank 0", False),
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your training graph has changed in this iteration, e.g., one parameter is used in first iteration, "
    "but then got unused in the second iteration. this is not compatible with static_graph set to True.\nParameter "
    f"indices which did not receive grad for rank 0: 2 3 4 5 6 7 8{HINT}": (
        "2, 3, 4, 5, 6, 7, … of rank 0, which the loss of the step before did not use; use the same parameters in each "
        "step, or leave static_graph=True out", False),
    "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: "
    "1) Use of a module parameter outside the `forward` function.\nParameter at index 1 with name a.bias has been "
    "marked as ready twice.": ("two gradients of a parameter with name a.bias in one backward", False),
    "RuntimeError: [1]: params[0] in this process with sizes [503, 32] appears not to match sizes of the same param in "
    "process 0.": ("this rank's parameter 0 of shape [503, 32] had other sizes than on rank 0", False),
    "RuntimeError: params[0] in this process with sizes [3, 4] appears not to match strides of the same param in "
    "process 0.": ("this rank's parameter 0 of shape [3, 4] had other strides than on rank 0", False),
    "RuntimeError: DDP expects same model across all ranks, but Rank 1 has 4 params, while rank 0 has inconsistent 2 "
    "params.": ("DDP found 4 parameters on rank 1 and 2 on rank 0", False),
    "what():  [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:464] op.preamble.length <= "
    "op.nbytes. 1000 vs 12. Received data size doesn't match expected size. Is there a distributed collective mismatch "
    "in your code?": (f"the ranks are out of step: gloo received 1000 bytes where it expected 12; {SAME_CALLS}", False),
    GLOO.format("unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"): (
        "another rank did not come to a collective within 4000 ms", True),
    GLOO.format("unbound_buffer.cc:129] Timed out waiting 4000ms for send operation to complete"): ("4000 ms", True),
    GLOO.format(f"pair.cc:561] Connection closed by peer [127.0.0.1]:4535. {CRASHED}"): ("another rank ended", True),
    GLOO.format(f"pair.cc:545] Read error [127.0.0.1]:49830: Connection reset by peer. {CRASHED}"): (
        "another rank ended and closed its connections: its own error is the cause", True),
    "DistNetworkError: Broken pipe": ("another rank ended and closed its connections", True),
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed "
    "out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:37766$0": (
        "before a restart (restart torchrun", True),
    "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] Connect "
    "timeout [none]": ("gloo cannot connect to another rank: it has ended, or the store still holds its address", True),
    "DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//1//cpu//0/1": (
        "rank 1 of a new group did not call new_group within 4000 ms: every rank must call it", True),
    "DistStoreError: wait timeout after 3000ms, keys: /0//cpu//0/1": (
        "rank 1 did not join the group within 3000", True),
    "DistStoreError: wait timeout after 3000ms, keys: /x": ("the ranks' store did not answer in time", True),
    "DistStoreError: Timed out after 5 seconds waiting for clients. 1/2 clients joined.": (
        "only 1 of 2 ranks joined the group: the others did not start, ended before init_process_group", True),
    "DistNetworkError: The client socket has timed out after 3000ms while trying to connect to (no-such-node, 29500)": (
        "rank 0 does not answer at no-such-node:29500", True),
    "gaierror: [Errno -2] Name or service not known": ("a host name is not known here: check MASTER_ADDR", False),
    "DistNetworkError: The server socket has failed to listen on any local network address. port: 42405, useIpv6: "
    "false, code: -98, name: EADDRINUSE, message: address already in use": (
        "port 42405 is in use by another process: end that process if it is left over, or choose", False),
    "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable "
    "to find address for: eth9": ("gloo finds no network interface eth9", False),
    f"{NO_ENV.format('RANK')}but not set": ("RANK is not set: start the script with torchrun", False),
    f"{NO_ENV.format('WORLD_SIZE')}but not set": ("WORLD_SIZE is not set", False),
    "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/context.cc:23] rank < size. 2 vs 2": (
        "rank and world size do not match (rank < size. 2 vs 2)", False),
    "ValueError: Invalid rank 2, rank should be in the interval [0, 1]": ("do not match (Invalid rank 2)", False),
    "RuntimeError: Distributed package doesn't have UCC built in": ("this torch is built without UCC", False),
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [3]], which is output 0 of Exp, is at version 1; expected version 0 instead. Hint: enable "
    "anomaly": (
        "in place ([torch.FloatTensor [3]], which is output 0 of Exp, is at version 1): write x = x + y", False),
    "SystemExit: unrecognized arguments: --local-rank=0": ("read os.environ['LOCAL_RANK'], or accept both", False),
    "a.py: error: unrecognized arguments: --lr 1 --local_rank=0": (
        "add_argument('--local-rank', '--local_rank'", False),
    "a.py: error: the following arguments are required: --local_rank": ("start with torchrun and read", False),
    "NoSuchOption: No such option '--local-rank'.": ("disagree on --local-rank: start with torchrun", False),
    "ModuleNotFoundError: No module named 'einopz'": (
        "the ranks' Python has no module einopz: install it there", False),
    "/usr/bin/python: No module named my_train": ("no module my_train", False),
    TRACEBACK: ("KeyError: 'val' (in DataLoader worker 0, at words.py:7)", False),
    "AttributeError: Can't pickle local object 'main.<locals>.<lambda>'": ("define main.<locals>.<lambda> at", False),
    'RuntimeError: Error(s) in loading state_dict for Linear:\n\tUnexpected key(s) in state_dict: "module.weight". ': (
        "save model.module.state_dict()", False),
    "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms\n Original exception: \n"
    "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation": (
        "rank 1 did not come to a barrier within 4000 ms", True),
    "RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 4000 ms": (
        "rank 1, 2 did not come to", True),
    "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
    "rank 0. Please check rank 0 logs for faulty rank.": ("a rank was late at a barrier, or ended before", True),
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
    f"{PRINT.format('ALLREDUCE', 3)}, but Rank 0 is running collective: {PRINT.format('BROADCAST', 3)}.Collectives "
    "differ in the following aspects: \tOp type: ALLREDUCEvs BROADCAST": (
        "the ranks are out of step: rank 1 called allreduce of [3], rank 0 called broadcast of [3]; "
        + SAME_CALLS, False),
    "SignalException: Process 4711 got signal: 15": ("the launcher was asked to end (SIGTERM)", True),
    "RendezvousTimeoutError": ("too few nodes came to torchrun's rendezvous", False),
    "RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.": (
        "torchrun cannot reach the store", False),
}

# Read in the sources of torch 2.8 to 2.14, Lightning 2.6, accelerate 1.15 and transformers, or in reports of others.
READ: dict[str, tuple[str, bool]] = {
    "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss returned "
    "by training_step. If this is intentional, you must enable the detection of unused parameters in DDP, either by": (
        "no gradient of some parameters, which the loss of the step before did not use; use all", False),
    "SIGTERMException": ("the launcher was asked to end (SIGTERM)", True),
    "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it. "
    "Please specify a different port": ("port 29500 is in use by another process", False),
    "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully terminating all other processes": (
        "rank 1 (pid 4711) ended with code 1, and Lightning ended the others", True),
    GLOO.format("unbound_buffer.cc:72] Application timeout caused pair closure"): ("another rank was late", True),
    "RuntimeError: Expected to mark a variable ready only once. This error is caused": (
        "two gradients of a parameter in one backward", False),
    "OSError: [Errno 98] Address already in use": ("a port is in use by another process", False),
    "ValueError: Some specified arguments are not used by the HfArgumentParser: ['--local-rank=0']": (
        "--local-rank", False),
    "AttributeError: 'DistributedDataParallel' object has no attribute 'config'": ("read model.module.config", False),
    "[W socket.cpp:1] [c10d] The IPv4 network addresses of (gpu-07, 29500) cannot be retrieved (gai error: -2 - Name "
    "or service not known).": ("no host is named gpu-07", False),
    "DistStoreError: Timed out initializing process group in store based barrier on rank 0, for key: "
    "store_based_barrier_key:1 (world_size=2, num_workers_joined=1, timeout=0:30:00 error=x)": (
        "only 1 of 2 ranks joined the group", True),
    "DistNetworkError: failed to recv, got 0 bytes": ("the ranks' store is gone", True),  # torch 2.8
    "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server": (
        "the ranks' store is gone, since rank 0 or torchrun has ended", True),
    "DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
    "store by key '0', but store->get('0') got error: Connection reset by peer": (
        "rank 0 did not send NCCL's id", True),
    "terminate called without an active exception": ("import torch.distributed.nn before init_process_group", False),
    NCCL.format("remote process exited or there was a network error", SYSTEM,
                "Call to recv from 10.0.0.2<4711> failed : Connection reset by peer"): ("NCCL lost another rank", True),
}
# fmt: on
COMMAND = Trial(launch="command", command=("torchrun", "train.py"))
LAB_SETTINGS = re.compile(
    r"share_gpu|gpus_per_rank|start_method|max_bytes|another launch|"
    r"\b(device|backend|num_workers|compile|amp|batch_size|world_size|strategy|static_graph) = "
)


@pytest.mark.parametrize("words", [*SAYINGS, *PROVOKED, *READ])
def test_a_command_s_error_is_explained_and_its_remedy_names_no_setting_of_the_lab(words: str) -> None:
    explained = known_error(words, COMMAND)
    assert not LAB_SETTINGS.search(explained)
    assert not re.search(r"[{}\n]|  ", explained)
    if words not in SAYINGS:
        says, only_follows = (PROVOKED | READ)[words]
        assert says in explained
        assert is_consequence(words) == only_follows


@pytest.mark.parametrize(
    "words",
    [
        "ConnectionResetError: [Errno 104] Connection reset by peer",  # as Python's multiprocessing says it
        "ConnectionResetError: Caught ConnectionResetError in DataLoader worker process 0.",
        "SignalException: Process 4711 got signal: 2",
        "KeyError: 'val'",
        "",
    ],
)
def test_an_error_that_may_be_the_cause_is_no_consequence(words: str) -> None:
    assert not is_consequence(words)


OF_REPLICAS = "RuntimeError: NCCL Error 1: unhandled cuda error"
BY_GLOO = "backend = 'gloo' does without NCCL"
RING, DP, ALL, SHARED = Trial(strategy="ring"), Trial(launch="dp"), Trial(primitives="measure"), Trial(share_gpu=True)


@pytest.mark.parametrize(
    ("words", "trial", "says", "not_offered"),
    [
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
    assert told.endswith(says)
    assert not_offered not in told
