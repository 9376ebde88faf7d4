"""A run as Trace Event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

A process is a repeat of a trial. In it each rank has a track with its steps, their phases and injected delays; below
it, as many as it takes, tracks with its operations, each with wait and transfer apart. An arrow goes from a wait to the
operation of the rank that it was for. Times are in µs since the launch, by the console's clock. Ranks whose clocks were
never compared are roughly where they were, and have no waits.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

import msgspec

from ddptui.analysis.clock_sync import Clocks, clock_spread, in_console_time
from ddptui.analysis.operations import operation_keys
from ddptui.analysis.own_work import phase_spans
from ddptui.analysis.time_source import is_host_time
from ddptui.analysis.waits import AlignedStep, align_steps
from ddptui.text.door import ascii_json
from ddptui.text.units import US
from ddptui.wire.messages import Collective, Hello, Pause, Step
from ddptui.wire.phases import PARTS
from ddptui.wire.records import Launched, Message

TRACKS_A_RANK = 100  # numbers of tracks: the steps, the operations that overlap, and as the last one the pauses

Event = dict[str, Any]


def trace(repeats: Mapping[tuple[str, int], Iterable[Message]]) -> Iterator[str]:
    """The JSON text, piece by piece. repeats: the messages of each, by trial and number."""
    yield '{"displayTimeUnit":"ms","traceEvents":['  # event by event: the text of a long run is large
    between = "\n"
    for process, ((trial, number), messages) in enumerate(repeats.items(), start=1):
        for event in _of_repeat(process, f"{trial}, repeat {number}", messages):
            yield between + ascii_json(msgspec.json.encode(event).decode())
            between = ",\n"
    yield "\n]}\n"


def _of_repeat(process: int, name: str, messages: Iterable[Message]) -> Iterator[Event]:
    steps: dict[int, list[Step]] = {}
    pauses: list[Pause] = []
    devices: dict[int, str] = {}
    zero = 0
    clocks = Clocks()
    for message in messages:
        clocks.add(message)
        if isinstance(message, Launched):
            zero = message.at_ns
        elif isinstance(message, Hello):
            devices[message.rank] = message.device
        elif isinstance(message, Pause):
            pauses.append(message)
        elif isinstance(message, Step):
            steps.setdefault(message.rank, []).append(message)
    spread = clock_spread(clocks, steps)
    doubt = "" if spread is None or spread.largest_ns(steps) < inf else " (clocks not compared)"
    doubt = " (host time)" if any(map(is_host_time, devices.values())) else doubt
    steps = {rank: [in_console_time(step, clocks) for step in rank_steps] for rank, rank_steps in steps.items()}
    pauses = [in_console_time(pause, clocks) for pause in pauses]
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
    events = _Events(process, zero)
    for rank in sorted(steps):
        events.name_track(rank * TRACKS_A_RANK, f"rank {rank}{doubt}")
        for step in steps[rank]:
            events.step(step)
    for pause in pauses:
        events.pause(pause)
    joined = align_steps({} if doubt else steps, pauses, devices=devices)
    for together in joined.steps:
        events.operations(together)
    aligned_numbers = {step.number for step in joined.steps}
    others = [step for rank in sorted(steps) for step in steps[rank] if step.step not in aligned_numbers]
    for step in others:  # other ranks lack the step, or called other operations
        for operation in step.collectives:
            events.operation(step.rank, operation, None)
    yield from events.made


class _Events:
    """Makes the events of one process."""

    def __init__(self, process: int, zero_ns: int) -> None:
        self.made: list[Event] = []
        self._process = process
        self._zero_ns = zero_ns
        self._busy_until: dict[int, list[int]] = {}  # by rank: its tracks of operations
        self._arrows = 0

    def name_track(self, track: int, name: str) -> None:
        """Name a track, and put it in the order of its number."""
        for what, value in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": track})):
            self.made.append({"ph": "M", "name": what, "pid": self._process, "tid": track, "args": value})

    def step(self, step: Step) -> None:
        """A step with its phases and its injected delays."""
        track = step.rank * TRACKS_A_RANK
        about = {"epoch": step.epoch, "loss": step.loss, "samples": step.samples, "warm-up": step.warmup}
        self._slice(f"step {step.step}", "step", track, step.begin_ns, step.end_ns, about)
        for place, begin, end in phase_spans(step):
            self._slice(PARTS[place], "phase", track, begin, end)
        for slept in step.slept:
            self._slice(f"delay put in at {slept.at}", "bottleneck", track, slept.begin_ns, slept.end_ns)

    def pause(self, pause: Pause) -> None:
        """A time in which a rank's process stood still, on a track of its own: it may begin and end within steps."""
        track = (pause.rank + 1) * TRACKS_A_RANK - 1
        self.name_track(track, f"rank {pause.rank}, stood still")
        self._slice("stood still", "pause", track, pause.begin_ns, pause.end_ns)

    def operations(self, step: AlignedStep) -> None:
        """The operations of all ranks in one step, and the rank that each waited for."""
        drawn = {}  # operations with their tracks
        for rank, rank_step in step.ranks.items():
            for key, operation in zip(operation_keys(rank_step.step), rank_step.step.collectives, strict=True):
                drawn[rank, key] = operation, self.operation(rank, operation, rank_step.transfers[key])
        for (rank, key), (operation, track) in drawn.items():
            entered = {other: step.entered_ns[key][other] for other in step.needs[key][rank] if other != rank}
            late = max(entered, key=lambda other: entered[other], default=None)
            if late is None:
                continue
            complete = min(entered[late], operation.exit_ns)
            if complete > operation.enter_ns:
                self._slice(f"wait for rank {late}", "wait", track, operation.enter_ns, complete)
                self._arrow(track, operation.enter_ns, drawn[late, key][1], entered[late])

    def operation(self, rank: int, operation: Collective, transfer_ns: int | None) -> int:
        """Adds an operation to the first free track of its rank, and returns the track."""
        tracks = self._busy_until.setdefault(rank, [])
        lane = next((lane for lane, until in enumerate(tracks) if until <= operation.called_ns), len(tracks))
        track = rank * TRACKS_A_RANK + 1 + lane
        if lane == len(tracks):
            tracks.append(0)
            self.name_track(track, f"rank {rank}, operations" + (f" ({lane + 1})" if lane else ""))
        tracks[lane] = operation.exit_ns
        about = {"bytes": operation.bytes, "number": operation.seq, "root": operation.root, "bucket": operation.bucket}
        name = operation.kind if operation.bucket is None else f"{operation.kind}, bucket {operation.bucket}"
        self._slice(name, "operation", track, operation.enter_ns, operation.exit_ns, about)
        if transfer_ns:
            self._slice("transfer", "transfer", track, operation.exit_ns - transfer_ns, operation.exit_ns)
        return track

    def _slice(self, name: str, kind: str, track: int, begin: int, end: int, about: Event | None = None) -> None:
        event = {"ph": "X", "name": name, "cat": kind, "pid": self._process, "tid": track}
        event |= {"ts": (begin - self._zero_ns) / US, "dur": (end - begin) / US}
        self.made.append(event | ({"args": about} if about else {}))

    def _arrow(self, track: int, begin: int, to_track: int, end: int) -> None:
        self._arrows += 1
        arrow = {"name": "waits for", "cat": "wait", "id": f"{self._process}.{self._arrows}", "pid": self._process}
        self.made.append(arrow | {"ph": "s", "tid": track, "ts": (begin - self._zero_ns) / US})
        self.made.append(arrow | {"ph": "f", "bp": "e", "tid": to_track, "ts": (end - self._zero_ns) / US})
