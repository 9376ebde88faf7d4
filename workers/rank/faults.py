"""Injects faults: a rank dies, hangs, or calls other collectives than the others.

The trial describes a fault by its kind, rank and step.
"""

import os
import signal
import threading

import torch
import torch.distributed as dist

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
        for fault in self._faults:
            if fault.step == step:
                print_line(f"fault, step {step}: {fault.kind}")
                inject(fault.kind, device)

    def skips(self, step: int) -> bool:
        """Whether the rank skips this step's aggregation."""
        return any((fault.kind, fault.step) == ("skip", step) for fault in self._faults)


def inject(kind: str, device: torch.device) -> None:
    """Inject a fault of this kind (except `skip`, which the loop handles). Most kinds never return."""
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory is exhausted
        case "exit":
            os._exit(EXIT_CODE)  # without a message: neither exit handlers nor the reporter run
        case "raise":
            raise RuntimeError("a fault was injected here on purpose")
        case "abort":
            os.abort()  # SIGABRT, as when native code aborts
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)  # forever: nothing sends SIGCONT
        case "hang":
            threading.Event().wait()  # forever, as in a deadlock; the reporter's thread still sends heartbeats
        case "mismatch":  # gloo aborts; NCCL does not compare sizes, and may hang until the console ends the stall
            dist.all_reduce(torch.zeros(MISMATCHED_ELEMENTS, device=device))  # one call more than the other ranks
