"""A GPU that is not there: its clock runs by its own oscillator, its work waits in queues, its events are as torch's.
Time passes only when the host looks at the clock, calls the driver, or sleeps. Another process may have the GPU half of
the time; the works of NCCL's collectives are as the driver and torch make them."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from workers.instruments import cuda_clock, page_locked

CALL_NS = 2_000  # what any call into the driver takes the host
START_NS = 5_000_000_000_000
WOBBLE_NS = 30_000_000_000


class Stream:
    """Its work is done in order; free_ns: when the last of it is over, on the host's clock, which the device never
    sees."""

    def __init__(self, gpu: "Gpu") -> None:
        self.gpu = gpu
        self.free_ns = 0.0

    def push(self, work_ns: float) -> None:
        begin_ns = max(self.free_ns, self.gpu.now_ns + self.gpu.launch_ns)
        self.free_ns = self.gpu.end_of(begin_ns, work_ns)

    def wait_until(self, moment_ns: float) -> None:
        """What is queued from now on begins no sooner. The host goes on."""
        self.free_ns = max(self.free_ns, moment_ns)

    def record_event(self) -> "Event":
        event: Event = torch.cuda.Event(enable_timing=True)  # type: ignore[assignment]
        event.record(self)
        return event

    def wait_event(self, event: "Event") -> None:
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        self.gpu.synchronised += 1


class Event:
    """What torch.cuda.Event does, and refuses, of what is used of it."""

    gpu: "Gpu"

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.over_ns: float | None = None

    def __del__(self) -> None:
        self.gpu.given_back += 1

    def record(self, stream: Stream) -> None:
        if self.gpu.is_capturing():
            self.gpu.spoil("an event is recorded among what is captured, and asked for later")
        self.gpu.call("record")
        stream.push(0)
        self.over_ns = stream.free_ns

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self.gpu.current_stream()).wait_until(self.over_ns)

    def query(self) -> bool:
        self.gpu.check_captures("query")
        self.gpu.call("query")
        return self.over_ns <= self.gpu.now_ns

    def synchronize(self) -> None:
        """The host waits, unless nothing was recorded."""
        self.gpu.synchronised += 1
        self.gpu.pass_(max(0.0, (self.over_ns or 0) - self.gpu.now_ns))

    def elapsed_time(self, later: "Event") -> float:
        """In ms, as a float32; half a microsecond is the resolution. torch asks for both events first."""
        self.gpu.call("elapsed_time")
        if not (self.query() and later.query()):
            raise RuntimeError("CUDA error: device not ready")
        ticks = self.gpu.device_ns(later.over_ns) - self.gpu.device_ns(self.over_ns)
        assert ticks >= 0, "from a later to an earlier event"
        return float(np.float32(round(ticks / 500) * 500 / 1e6))


class Work:
    """A collective of NCCL's on a stream of its own, behind what the caller's stream has to do. It takes length_ns."""

    def __init__(self, gpu: "Gpu", length_ns: float) -> None:
        self.gpu = gpu
        gpu.nccl.wait_until(gpu.current_stream().free_ns)
        gpu.nccl.push(length_ns)
        self.end_ns = gpu.nccl.free_ns

    def wait(self) -> None:
        """The current stream waits, and the host goes on."""
        self.gpu.call("wait")
        self.gpu.current_stream().wait_until(self.end_ns)

    def get_future(self) -> "Work":
        """In torch's newer implementation of NCCL, nccl2, this waits."""
        if self.gpu.is_nccl2:
            self.wait()
        return self

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        """Call back in a stream of torch's own, which waits for the collective."""
        with self.gpu.on(Stream(self.gpu)) as stream:
            stream.wait_until(self.end_ns)
            callback(self)


class Gpu:
    """ppm: how much faster its oscillator is, and wobble_ppm: how far that goes up and down within WOBBLE_NS.
    launch_ns: from a record on an idle stream until the device is there. slice_ns: how long another process has the
    GPU, and then this one, in turn; None: nobody shares it. is_nccl2: which implementation of NCCL torch has."""

    def __init__(self) -> None:
        self.ppm = 60.0
        self.wobble_ppm = 0.0
        self.launch_ns = 5_000.0
        self.slice_ns: float | None = None
        self.is_nccl2 = True
        self.capturing = 0  # the thread whose calls are captured for a graph; 0: none
        self.given_back = 0  # events
        self.spoiled: list[str] = []  # captures, each by the call that has ended it
        self.now_ns = START_NS
        self.slept_ns = 0  # by the host, on purpose
        self.synchronised = 0
        self.calls = Counter[str]()  # into the driver
        self.main = Stream(self)
        self.nccl = Stream(self)
        self.side: Stream | None = None
        self.current = threading.local()

    def pass_(self, ns: float) -> None:
        self.now_ns += round(ns)

    def call(self, what: str) -> None:
        self.calls[what] += 1
        self.pass_(CALL_NS)

    def end_of(self, begin_ns: float, work_ns: float) -> float:
        """When work is over that may begin then."""
        if self.slice_ns is None:
            return begin_ns + work_ns
        turns, in_turn_ns = divmod(begin_ns - START_NS, 2 * self.slice_ns)
        done_ns = max(0.0, in_turn_ns - self.slice_ns)  # of this process's slice, the second of a turn
        more_turns, last_ns = divmod(done_ns + work_ns, self.slice_ns)
        return START_NS + (turns + more_turns) * 2 * self.slice_ns + self.slice_ns + last_ns

    def sleep(self, seconds: float) -> None:
        self.slept_ns += round(seconds * 1e9)
        self.pass_(seconds * 1e9)

    def host_ns(self) -> int:
        self.pass_(50)
        return self.now_ns

    def device_ns(self, host_ns: float) -> float:
        since_ns = host_ns - START_NS
        turn = 2 * math.pi / WOBBLE_NS
        return 7e15 + since_ns * (1 + self.ppm / 1e6) + self.wobble_ppm / 1e6 / turn * math.sin(since_ns * turn)

    def new_stream(self, device: torch.device, priority: int = 0) -> Stream:
        made = Stream(self)
        if priority < 0:
            self.side = made
        return made

    def current_stream(self, device: torch.device | None = None) -> Stream:
        """Of the thread that asks."""
        found: Stream = getattr(self.current, "stream", self.main)
        return found

    @contextmanager
    def on(self, stream: Stream) -> Iterator[Stream]:
        self.current.stream, before = stream, self.current_stream()
        yield stream
        self.current.stream = before

    def synchronize(self, *_: object) -> None:
        self.synchronised += 1

    def is_capturing(self) -> bool:
        return self.capturing == threading.get_ident()

    @contextmanager
    def captures(self) -> Iterator[None]:
        """What this thread does is captured for a graph."""
        self.capturing = threading.get_ident()
        yield
        self.capturing = 0

    def spoil(self, how: str) -> None:
        self.spoiled.append(how)
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def check_captures(self, call: str) -> None:
        """A call that could wait, or make memory, ends any thread's capture, unless this thread's mode is relaxed."""
        if self.capturing and getattr(self.current, "capture_mode", 0) != 2:  # CU_STREAM_CAPTURE_MODE_RELAXED
            self.spoil(call)

    def page_locked(self, count: int, dtype: torch.dtype) -> torch.Tensor:
        self.check_captures("page-locked memory")
        return torch.empty(count, dtype=dtype)

    def exchange_capture_mode(self, mode: int) -> int:
        before: int = getattr(self.current, "capture_mode", 0)
        self.current.capture_mode = mode
        return before


class RealTimeGpu(Gpu):
    """One whose time is the host's own, so that a training can run on it."""

    @property
    def now_ns(self) -> int:  # type: ignore[override]
        return time.monotonic_ns()

    @now_ns.setter
    def now_ns(self, _: int) -> None:
        pass

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def put_in(gpu: Gpu, put: Callable[[Any, str, Any], object], clock: Any, memory: Any) -> None:
    """Have torch and the instruments find this GPU. put: like setattr. clock, memory: the instruments' modules
    cuda_clock and page_locked."""
    own_event = {"gpu": gpu, "wait": Event.wait, "synchronize": Event.synchronize}
    own_stream = {"__new__": lambda _, *terms, **options: gpu.new_stream(*terms, **options)}
    put(torch.cuda, "Event", type("OwnEvent", (Event,), own_event))
    put(torch.cuda, "Stream", type("OwnStream", (Stream,), own_stream | {"synchronize": Stream.synchronize}))
    put(torch.cuda, "stream", gpu.on)
    put(torch.cuda, "current_stream", gpu.current_stream)
    put(torch.cuda, "synchronize", gpu.synchronize)
    put(torch._C, "_cuda_getCurrentRawStream", lambda _: id(gpu.current_stream()))
    put(torch._C, "_cuda_isCurrentStreamCapturing", gpu.is_capturing)
    put(memory, "exchange_capture_mode", gpu.exchange_capture_mode)
    put(memory, "page_locked", gpu.page_locked)
    put(clock, "time", SimpleNamespace(monotonic_ns=gpu.host_ns, sleep=gpu.sleep))


def simulated(monkeypatch: pytest.MonkeyPatch, gpu: Gpu) -> "cuda_clock.CudaClock":
    """A clock of this GPU."""
    put_in(gpu, partial(monkeypatch.setattr, raising=False), cuda_clock, page_locked)
    made = cuda_clock.clock_of(torch.device("cuda", 0))
    assert isinstance(made, cuda_clock.CudaClock)
    return made


def true_ns(marks: Sequence["cuda_clock.Mark"]) -> list[float]:
    """When the device came to these, by the host's clock."""
    return [mark.event.over_ns for mark in marks]  # type: ignore[attr-defined]
