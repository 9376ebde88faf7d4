"""What goes wrong on purpose: a rank that dies, hangs, or does something else than the others.

A fault is data: what happens, on which rank, in which step.
"""

import os
import signal
import threading

import torch
import torch.distributed as dist

from ddptui.config.trial import Fault
from workers.instruments.output import print_line

EXIT_CODE = 7  # any that neither Python (1, 2) nor a signal (128 and more) ends with
MISMATCHED_ELEMENTS = 7  # a size that no tensor of a model is likely to have


class Faults:
    """The faults of one rank."""

    def __init__(self, faults: tuple[Fault, ...], rank: int) -> None:
        self._faults = [fault for fault in faults if fault.rank == rank]

    def strike(self, step: int, device: torch.device) -> None:
        """Inject the faults of this step. The rank is between forward and backward."""
        for fault in self._faults:
            if fault.step == step:
                print_line(f"fault, step {step}: {fault.kind}")
                inject(fault.kind, device)

    def skips(self, step: int) -> bool:
        """Whether the rank leaves out this step's aggregation."""
        return any((fault.kind, fault.step) == ("skip", step) for fault in self._faults)


def inject(kind: str, device: torch.device) -> None:
    """Inject a fault of this kind (`skip` is the loop's). Most of them never return."""
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
        case "exit":
            os._exit(EXIT_CODE)  # without a message: neither Python's handlers nor the reporter's run
        case "raise":
            raise RuntimeError("a fault was put in here on purpose")
        case "abort":
            os.abort()  # SIGABRT, as native code ends a process
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)  # for good: nothing sends SIGCONT
        case "hang":
            threading.Event().wait()  # forever, as in a deadlock; the reporter's thread goes on with heartbeats
        case "mismatch":  # gloo aborts; NCCL compares no sizes, and may hang, until the console ends the stall
            dist.all_reduce(torch.zeros(MISMATCHED_ELEMENTS, device=device))  # one more than the others call
