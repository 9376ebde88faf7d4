"""One rank's connection to the relay: converts the rank's notes to the messages that ranks send to the console."""

import json
import marshal
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from msgspec.structs import asdict, replace

from ddptui.host.machine import own_clock
from ddptui.wire.connection import TOKEN
from ddptui.wire.messages import VERSION, Failed, Hello, Nccl, OwnGpu, Position, Ready, Stack, Stood
from ddptui.wire.records import SetBottleneck
from ddptui.wire.relay_file import Watching
from workers.instruments.heartbeat import GpuMeter, ProcessMeter
from workers.instruments.reporter import Reporter
from workers.relay.steps import Steps, as_stack
from workers.watch.link import HEAD_BYTES, JSON, LastCall, taken
from workers.watch.notes import VERSION as NOTES_VERSION

MOST_BYTES_A_FRAME = 64 * 2**20  # a frame has all notes since the previous one
LOOK_EVERY_S = 0.1  # how often the memory of a rank's process is read
ENDS_WITHIN_S = 1.0


class WatchedRank:
    """Reads one rank's frames in a thread of its own, until either end closes the connection."""

    def __init__(
        self, connection: socket.socket, console: Mapping[str, str], asked: Watching, note: Callable[[str], None]
    ) -> None:
        """console: the environment variables that say how to reach the console. asked: what to watch. note: called with
        the reason why the rank is no longer watched."""
        self._connection, self._console, self._asked, self._note = connection, console, asked, note
        self._lock = threading.Lock()  # protects the steps: the reporter's thread reads the position
        self._reporter: Reporter | None = None
        self._has_reported = False  # whether the last message was sent
        self._is_ended = False  # whether this end has closed the connection
        self._stack: Stack = ()  # the rank's stack, while it makes no calls
        self._memory = ProcessMemory(0)
        self.thread = threading.Thread(target=self._run, name="rank")
        self.thread.start()

    def end(self) -> None:
        """Read what has arrived, and nothing more. Any thread may call this."""
        self._is_ended = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def _run(self) -> None:
        try:
            with self._connection, self._connection.makefile("rb") as frames:
                self._read_all(frames)
        except OSError:
            pass  # the rank was killed before it sent anything
        except (ValueError, LookupError, TypeError, RecursionError, AttributeError, EOFError) as error:
            self._note(f"{type(error).__name__}: {error}")
        finally:
            if self._reporter is not None:
                self._reporter.close()

    def _read_all(self, frames: BinaryIO) -> None:
        if (hello := next_frame(frames)) is None:
            return  # the rank ended before it sent anything, e.g. by exec of another program
        if not isinstance(hello, dict) or hello["version"] != NOTES_VERSION:
            raise ValueError("the training was started by another version of ddptui: restart it with `ddptui watch`")
        steps = self._begin(hello)
        try:
            while (frame := next_frame(frames)) is not None:
                if isinstance(frame, list):
                    self._memory.look()
                    with self._lock:
                        steps.read(iter(frame))
                elif "samples" in frame:
                    steps.take_samples(frame["samples"])
                elif "asked" in frame:
                    self._report_stack(frame)
                elif "error" in frame:
                    self._finish(steps, frame)
                else:
                    self._stack = as_stack(frame["stack"])
        except OSError:
            pass  # the rank was killed
        page = taken(hello["page"])
        if not self._has_reported and not self._is_ended and self._memory.has_ended():
            self._report_death(steps, page)
        with self._lock:
            steps.close()

    def _begin(self, first: dict[str, Any]) -> Steps:
        """Send Hello and Ready to the console, in the rank's place. first: the rank's first frame."""
        rank, gpus, nccl = first["hello"]["rank"], first["gpus"], first["nccl"]
        hello = Hello(version=VERSION, token=self._console[TOKEN], clock=own_clock(), **first["hello"])
        if peer := peer_of(self._connection):  # in another namespace, the rank's own number is another
            hello = replace(hello, pid=peer)
        self._memory = ProcessMemory(peer)
        reporter = self._reporter = Reporter(rank, stop=lambda _: self.end(), of=hello.pid, console=self._console)
        steps = Steps(
            rank,
            self._asked,
            reporter,
            at_ns=hello.at_ns,
            signs=first["signs"],
            over=lambda: self._see_no_more(steps),
        )
        reporter.send(hello)
        ready = Ready(
            rank=rank,
            at_ns=time.monotonic_ns(),
            steps=None,
            parameters=0,
            nccl=Nccl(*nccl) if nccl else None,
            gpus=tuple(OwnGpu(*gpu) for gpu in gpus),
        )
        reporter.send(ready)
        if gpus:
            reporter.meter, reporter.gpu_memory = GpuMeter(lambda: gpus[0][1] or None), lambda: steps.memory
        if self._asked.bottleneck:
            steps.tell = self._tell
        reporter.position, reporter.bottleneck = lambda: self._position(steps), lambda new: self._pass_on(steps, new)
        reporter.stack = lambda: self._stack
        reporter.look = lambda look: self._tell({"per_s": look.per_s, "stack": look.asked})
        return steps

    def _position(self, steps: Steps) -> Any:
        with self._lock:
            return steps.position()

    def _pass_on(self, steps: Steps, command: SetBottleneck) -> None:
        """Pass the console's latest delays on to the rank."""
        steps.tell = self._tell
        self._tell({"bottleneck": [asdict(delay) for delay in command.bottleneck]})

    def _report_stack(self, frame: dict[str, Any]) -> None:
        assert self._reporter is not None
        stack = as_stack(frame["stack"])
        self._reporter.send(Stood(rank=self._reporter.rank, at_ns=frame["at_ns"], asked=frame["asked"], stack=stack))

    def _tell(self, order: dict[str, Any]) -> None:
        with suppress(OSError):  # the rank has ended
            self._connection.sendall(json.dumps(order).encode() + b"\n")

    def _see_no_more(self, steps: Steps) -> None:
        self._finish(steps, {"error": ""})
        self.end()

    def _finish(self, steps: Steps, last: dict[str, Any]) -> None:
        """Send the rank's last message, once. last: its last frame, with the exception that ends the training."""
        if self._reporter is None or self._has_reported:
            return
        self._has_reported = True
        position = steps.position()
        steps.close()
        if last["error"]:
            self._report_failure(last, position)
        else:
            self._reporter.send(steps.done())

    def _report_death(self, steps: Steps, page: LastCall | None) -> None:
        """Report that the rank's process has ended without a last word. page: what stands in its page, if any."""
        with self._lock:
            position = steps.last_position(page.numbers) if page else steps.position()
        stack = self._stack or (page.stack if page else [])
        self._report_failure({"ended_ns": time.monotonic_ns(), "error": "", "stack": stack, "workers": []}, position)
        self._has_reported = True

    def _report_failure(self, last: dict[str, Any], position: Position) -> None:
        """Report that the rank has failed. last: its last frame, or one in place of it."""
        assert self._reporter is not None
        failed = Failed(
            rank=self._reporter.rank,
            at_ns=last["ended_ns"],
            error=last["error"],
            stack=as_stack(last["stack"]),
            workers=tuple((pid, code) for pid, code in last["workers"]),
            position=position,
            grown_bytes=self._memory.grown_bytes,
        )
        self._reporter.send(failed)


def next_frame(frames: BinaryIO) -> dict[str, Any] | list[Any] | None:
    """The next frame, a message or notes; None if the connection has ended. Raises OSError or ValueError."""
    head = frames.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    length = int.from_bytes(head[1:], "big")
    if length > MOST_BYTES_A_FRAME:
        raise ValueError("the rank sent a frame of more than 64 MiB")
    body = frames.read(length)
    if len(body) < length:
        return None
    frame: dict[str, Any] | list[Any] = json.loads(body) if head[:1] == JSON else marshal.loads(body)
    return frame


class ProcessMemory:
    """The resident memory of a rank's process, and whether the process has ended."""

    def __init__(self, pid: int) -> None:
        """pid: in this process's namespace; 0 if the process has none there: then nothing is known of it."""
        self._pid, self._meter = pid, ProcessMeter(pid)
        self._first = self._last = 0
        self._looked_at = 0.0

    def look(self) -> None:
        """Read the memory, unless that was done just now."""
        if time.monotonic() - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        self._last = self._meter.rss_bytes() or self._last
        self._first = self._first or self._last

    @property
    def grown_bytes(self) -> int:
        """By how much it has grown between the first reading and the last."""
        return self._last - self._first

    def has_ended(self) -> bool:
        """Whether the process ends within ENDS_WITHIN_S: it closes its connections shortly before."""
        deadline = time.monotonic() + ENDS_WITHIN_S * (self._pid > 0)
        while not (ended := self._pid > 0 and not self._meter.is_alive()) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S / 10)
        return ended


def peer_of(connection: socket.socket) -> int:
    """The id of the process at the other end, in this process's namespace; 0 if it has none there."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid
