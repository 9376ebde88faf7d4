"""Injects faults: a rank dies, hangs, leaves the loop, or calls other collectives than the others.

The trial describes a fault by its kind, rank and step.
"""

import os
import signal
import threading

import torch
import torch.distributed as dist
from torch import Tensor

from ddptui.config.trial import Fault
from workers.instruments.output import print_line

EXIT_CODE = 7  # an exit code that neither Python (1, 2) nor a signal (128 and more) produces
MISMATCHED_ELEMENTS = 7  # a size that no tensor of a model is likely to have


class Faults:
    """The faults of one rank."""

    def __init__(self, faults: tuple[Fault, ...], rank: int) -> None:
        self._faults = [fault for fault in faults if fault.rank == rank]

    def strike(self, step: int, device: torch.device) -> None:
        """Inject the faults of this step. The loop calls this between forward and backward."""
        for kind in self._kinds(step):
            _announce(step, kind)
            inject(kind, device)

    def leaves(self, step: int) -> bool:
        """Whether the rank leaves the loop before this step's batch: it has no more batches, or stops early. In the
        second case, it first waits at a barrier. The loop calls this when the step begins."""
        for kind in self._kinds(step):
            if kind in ("uneven_inputs", "early_stop"):
                _announce(step, kind)
                if kind == "early_stop":
                    dist.barrier()
                return True
        return False

    def skips(self, step: int) -> bool:
        """Whether the rank skips this step's aggregation."""
        return "skip" in self._kinds(step)

    def averaged(self, step: int, tensors: list[Tensor]) -> list[Tensor]:
        """The tensors that the rank averages in this step: the given ones, unless a fault replaces or reorders them."""
        kinds = self._kinds(step)
        if "other_shape" in kinds:
            tensors = [tensors[0][:1], *tensors[1:]]
        if "wrong_order" in kinds:
            tensors = [*tensors[1::-1], *tensors[2:]]
        return tensors

    def _kinds(self, step: int) -> list[str]:
        return [fault.kind for fault in self._faults if fault.step == step]


def _announce(step: int, kind: str) -> None:
    print_line(f"fault, step {step}: {kind}")


def inject(kind: str, device: torch.device) -> None:
    """Inject a fault of this kind, except for kinds that the loop handles (see Faults). Most kinds never return."""
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is exhausted
        case "exit":
            os._exit(EXIT_CODE)  # without a message: neither exit handlers nor the reporter run
        case "raise":
            raise RuntimeError("injected by the trial's `fault`")
        case "abort":
            os.abort()  # SIGABRT, as when native code aborts
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)  # forever: nothing sends SIGCONT
        case "hang":
            threading.Event().wait()  # forever, as in a deadlock; the reporter's thread still sends heartbeats
        case "mismatch":  # gloo aborts; NCCL does not compare sizes, and may hang until the console ends the stall
            dist.all_reduce(torch.zeros(MISMATCHED_ELEMENTS, device=device))  # one call more than the other ranks
        case "lone_collective":  # a metric that the other ranks do not reduce; gloo waits for them
            dist.reduce(torch.zeros(1, device=device), dst=0)
