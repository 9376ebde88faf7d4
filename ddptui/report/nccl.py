"""What the results say of NCCL, in words: which one ran, and, if its log was written, how it connected the ranks."""

from collections.abc import Sequence

from ddptui.analysis.nccl_use import NcclUse
from ddptui.analysis.results import TrialResult
from ddptui.config.preset import Preset
from ddptui.config.strategies import STRATEGIES
from ddptui.text.words import count, listed, printable

NCCL2 = "ProcessGroupNCCL2"
# Its future orders the caller's stream after the collective (torch/csrc/distributed/c10d/nccl2/WorkNCCL.cpp), and the
# hooks call it in backward (ddp_comm_hooks/default_hooks.py, powerSGD_hook.py).
HOOKS_WAIT = (
    f"by torch's sources, its comm hooks make backward wait for each bucket under {NCCL2}, so they hide no transfer: "
    "`TORCH_DIST_USE_NCCL2=0` takes the older ProcessGroupNCCL"
)
ALGORITHMS = {
    "RING": "ring",
    "TREE": "tree",
    "COLLNET_DIRECT": "CollNet (direct)",
    "COLLNET_CHAIN": "CollNet (chain)",
    "NVLS": "NVLS",
    "NVLS_TREE": "NVLS tree",
    "PAT": "PAT",
    "SYMMETRIC": "symmetric kernels",
    "COPY_ENGINE": "copy engines",
}
PROTOCOLS = {"SIMPLE": "Simple"}  # the others are called what they are written
MOST_NAMED = 3  # transports, or choices


def describe(use: NcclUse) -> str:
    """As in "NCCL 2.28.9 (ProcessGroupNCCL), transport P2P/CUMEM, 24 channels, ring with protocol Simple"."""
    parts = [f"NCCL {use.version} ({use.implementation})"]
    if use.transports:
        parts.append(f"transport{'s' * (len(use.transports) > 1)} {listed(use.transports, MOST_NAMED)}")
    parts += [] if use.channels is None else [count(use.channels, "channel")]
    if use.algorithms:
        first, *others = map(_choice, use.algorithms[:MOST_NAMED])
        parts.append(f"mostly {first}, else {listed(others)}" if others else first)
    return printable(", ".join(parts))


def _choice(word: str) -> str:
    """RING/SIMPLE: ring with protocol Simple."""
    algorithm, _, protocol = word.partition("/")
    name = ALGORITHMS.get(algorithm, algorithm)
    return f"{name} with protocol {PROTOCOLS.get(protocol, protocol)}" if protocol else name


def waiting_hooks(trials: Sequence[TrialResult], preset: Preset) -> list[str]:
    """The trials whose comm hook waits in backward."""
    hooked = {trial.name for trial in preset.trials if STRATEGIES[trial.strategy or "none"].comm_hook}
    nccl = {trial.name: trial.repeats[-1].nccl for trial in trials if trial.repeats}
    return [name for name, use in nccl.items() if name in hooked and use and use.implementation == NCCL2]
