"""Writes a run as Trace Event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Each repeat of a trial is a process of the trace. Each rank has a track with its steps, their phases and injected
delays, and below it as many tracks as needed for its operations, with wait and transfer shown separately. An arrow goes
from a wait to the operation of the late rank. Times are in µs since the launch, by the console's clock. If clocks were
never compared, the ranks' times are only approximate, and no waits are shown.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import msgspec

from ddptui.analysis.clocks import Clocks, clock_spread, in_console_time
from ddptui.analysis.operations import OperationKey, operation_keys, phase_spans
from ddptui.analysis.policy import is_host_time
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.report.rows import grouped
from ddptui.text.sanitize import ascii_json
from ddptui.text.words import US
from ddptui.wire.messages import Collective, Hello, Pause, Step
from ddptui.wire.phases import PARTS
from ddptui.wire.records import Launched, Message

TRACKS_A_RANK = 100  # track numbers per rank: the first for steps, the last for pauses, the others for operations

Event = dict[str, Any]


def trace(repeats: Mapping[tuple[str, int], Iterable[Message]]) -> Iterator[str]:
    """The JSON text, piece by piece. repeats: the messages of each repeat, by trial and number."""
    yield '{"displayTimeUnit":"ms","traceEvents":['  # one event at a time, since the text of a long run is large
    between = "\n"
    for process, ((trial, number), messages) in enumerate(repeats.items(), start=1):
        for event in _of_repeat(process, f"{trial}, repeat {number}", messages):
            yield between + ascii_json(msgspec.json.encode(event).decode())
            between = ",\n"
    yield "\n]}\n"


class Slice(NamedTuple):
    """A span of time on a track. about: the details that the viewer shows on a click."""

    kind: str
    track: int
    name: str
    begin_ns: int
    end_ns: int
    about: Mapping[str, object] | None = None


def _of_repeat(process: int, name: str, messages: Iterable[Message]) -> Iterator[Event]:
    clocks, found = Clocks(), defaultdict[type, list[Any]](list)
    for message in messages:
        clocks.add(message)
        if isinstance(message, Launched | Hello | Pause | Step):
            found[type(message)].append(message)
    devices = {hello.rank: hello.device for hello in found[Hello]}
    by_rank: dict[int, list[Step]] = grouped((step.rank, step) for step in found[Step])
    spread = clock_spread(clocks, by_rank)
    doubt = "" if spread is None or spread.largest_ns(by_rank) < inf else " (clocks not compared)"
    doubt = " (host time)" if any(map(is_host_time, devices.values())) else doubt
    steps = {rank: [in_console_time(step, clocks) for step in by_rank[rank]] for rank in sorted(by_rank)}
    pauses = [in_console_time(pause, clocks) for pause in found[Pause]]
    drawing = _Drawing()
    drawing.tracks = {rank * TRACKS_A_RANK: f"rank {rank}{doubt}" for rank in steps}
    drawing.add_steps(steps, pauses)
    drawing.add_operations(steps, align_steps({} if doubt else steps, pauses, devices=devices).steps)
    zero_ns = found[Launched][-1].at_ns if found[Launched] else 0
    yield from ({"pid": process} | event for event in drawing.events(name, process, zero_ns))


class _Drawing:
    """The tracks of a repeat, their slices, and arrows from one slice to another."""

    def __init__(self) -> None:
        self.tracks: dict[int, str] = {}
        self.slices: list[Slice] = []
        self.arrows: list[tuple[Slice, Slice]] = []  # from a waiting operation to that of the last rank
        self._busy_until: dict[int, list[int]] = {}  # by rank: its tracks of operations

    def add_steps(self, steps: Mapping[int, Sequence[Step]], pauses: Iterable[Pause]) -> None:
        """Draw steps with their phases and injected delays. Pauses get their own tracks, since they can cross the
        borders of steps."""
        for step in chain.from_iterable(steps.values()):
            track = step.rank * TRACKS_A_RANK
            about = {"epoch": step.epoch, "loss": step.loss, "samples": step.samples, "warm-up": step.warmup}
            self.slices.append(Slice("step", track, f"step {step.step}", step.begin_ns, step.end_ns, about))
            self.slices += [Slice("phase", track, PARTS[part], begin, end) for part, begin, end in phase_spans(step)]
            for slept in step.slept:
                name = f"delay put in at {slept.at}"
                self.slices.append(Slice("bottleneck", track, name, slept.begin_ns, slept.end_ns))
        for pause in pauses:
            track = (pause.rank + 1) * TRACKS_A_RANK - 1
            self.tracks[track] = f"rank {pause.rank}, stood still"
            self.slices.append(Slice("pause", track, "stood still", pause.begin_ns, pause.end_ns))

    def add_operations(self, steps: Mapping[int, Sequence[Step]], aligned: Sequence[AlignedStep]) -> None:
        """Draw operations. In aligned steps, also draw their transfers and the waits for the last rank to arrive."""
        own_steps = {(rank, own.step.begin_ns): own for step in aligned for rank, own in step.ranks.items()}
        drawn: dict[tuple[int, int, OperationKey], Slice] = {}
        for step in chain.from_iterable(steps.values()):
            own = own_steps.get((step.rank, step.begin_ns))
            for key, operation in zip(operation_keys(step), step.collectives, strict=True):
                shown = drawn[step.rank, step.begin_ns, key] = self._operation(step.rank, operation)
                if own and (transfer_ns := own.transfers[key]):
                    begin_ns = operation.exit_ns - transfer_ns
                    self.slices.append(Slice("transfer", shown.track, "transfer", begin_ns, operation.exit_ns))
        for together in aligned:
            begins = {rank: own.step.begin_ns for rank, own in together.ranks.items()}
            for key, needs in together.needs.items():
                for rank, needed in needs.items():
                    waiting = drawn[rank, begins[rank], key]
                    others = [drawn[other, begins[other], key] for other in needed if other != rank]
                    late = max(others, key=lambda other: other.begin_ns, default=waiting)
                    name, end_ns = f"wait for rank {late.track // TRACKS_A_RANK}", min(late.begin_ns, waiting.end_ns)
                    if end_ns > waiting.begin_ns:
                        self.slices.append(Slice("wait", waiting.track, name, waiting.begin_ns, end_ns))
                        self.arrows.append((waiting, late))

    def _operation(self, rank: int, operation: Collective) -> Slice:
        """Draw an operation on the first free track of its rank."""
        tracks = self._busy_until.setdefault(rank, [])
        lane = next((lane for lane, until in enumerate(tracks) if until <= operation.called_ns), len(tracks))
        tracks[lane:] = [operation.exit_ns, *tracks[lane + 1 :]]
        track = rank * TRACKS_A_RANK + 1 + lane
        self.tracks[track] = f"rank {rank}, operations" + (f" ({lane + 1})" if lane else "")
        about = {"bytes": operation.bytes, "number": operation.seq, "root": operation.root, "bucket": operation.bucket}
        name = operation.kind if operation.bucket is None else f"{operation.kind}, bucket {operation.bucket}"
        self.slices.append(Slice("operation", track, name, operation.enter_ns, operation.exit_ns, about))
        return self.slices[-1]

    def events(self, repeat: str, process: int, zero_ns: int) -> Iterator[Event]:
        """The events: names of the process and tracks, then all slices and arrows. Times are in µs since the launch."""
        yield {"ph": "M", "name": "process_name", "args": {"name": repeat}}
        for track, name in self.tracks.items():
            yield {"ph": "M", "name": "thread_name", "tid": track, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", "tid": track, "args": {"sort_index": track}}
        for kind, track, name, begin_ns, end_ns, about in self.slices:
            times = {"ts": (begin_ns - zero_ns) / US, "dur": (end_ns - begin_ns) / US}
            yield {"ph": "X", "name": name, "cat": kind, "tid": track} | times | ({"args": about} if about else {})
        for number, (waiting, late) in enumerate(self.arrows, start=1):
            arrow = {"name": "waits for", "cat": "wait", "id": f"{process}.{number}"}
            yield arrow | {"ph": "s", "tid": waiting.track, "ts": (waiting.begin_ns - zero_ns) / US}
            yield arrow | {"ph": "f", "bp": "e", "tid": late.track, "ts": (late.begin_ns - zero_ns) / US}
