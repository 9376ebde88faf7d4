"""Whose times a rank's steps have: what keeps its host from working is no reason why its GPU works less."""

from collections.abc import Sequence
from itertools import chain

import msgspec
import pytest

from ddptui.analysis.repeat import outcome_of_messages
from ddptui.analysis.results import RepeatResult
from ddptui.live.monitor import RunMonitor
from ddptui.report.trace import trace as exported
from ddptui.wire.messages import Pause, Step
from ddptui.wire.records import Load, Message
from tests.support.builders import done, ended, hello, launched
from tests.support.traces import MS, all_reduce, delayed, trace, works_of

LATE_MS = 40.0  # at each fourth forward of rank 1
LATE_S = 25 * LATE_MS / 1000


def launch(
    device: str, *, others: float = 0.0, transfer_ms: float = 0.5, also: Sequence[Message] = ()
) -> list[Message]:
    """Rank 1 is late at each fourth forward, for as long as its loop's thread had no core. others: cores that other
    programs kept busy. also: messages of the ranks beside their steps."""
    works, _ = delayed(works_of(3, skew=0.0, noise=0.0), 1, "forward", lambda step: 0.0 if step % 4 else LATE_MS)
    told = trace(works, all_reduce, round(transfer_ms * MS))
    told[1] = [msgspec.structs.replace(step, queued_ns=0 if step.step % 4 else round(LATE_MS * MS)) for step in told[1]]
    steps: list[Step] = [*chain.from_iterable(zip(*told.values(), strict=True))]
    busy = Load(at_ns=steps[-1].end_ns, busy=2.0, own=2.0 - others, s=0.5, idle=0.0)
    hellos = [hello(rank, device=device.replace("N", str(rank))) for rank in told]
    return [launched(), *hellos, *also, *steps, busy, *map(done, told), ended()]


def result_of(messages: list[Message]) -> RepeatResult:
    outcome = outcome_of_messages(messages)
    assert outcome is not None
    assert outcome.result is not None
    return outcome.result


def monitor_of(messages: list[Message]) -> RunMonitor:
    """As it was before the launch ended."""
    watched = RunMonitor()
    watched.add(messages[:-3])
    watched.look(10**10)
    return watched


def test_time_without_a_core_is_no_work_of_the_cpu() -> None:
    assert result_of(launch("cpu")).culprit is None
    assert monitor_of(launch("cpu")).culprit is None


def test_time_without_a_core_is_taken_off_no_gpus_work() -> None:
    culprit = result_of(launch("cuda:N")).culprit
    assert culprit is not None
    assert (culprit.rank, culprit.phase) == (1, "forward")
    assert culprit.excess_s.estimate == pytest.approx(LATE_S, rel=0.05)
    assert monitor_of(launch("cuda:N")).culprit == 1


def test_that_a_gpus_host_had_no_core_is_not_said_to_be_why_it_is_late() -> None:
    on_cpu, on_gpu = (result_of(launch(device, others=1.0)) for device in ("cpu", "cuda:N"))
    assert on_cpu.rank_without_core == 1
    assert on_gpu.rank_without_core is None
    assert on_gpu.ranks[1].queued_s == on_cpu.ranks[1].queued_s == pytest.approx(LATE_S)


PAUSES = [Pause(rank=1, begin_ns=begin * MS, end_ns=(begin + 10) * MS) for begin in range(1000, 5000, 20)]
DEVICES = ("cpu", "cuda:N")


def test_a_gpu_goes_on_with_its_collectives_while_its_host_stands_still() -> None:
    usual, stood = (
        [result_of(launch(device, transfer_ms=20, also=also)) for device in DEVICES] for also in ((), PAUSES)
    )
    on_cpu, on_gpu = zip(usual, stood, strict=True)
    assert on_cpu[1].ranks[0].wait_s > 1.5 * on_cpu[0].ranks[0].wait_s  # type: ignore[operator]
    assert on_gpu[1] == on_gpu[0]


def test_so_it_does_where_it_is_followed() -> None:
    on_cpu, on_gpu = (
        [monitor_of(launch(device, transfer_ms=20, also=also)) for also in ((), PAUSES)] for device in DEVICES
    )
    waited = [[step.ranks[0].wait_ns for step in watched.joined] for watched in (*on_cpu, *on_gpu)]
    assert sum(waited[1]) > 1.5 * sum(waited[0])
    assert waited[3] == waited[2]


def test_so_it_does_in_an_exported_trace() -> None:
    usual, stood = ("".join(exported({("a", 1): launch("cuda:N", transfer_ms=20, also=also)})) for also in ((), PAUSES))
    events = [
        [event for event in msgspec.json.decode(text)["traceEvents"] if event.get("cat") in ("wait", "transfer")]
        for text in (usual, stood)
    ]
    assert events[1] == events[0]
    assert '"stood still"' in stood
