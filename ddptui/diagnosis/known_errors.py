"""Explains errors of torch, CUDA, NCCL and the libraries on top of torch in one line each, with a remedy. Pure.

Patterns match the messages of torch 2.8 to 2.15, NCCL 2.19 to 2.28, Lightning 2, accelerate 1 and transformers 4 and 5.
To add an error, add an entry to KNOWN_ERRORS.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from ddptui.config.checks import NO_SENDING, can_share_gpu, needs_point_to_point
from ddptui.config.trial import Trial
from ddptui.diagnosis.memory import gpu_memory_remedy, gpu_out_of_memory
from ddptui.text.words import OLDER, WITH_CUDA

SHARED_MEMORY = (
    "delete what dead runs have left there (`df -h /dev/shm`), or make it larger (docker: --shm-size=8g, or --ipc=host)"
)
NCCL_SAYS = "put NCCL_DEBUG=INFO before the command for details"
GPU_VISIBLE = "`nvidia-smi` must list one, and CUDA_VISIBLE_DEVICES must not hide it"
SAME_CALLS = "all ranks must make the same calls, with the same shapes, in the same order"
SEE_THE_ERROR = "with num_workers=0 in the DataLoader the rank fetches its batches itself, and its error shows it"
ITS_END = "its own error is the cause"
MOST_PARAMETERS = 6  # parameters listed in an explanation
LONGEST_ERROR = 200  # characters of a DataLoader worker's own error

# Remedies for one of ddptui's own trials, and for a watched command, by the name that explanations use in braces.
REMEDIES = {
    "on_cpu": ("take device = 'cpu'", "train on the CPU"),
    "without_nccl": ("backend = 'gloo' does without NCCL", "init_process_group('gloo') does without NCCL"),
    "without_replicas": ("gpus_per_rank = 1 does without it", "DistributedDataParallel does without it"),
    "by_nccl": ("take backend = 'nccl'", "take init_process_group('nccl'), or move the tensors to the CPU before"),
    "no_compile": ("set compile = false", "leave torch.compile out"),
    "no_workers": ("set num_workers = 0", "create the DataLoader with num_workers=0"),
    "fewer_workers": ("take a smaller num_workers, or 0", "give the DataLoader fewer workers"),
    "free_port": (
        "start it again",
        "end that process if it is left over, or choose another port (torchrun --master-port, or --standalone on one "
        "host; MASTER_PORT; accelerate --main_process_port)",
    ),
}

Explanation = Callable[["re.Match[str]", Trial], str]


class Known(NamedTuple):
    """An error that is known by the words of its message."""

    pattern: str
    # A template with names of REMEDIES and of the pattern's groups in braces, or a function that returns the text.
    explanation: str | Explanation
    is_consequence: bool = False  # the error only shows that another rank is gone or late


def known_error(error: str, trial: Trial) -> str | None:
    """The explanation of an error as one line, with a remedy that suits the trial. None: the error is not known."""
    if (found := _find(error)) is None:
        return None
    known, match = found
    if callable(known.explanation):
        return known.explanation(match, trial)
    return _filled(known.explanation, trial, **match.groupdict(""))


def is_consequence(error: str) -> bool:
    """Whether an error only shows that another rank is gone or late, as gloo, NCCL, the store or a launcher say it. A
    connection that Python's multiprocessing lost is none: its other end is a process of the same rank."""
    found = _find(error)
    return found is not None and found[0].is_consequence


def _find(error: str) -> tuple[Known, "re.Match[str]"] | None:
    text = " ".join(error.split())
    return next(((known, match) for known in KNOWN_ERRORS if (match := re.search(known.pattern, text))), None)


def _filled(template: str, trial: Trial, **groups: str) -> str:
    is_command = trial.kind == "command"
    return template.format_map({name: texts[is_command] for name, texts in REMEDIES.items()} | groups)


def _two_devices(match: "re.Match[str]", _trial: Trial) -> str:
    # "… cuda:0 and cpu! (when checking argument for argument mat2 in method wrapper_CUDA_mm)", or "… mat2 is on cpu,
    # different from other tensors on cuda:0 (when checking argument in method wrapper_CUDA_mm)"
    call = re.search(r"in method wrapper_(?:CUDA_+)?(\w+)", match.string)
    where = f" in {call[1]}" if call else ""
    return (
        f"tensors on two devices, {match['one']} and {match['other']}, met{where}: move batch and labels to the GPU; "
        "in a model, create tensors with device=inputs.device, or with register_buffer, which moves with the model"
    )


def _too_old(match: "re.Match[str]", _trial: Trial) -> str:
    version = int(match[1])  # 12040 means CUDA 12.4
    return (
        f"the NVIDIA driver is too old for this torch: it offers CUDA {version // 1000}.{version % 1000 // 10}; {OLDER}"
    )


def _same_gpu(match: "re.Match[str]", trial: Trial) -> str:
    remedy = "take no more ranks than GPUs"
    if trial.kind == "command":
        remedy = f"call torch.cuda.set_device(LOCAL_RANK) in each rank, and {remedy}"
    elif can_share_gpu(trial):
        remedy = f"share_gpu = true lets them share it over gloo; or {remedy}"
    return f"NCCL does not allow two ranks on one GPU, here ranks {match[1]} and {match[2]}: {remedy}"


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
    without = "" if needs_point_to_point(trial) else _filled("; {without_nccl}", trial)
    return f"NCCL failed: {kind[0] if kind else 'unknown error'}{why}; {NCCL_SAYS}{without}"


def _nccl_of_replicas(match: "re.Match[str]", trial: Trial) -> str:
    # nn.DataParallel copies its replicas by NCCL, whatever backend the process group has.
    without = "another launch does without it" if trial.launch == "dp" else _filled("{without_replicas}", trial)
    return f"NCCL failed in nn.DataParallel ({match[1]}); {NCCL_SAYS}; {without}"


def _unused(match: "re.Match[str]", _trial: Trial) -> str:
    # "… for rank 1: 2 3 In addition, …"; with TORCH_DISTRIBUTED_DEBUG, a list of names stands before: "a.bias, b.bias".
    found = re.search(r"not receive grad for rank (\d+): ?(.+?) ?(?:Parameter indices|In addition|$)", match.string)
    listed = re.split(r",? +", found[2]) if found else []
    some = listed[:MOST_PARAMETERS] + ["…"] * (len(listed) > MOST_PARAMETERS)
    which = f"the parameters {', '.join(some)} of rank {found[1]}" if found else "some parameters"
    remedy = "use all outputs of forward in the loss"
    if "static_graph" in match.string:
        remedy = "use the same parameters in each step, or leave static_graph=True out"
    elif "`find_unused_parameters=True` is enabled" not in match.string:
        remedy += (
            ", or set find_unused_parameters=True (accelerate: DistributedDataParallelKwargs; Trainer: "
            "ddp_find_unused_parameters; Lightning: strategy='ddp_find_unused_parameters_true')"
        )
    finding = f"DDP received no gradient of {which}, which the loss of the step before did not use"
    return f"{finding}; {remedy}"


def _other_collective(match: "re.Match[str]", _trial: Trial) -> str:
    calls = []
    for rank, call in re.findall(r"Rank (\d+) is running collective: (.+?)(?=, but Rank|$)", match.string):
        kind, shape = (re.search(pattern, call) for pattern in (r"OpType=(\w+)", r"TensorShape=(\[[^]]*\])"))
        of = f" of {shape[1]}" if shape else ""
        calls.append(f"rank {rank} called {kind[1].lower() if kind else 'a collective'}{of}")
    return f"the ranks are out of step: {', '.join(calls)}; {SAME_CALLS}"


def _in_a_worker(match: "re.Match[str]", _trial: Trial) -> str:
    # The message holds the worker's traceback: the error stands at its end, the user's code in its innermost own line.
    own = re.search(rf".*\b({match['kind']}: .*)", match.string[match.end() :])
    lines = re.findall(r'File "([^"]+)", line (\d+), in', match.string)
    users = [line for line in lines if not re.search(r"(?:site|dist)-packages/|/lib/python3", line[0])] or lines
    where = f", at {users[-1][0].rpartition('/')[2]}:{users[-1][1]}" if users else ""
    return f"{own[1].strip()[:LONGEST_ERROR] if own else match['kind']} (in DataLoader worker {match['worker']}{where})"


def _port_in_use(match: "re.Match[str]", trial: Trial) -> str:
    port = next((f"port {port}" for port in match.groups() if port), "a port")
    return f"{port} is in use by another process: {_filled('{free_port}', trial)}, or end that process"


# The first match counts, so special cases stand above general ones.
# fmt: off
KNOWN_ERRORS: tuple[Known, ...] = (
    Known(r"Duplicate GPU detected ?: rank (\d+) and rank (\d+)", _same_gpu),
    Known(r"Error(?: while \w+ shared memory segment|: failed to (?:create|extend)(?: shared memory file)?) \S*nccl",
          f"NCCL finds no room in /dev/shm; {SHARED_MEMORY}"),
    Known(r"(?:no socket interface found|NET/Socket ?: (?:No usable listening|no) interface found)",
          "NCCL finds no network interface to listen on: name one with NCCL_SOCKET_IFNAME (`ip addr` lists them; on "
          "one host use lo)"),
    Known(r"(?i)nccl.{0,400}connection refused",
          "another rank's socket refused NCCL's connection: that rank has ended, or a firewall blocks it; set "
          "NCCL_SOCKET_IFNAME to choose another network interface", is_consequence=True),
    Known(r"OutOfMemoryError: (?:CUDA|HIP) (?:ran )?out of memory|(?:CUDA|HIP) out of memory\W+Tried to allocate|"
          r"(?:CUDA|HIP) error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|Cuda failure.{0,4}'out of memory'",
          gpu_out_of_memory),
    Known(r"CUDNN_STATUS_NOT_INITIALIZED|Unable to find a valid cuDNN algorithm",
          lambda _match, trial: f"cuDNN failed, usually because the GPU's memory is full; {gpu_memory_remedy(trial)}"),
    Known(r"Watchdog caught collective operation timeout|NCCL operation timed out|"
          r"Some NCCL operations have failed or timed out", _timeout, is_consequence=True),
    Known(r"ncclRemoteError|remote process exited or there was a network error|NCCL communicator was aborted|"
          r"onnection (?:closed|reset) by remote peer|failed : (?:Connection reset by peer|Broken pipe)",
          "NCCL lost another rank: the log of the rank that ended first shows why", is_consequence=True),
    Known(r"ncclUniqueId.{0,200}(?:store->get|got error)",
          "rank 0 did not send NCCL's id: it ended, or came too late, before the first collective; its log shows why",
          is_consequence=True),
    Known(r"NCCL error in|NCCL error:|ncclUnhandledCudaError|ncclSystemError|ncclInternalError", _nccl),
    Known(r"NCCL Error \d+: ([\w -]+\w)", _nccl_of_replicas),
    Known(r"Expected all tensors to be on the same device, but found at least two devices, (?P<one>\S+) and "
          r"(?P<other>\S+?)!", _two_devices),
    Known(r"Expected all tensors to be on the same device, but got \S+ is on (?P<one>[\w:]+), different from other "
          r"tensors on (?P<other>[\w:]+)", _two_devices),
    Known(r"Tensor on device (?P<one>[\w:]+) is not on the expected device (?P<other>[\w:]+)!", _two_devices),
    Known(r"Input type \((?:torch\.cuda\.|CUDA)\w+\) and weight type \((?:torch\.|CPU)\w+\) should be the same",
          "a part of the model stayed on the CPU: .to(device) only moves layers that are attributes, or in "
          "nn.ModuleList"),
    Known(r"Input type \((?:torch\.|CPU)\w+\) and weight type \((?:torch\.cuda\.|CUDA)\w+\) should be the same",
          "a layer on the GPU received a tensor on the CPU: move the batch (x = x.to(device)); if forward has created "
          "the tensor, create it with device=inputs.device"),
    Known(r"NVIDIA driver on your system is too old \(found version (\d+)\)", _too_old),
    Known(r"Found no NVIDIA driver on your system",
          "CUDA finds no NVIDIA driver: install it (`nvidia-smi` must list the GPUs; docker: --gpus all), or {on_cpu}"),
    Known(r"(?i)driver/library version mismatch|unsupported display driver / cuda driver combination",
          "the NVIDIA driver was updated while it was loaded: reboot, or reload its kernel module"),
    Known(r"(?:Error 802|CUDA error): system not yet initialized",
          "CUDA waits for the fabric manager, which GPUs connected by NVSwitch need, in the driver's version: "
          "`systemctl start nvidia-fabricmanager`"),
    Known(r"CUDA unknown error - ",
          "CUDA does not start, for an unknown reason: `nvidia-smi` must list the GPUs; after a suspend, reload the "
          "kernel module nvidia_uvm, or reboot; in a container, /dev/nvidia-uvm must exist"),
    Known(r"No CUDA GPUs are available|no CUDA-capable device is detected", f"CUDA sees no GPU: {GPU_VISIBLE}"),
    Known(r"CUDA error: invalid device ordinal",
          "a rank asked for a GPU with a number that it does not see: use LOCAL_RANK, not RANK, and no more ranks than "
          "GPUs on each host"),
    Known(r"CUDA-capable device\(s\) is/are busy or unavailable",
          "another process uses the GPU exclusively: end that process, or set the GPU's compute mode to default "
          "(`nvidia-smi -c 0`)"),
    Known(r"no kernel image is available for execution on the device",
          "this torch has no code for this GPU: install a torch that supports it (pytorch.org/get-started)"),
    Known(r"Torch not compiled with CUDA enabled", f"this torch is built without CUDA: {WITH_CUDA}, or {{on_cpu}}"),
    Known(r"(?:write|read)v? \[[^]]*\]:\d+: Bad address",
          f"{NO_SENDING}: {{by_nccl}}, or choose what does not send from rank to rank"),
    Known(r"Unexpected bus error encountered in worker|DataLoader worker \(pid \d+\) is killed by signal: Bus error",
          f"a DataLoader worker was ended by a bus error: /dev/shm is full; {SHARED_MEMORY}, or {{no_workers}}"),
    Known(r"DataLoader worker \(pid \d+\) is killed by signal: Killed",
          "a DataLoader worker was ended (Killed): memory may be short; {fewer_workers}"),
    Known(r"DataLoader worker \(pid \d+\) is killed by signal: (?P<how>[\w ]*\w)",
          f"a DataLoader worker crashed ({{how}}) in code of the dataset or of a library; {SEE_THE_ERROR}"),
    Known(r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly",
          f"a DataLoader worker ended for an unknown reason; {SEE_THE_ERROR}"),
    Known(r"unable to (?:write to|allocate shared memory\(shm\) for|resize) file </torch_",
          f"a DataLoader worker finds no room in /dev/shm; {SHARED_MEMORY}, or {{no_workers}}"),
    Known(r"No working C\+\+ compiler found|Compiler: \S+ is not found",
          "torch.compile finds no C++ compiler: install g++, or name another with CXX, or {no_compile}"),
    Known(r"CUDA error: (?P<why>.{1,80}?)(?= Search for| CUDA kernel errors|$)",
          "CUDA failed ({why}): put CUDA_LAUNCH_BLOCKING=1 before the command to see in which call"),
    # Models and gradients
    Known(r"Expected to have finished reduction in the prior iteration|"
          r"parameters that were not used in producing the loss returned by training_step", _unused),
    Known(r"Expected to mark a variable ready only once(?:.+Parameter at index \d+(?P<name> with name \S+))?",
          "DDP received two gradients of a parameter{name} in one backward: checkpoint activations with "
          "use_reentrant=False, call the model only through DDP, or set static_graph=True"),
    Known(r"params\[(?P<index>\d+)\] in this process with sizes (?P<shape>\[[\d, ]*\]) appears not to match "
          r"(?P<what>sizes|strides)",
          "the models differ: when DDP was made, this rank's parameter {index} of shape {shape} had other {what} than "
          "on rank 0; build the model in the same way on every rank, not from sizes that each counts in its own data"),
    Known(r"Rank (?P<rank>\d+) has (?P<count>\d+) params, while rank (?P<other>\d+) has inconsistent (?P<others>\d+)",
          "the models differ: DDP found {count} parameters on rank {rank} and {others} on rank {other}; build and "
          "freeze the same layers on every rank"),
    Known(r"modified by an inplace operation: (?P<tensor>[^;]{1,120})",
          "backward needs a tensor that was changed in place ({tensor}): write x = x + y, not x += y "
          "(torch.autograd.set_detect_anomaly(True) shows the line); if a DDP model runs twice before backward, set "
          "broadcast_buffers=False"),
    Known(r"'(?P<wrapper>DistributedDataParallel|FullyShardedDataParallel)' object has no attribute '(?P<name>\w+)'",
          "{wrapper} wraps the model: read model.module.{name} (accelerate: accelerator.unwrap_model(model).{name})"),
    Known(r"(?:Missing|Unexpected) key\(s\) in state_dict: \"module\.",
          "DDP puts `module.` before each name: save model.module.state_dict() and load it into model.module; from a "
          "file with the prefix, take it off (torch.nn.modules.utils.consume_prefix_in_state_dict_if_present)"),
    # Collectives
    Known(r"Detected mismatch between collectives on ranks", _other_collective),
    Known(r"op\.preamble\.length <= \S+.{0,60}? (?P<got>\d+) vs (?P<room>\d+)",
          f"the ranks are out of step: gloo received {{got}} bytes where it expected {{room}}; {SAME_CALLS} "
          "(TORCH_DISTRIBUTED_DEBUG=DETAIL names the first call that differs)"),
    Known(r"Ranks? (?P<ranks>\d[\d, ]*) failed to pass monitoredBarrier in (?P<ms>\d+) ms",
          "rank {ranks} did not come to a barrier within {ms} ms: its log and stack show where it was",
          is_consequence=True),
    Known(r"reached monitoredBarrier, but received errors while waiting for send/recv from rank 0|"
          r"timed out in monitoredBarrier", "a rank was late at a barrier, or ended before: its log and stack show why",
          is_consequence=True),
    Known(r"Application timeout caused pair closure",
          "an earlier collective of this rank timed out: another rank was late, whose log and stack show where it was",
          is_consequence=True),
    Known(r"\[rank: (?P<rank>\d+)\] Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)",
          f"rank {{rank}} (pid {{pid}}) ended with code {{code}}, and Lightning ended the others: {ITS_END}",
          is_consequence=True),
    Known(r"Gloo connectFullMesh failed",
          "gloo cannot connect to another rank: it has ended, or the store still holds its address from before a "
          "restart (restart torchrun on all nodes); across hosts, GLOO_SOCKET_IFNAME chooses the network interface",
          is_consequence=True),
    Known(r"Timed out waiting (?P<ms>\d+)ms for (?:send|recv)",
          "another rank did not come to a collective within {ms} ms, the time limit of init_process_group: its log and "
          "stack show where it was", is_consequence=True),
    Known(r"Connection closed by peer \[|Socket closed \[|Remote peer closed|"
          r"(?:(?:Runtime|Dist\w+)Error|\]:\d+|got error|with error|\)): (?:Connection reset by peer|Broken pipe)",
          f"another rank ended and closed its connections: {ITS_END}", is_consequence=True),
    # Start of a group
    Known(r"port: (\d+), .{0,60}EADDRINUSE|communication on port `(\d+)`, but another process|"
          r"EADDRINUSE|\[Errno (?:48|98)\] Address already in use", _port_in_use),
    Known(r"network addresses of \((?P<host>[^,()]+), \d+\) cannot be retrieved",
          "no host is named {host}: give MASTER_ADDR or --rdzv-endpoint a name or address that every host knows"),
    Known(r"gaierror: \[Errno -?\d+\]",
          "a host name is not known here: check MASTER_ADDR, --rdzv-endpoint and /etc/hosts"),
    Known(r"client socket has (?:timed out after \S+ while trying to connect to|failed to connect to any network "
          r"address of) \((?P<host>[^,()]+), (?P<port>\d+)\)",
          "rank 0 does not answer at {host}:{port}: it did not start or has ended, or MASTER_ADDR and MASTER_PORT "
          "are not those of its host", is_consequence=True),
    Known(r"(?P<joined>\d+)/(?P<ranks>\d+) clients joined|Timed out initializing process group in store based "
          r"barrier.+?world_size=(?P<of>\d+), (?:worker_count|num_workers_joined)=(?P<count>\d+)",
          "only {joined}{count} of {ranks}{of} ranks joined the group: the others did not start, ended before "
          "init_process_group, or have another MASTER_ADDR or MASTER_PORT", is_consequence=True),
    Known(r"(?i)wait timeout after (?P<ms>\d+)ms, keys: (?:\S*/)?/0//cpu//0/(?P<rank>\d+)",
          "rank {rank} did not join the group within {ms} ms: its log and stack show where it was",
          is_consequence=True),
    Known(r"(?i)wait timeout after (?P<ms>\d+)ms, keys: \S*//cpu//0/(?P<rank>\d+)",
          "rank {rank} of a new group did not call new_group within {ms} ms: every rank must call it, in the same "
          "order, also one that is no member", is_consequence=True),
    Known(r"Dist\w+Error: (?:wait timeout after|Wait timeout|Socket Timeout)",
          "the ranks' store did not answer in time: another rank was late, or ended", is_consequence=True),
    Known(r"(?i)failed to recv, got 0 bytes",
          f"the ranks' store is gone, since rank 0 or torchrun has ended: {ITS_END}", is_consequence=True),
    Known(r"RendezvousTimeoutError",
          "too few nodes came to torchrun's rendezvous: start it on all --nnodes, with the same --rdzv-id and "
          "--rdzv-endpoint"),
    Known(r"The connection to the C10d store has failed",
          "torchrun cannot reach the store: --rdzv-endpoint must name the first node and a free port that the others "
          "can reach"),
    Known(r"Unable to find address for:? (?P<name>[\w.-]+)",
          "gloo finds no network interface {name}: GLOO_SOCKET_IFNAME must name one that `ip addr` lists"),
    Known(r"environment variable (?P<name>\w+) expected, but not set",
          "{name} is not set: start the script with torchrun, which sets it"),
    Known(r"(?P<what>Invalid rank -?\d+|rank < size\. \d+ vs \d+|rank must be in \[0, \d+)",
          "rank and world size do not match ({what}): ranks count from 0 to WORLD_SIZE - 1, and torchrun sets both"),
    Known(r"package doesn't have (?P<name>\w+) built in",
          "this torch is built without {name}: install one for your GPUs (pytorch.org/get-started), or take gloo"),
    # The script and its environment
    Known(r"(?:unrecognized arguments|[Nn]o such option|HfArgumentParser|arguments are required|line flag).{0,300}"
          r"[-']local[-_]rank",
          "launcher and script disagree on --local-rank: start with torchrun and read os.environ['LOCAL_RANK'], or "
          "accept both spellings: add_argument('--local-rank', '--local_rank', type=int)"),
    Known(r"No module named '?(?P<name>[\w.]+)",
          "the ranks' Python has no module {name}: install it there (`which python torchrun` must name one "
          "environment), or put your own code's folder in PYTHONPATH"),
    Known(r"Caught (?P<kind>\w+) in DataLoader worker process (?P<worker>\d+)", _in_a_worker),
    Known(r"Can't (?:pickle|get) local object '?(?P<name>[\w.<>]+)",
          "a process started by 'spawn' must import what it receives: define {name} at the top of a module"),
    Known(r"terminate called without an active exception",
          "torch aborted at its end: a thread of a process group still ran; import torch.distributed.nn before "
          "init_process_group, and call destroy_process_group at the end"),
    Known(r"SignalException: Process \d+ got signal: (?:15|SIGTERM|Signals\.SIGTERM)|SIGTERMException",
          "the launcher was asked to end (SIGTERM), by a scheduler, another node or a user", is_consequence=True),
)
# fmt: on
