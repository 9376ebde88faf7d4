"""Whose times a rank's steps have: what keeps its host from working is no reason why its GPU works less."""

from collections.abc import Sequence
from itertools import chain

import msgspec
import pytest
from msgspec.structs import replace

from ddptui.analysis.policy import Caution
from ddptui.live.headline import headline_text, rank_states
from ddptui.live.monitor import RunMonitor
from ddptui.report.exports import trace as exported
from ddptui.report.notes import note_lines
from ddptui.report.table import text
from ddptui.wire.messages import Pause, Step
from ddptui.wire.records import Load, Message
from tests.support.builders import done, ended, hello, journal, launched, preset_of, ready, result_of, results_for, step
from tests.support.printed import csv_rows
from tests.support.traces import MS, all_reduce, delayed, trace, works_of

LATE_MS = 40.0  # at each fourth forward of rank 1
LATE_S = 25 * LATE_MS / 1000


def launch(
    device: str, *, queued: bool = True, others: float = 0.0, transfer_ms: float = 0.5, also: Sequence[Message] = ()
) -> list[Message]:
    """Rank 1 is late at each fourth forward. queued: its loop's thread had no core for as long. others: cores that
    other programs kept busy. also: messages of the ranks beside their steps."""
    late_ms = dict.fromkeys(range(0, 100, 4), LATE_MS)
    works, _ = delayed(works_of(3, skew=0.0, noise=0.0), 1, "forward", lambda step: late_ms.get(step, 0.0))
    told = trace(works, all_reduce, round(transfer_ms * MS))
    if queued:
        told[1] = [replace(step, queued_ns=round(late_ms.get(step.step, 0.0) * MS)) for step in told[1]]
    steps: list[Step] = [*chain.from_iterable(zip(*told.values(), strict=True))]
    busy = Load(at_ns=steps[-1].end_ns, busy=2.0, own=2.0 - others, s=0.5, idle=0.0)
    hellos = [hello(rank, device=device.replace("N", str(rank))) for rank in told]
    return [launched(), *hellos, *also, *steps, busy, *map(done, told), ended()]


def monitor_of(messages: list[Message]) -> RunMonitor:
    """As it was before the launch ended."""
    watched = RunMonitor()
    watched.add(messages[:-3])
    watched.look(10**10)
    return watched


def test_time_without_a_core_is_no_work_of_the_cpu_and_no_reason_of_a_gpu() -> None:
    assert result_of(launch("cpu")).culprit is None
    assert monitor_of(launch("cpu")).culprit is None
    on_cpu, on_gpu = (result_of(launch(device, others=1.0)) for device in DEVICES)
    assert (on_cpu.rank_without_core, on_gpu.rank_without_core) == (1, None)
    assert on_gpu.ranks[1].queued_s == on_cpu.ranks[1].queued_s == pytest.approx(LATE_S)


def test_time_without_a_core_is_taken_off_no_gpus_work() -> None:
    culprit = result_of(launch("cuda:N")).culprit
    assert (culprit.rank, culprit.phase) == (1, "forward")
    assert culprit.excess_s.estimate == pytest.approx(LATE_S, rel=0.05)
    assert monitor_of(launch("cuda:N")).culprit == 1


PAUSES = [Pause(rank=1, begin_ns=begin * MS, end_ns=(begin + 10) * MS) for begin in range(1000, 5000, 20)]
DEVICES = ("cpu", "cuda:N")


def test_a_gpu_goes_on_with_its_collectives_while_its_host_stands_still() -> None:
    usual, stood = (
        [result_of(launch(device, transfer_ms=20, also=also)) for device in DEVICES] for also in ((), PAUSES)
    )
    on_cpu, on_gpu = zip(usual, stood, strict=True)
    assert on_cpu[1].ranks[0].wait_s > 1.5 * on_cpu[0].ranks[0].wait_s  # type: ignore[operator]
    assert on_gpu[1] == on_gpu[0]


def test_so_it_does_in_an_exported_trace() -> None:
    usual, stood = ("".join(exported({("a", 1): launch("cuda:N", transfer_ms=20, also=also)})) for also in ((), PAUSES))
    of_calls = [
        [event for event in msgspec.json.decode(text)["traceEvents"] if event.get("cat") in ("wait", "transfer")]
        for text in (usual, stood)
    ]
    assert of_calls[1] == of_calls[0]
    assert '"stood still"' in stood


ELSEWHERE = ("mps", "xpu:N", "privateuseone:N")


@pytest.mark.parametrize("device", ["cpu", "cpu (thread, CPU stand-in)", "cuda:N", "cuda:0-1", *ELSEWHERE])
def test_where_a_device_may_be_behind_the_times_no_rank_is_said_to_be_late(device: str) -> None:
    result = result_of(launch(device, queued=False))
    assert result.phases_ms is not None
    assert (Caution.HOST_TIME in result.warnings) == (device in ELSEWHERE)
    assert Caution.CLOCKS_APART not in result.warnings
    waits = (result.culprit, result.wait_ms, result.transfer_ms, result.wait_share, result.overlap, result.what_if_s)
    ranks = [figure for rank in result.ranks for figure in (rank.wait_s, rank.wait_caused_s, rank.overlap)]
    if device in ELSEWHERE:
        assert {*waits, *ranks} == {None}
        assert result.verdict == "inconclusive"
    else:
        assert None not in (*waits, *ranks)


@pytest.mark.parametrize("device", ELSEWHERE)
def test_nor_is_it_where_it_is_followed(device: str) -> None:
    messages = launch(device, queued=False)
    watched = monitor_of(messages)
    assert (watched.culprit, watched.judgement.waits_for) == (None, {})
    assert not any(own.waits or own.wait_ns for step in watched.joined for own in step.ranks.values())
    name = device.replace("N", "0")
    assert headline_text(watched, {}, preset_of({"trial": [{"name": "a"}]}), 0) == (
        f"Phases (*) are host time: {name} may be behind; who waits is unknown. See torch.profiler"
    )
    assert set(rank_states(watched.live, watched.judgement.waits_for, 0).values()) == {"running"}


def test_so_it_is_said_of_one_process() -> None:
    alone = [launched(), hello(0, device="mps", world_size=1), ready(0), step(0, 0), done(), done(), ended()]
    preset = preset_of({"trial": [{"name": "a", "launch": "single"}]})
    said = headline_text(monitor_of(alone), {}, preset, 0)
    assert said == "Phases (*) are host time: mps may be behind. See torch.profiler"


def test_no_wait_is_exported_either() -> None:
    text = "".join(exported({("a", 1): launch("xpu:N", queued=False)}))
    events = msgspec.json.decode(text)["traceEvents"]
    assert {event.get("cat") for event in events} == {None, "step", "phase", "operation"}
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {"rank 0 (host time)", "rank 1 (host time)"} <= names


def test_times_within_a_step_are_marked_in_the_table_and_a_line_says_why() -> None:
    preset = preset_of({"repeats": 1, "trial": [{"name": name, "strategy": "all_reduce"} for name in "ab"]})
    results = results_for(preset, journal("a"), journal("b", device="mps"))
    lines = text(results, preset, 200).splitlines()
    on_cpu, on_mps = (next(line for line in lines if line.startswith(f"{name} ")) for name in "ab")
    assert " 4.00 " in on_cpu
    assert "*" not in on_cpu
    assert " 4.00 * " in on_mps
    assert " 10.00 * " in on_mps
    [line] = [line for line in lines if "host time" in line and "caution" in line]
    assert line.startswith("caution, b: phases and steps (*) are host time")
    assert "torch.profiler" in line
    waits = "b: waits are not known: times are from the host, and its devices may lag behind"
    assert waits in note_lines(results, preset)
    assert [row["host_time"] for row in csv_rows(results, preset)] == ["False", "True"]
