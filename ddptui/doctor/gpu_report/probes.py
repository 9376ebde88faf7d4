"""Whether what the probe (workers/doctor/gpu.py) has tried on a GPU came out as expected. Pure."""

from collections.abc import Mapping
from typing import Any

from ddptui.doctor.gpu_report.check import Observed, together
from ddptui.doctor.gpu_report.training import MOST_TIE_ERROR_NS
from ddptui.text.units import MS, US, digits
from ddptui.text.words import count, listed

FEWEST_MARKS = 100
PUT_IN_MS, WITHIN_MS = 20.0, 2.0  # as workers/doctor/nccl_pair.py puts in; by how much the measured wait may differ


def versions_known(facts: Mapping[str, Any]) -> Observed:
    """Whether torch's CUDA sees a GPU, and NCCL is there."""
    how = "process groups take hooks" if facts["group_hooks"] else "torch's functions are wrapped (no group hooks)"
    nccl = f"NCCL {facts['nccl']} ({listed(facts['nccl_implementations'])})" if facts["nccl"] else "no NCCL"
    seen = f"{count(len(facts['gpus']), 'GPU')} of compute capability {listed(sorted(set(facts['capabilities'])))}"
    text = f"torch {facts['torch']}, CUDA {facts['cuda']}, cuDNN {facts['cudnn']}, {nccl}; {seen}; {how}"
    return Observed(bool(facts["nccl"] and facts["gpus"]), text)


def marks_inside(answer: Mapping[str, Any]) -> Observed:
    """Whether the time of each mark lies between two times of the host, give or take the error reported for it."""
    return together(_marks_of(queue, answer[queue]) for queue in ("idle", "busy"))


def _marks_of(queue: str, marks: Mapping[str, Any]) -> Observed:
    outside, number, error_ns = marks["outside"], marks["marks"], marks["error_ns"]
    text = f"{queue}: {outside} of {count(number, 'mark')} outside; error reported ±{digits(error_ns / US)} µs"
    text += f", the farthest {digits(marks['farthest_ns'] / US)} µs beyond" if outside else ""
    return Observed(outside == 0 and number >= FEWEST_MARKS and error_ns <= MOST_TIE_ERROR_NS, text)


def nothing_waits(answer: Mapping[str, Any]) -> Observed:
    """Whether torch's own check let every step of every strategy pass. answer: by strategy and precision, what it
    refused; empty: nothing."""
    waits = [f"{name}: {why}" for name, why in answer["refused"].items() if why]
    tried = count(len(answer["refused"]), "combination")
    return Observed(not waits and bool(answer["refused"]), listed(waits) or f"{tried} tried: nothing waited")


def pair_right(answer: Mapping[str, Any]) -> Observed:
    """Whether two ranks over NCCL on one GPU summed, waited and exchanged as they should."""
    late_ms, wait_ms = answer["late_ns"] / MS, answer["wait_ns"] / MS
    sums, exchanged = answer["sums_right"], answer["exchanged_right"]
    how = f"{'right' if exchanged else 'wrong'}, in {digits(answer['exchange_ns'] / MS)} ms"
    return together(
        [
            Observed(sums, "sums right" if sums else "a sum is wrong"),
            Observed(_as_put_in(late_ms), f"rank 1 came {digits(late_ms)} ms late, of {PUT_IN_MS:g} put in"),
            Observed(_as_put_in(wait_ms), f"rank 0 waited {digits(wait_ms)} ms"),
            Observed(exchanged, f"isend/irecv of 64 MB {how}"),
        ]
    )


def _as_put_in(ms: float) -> bool:
    return abs(ms - PUT_IN_MS) <= WITHIN_MS
