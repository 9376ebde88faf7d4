"""One rank's connection to the relay: converts the rank's notes to the messages that ranks send to the console."""

import json
import socket
import struct
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict

from ddptui.host.clock import own_clock
from ddptui.wire.connection import TOKEN
from ddptui.wire.messages import VERSION, Failed, Hello, Nccl, OwnGpu, Ready
from ddptui.wire.watching import Watching
from workers.instruments.heartbeat import GpuMemory, GpuMeter
from workers.instruments.reporter import Reporter
from workers.relay.steps import Steps
from workers.watch.link import HEAD_BYTES, JSON
from workers.watch.notes import VERSION as NOTES_VERSION

MOST_BYTES_A_FRAME = 64 * 2**20  # a frame has all notes since the previous one


class WatchedRank:
    """Reads one rank's frames in a thread of its own, until either end closes the connection."""

    def __init__(
        self, connection: socket.socket, way: Mapping[str, str], asked: Watching, note: Callable[[str], None]
    ) -> None:
        """way: the environment variables that say how to reach the console. asked: what to watch. note: called with the
        reason why the rank is no longer watched."""
        self._connection, self._way, self._asked, self._note = connection, way, asked, note
        self._lock = threading.Lock()  # protects the steps: the reporter's thread reads the position
        self._reporter: Reporter | None = None
        self._has_reported = False  # whether the last message was sent
        self.thread = threading.Thread(target=self._run, name="rank")
        self.thread.start()

    def end(self) -> None:
        """Read what has arrived, and nothing more. Any thread may call this."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def _run(self) -> None:
        try:
            with self._connection:
                self._read_all()
        except OSError:
            pass  # the rank was killed
        except (ValueError, LookupError, TypeError, RecursionError, AttributeError) as error:
            self._note(f"{type(error).__name__}: {error}")
        finally:
            if self._reporter is not None:
                self._reporter.close()

    def _read_all(self) -> None:
        if (hello := self._frame()) is None:
            return  # the rank ended before it sent anything, e.g. by exec of another program
        if not isinstance(hello, dict) or hello["version"] != NOTES_VERSION:
            raise ValueError("the training was started by another version of ddptui: restart it with `ddptui watch`")
        steps = self._begin(hello)
        while (frame := self._frame()) is not None:
            if isinstance(frame, array):
                with self._lock:
                    steps.read(iter(frame))
            elif "name" in frame:
                steps.name(frame["number"], frame["name"])
            else:
                self._finish(steps, frame["error"])
        with self._lock:
            steps.close()

    def _begin(self, hello: dict[str, Any]) -> Steps:
        """Send Hello and Ready to the console, in the rank's place."""
        rank, gpus, nccl = hello["rank"], hello["gpus"], hello["nccl"]
        pid = peer_of(self._connection) or hello["pid"]
        reporter = self._reporter = Reporter(rank, stop=lambda _: self.end(), of=pid, way=self._way)
        steps = Steps(
            rank,
            self._asked,
            reporter,
            at_ns=hello["at_ns"],
            signs=hello["signs"],
            over=lambda: self._see_no_more(steps),
        )
        reporter.send(
            Hello(
                version=VERSION,
                token=self._way[TOKEN],
                rank=rank,
                world_size=hello["world_size"],
                at_ns=hello["at_ns"],
                host=hello["host"],
                pid=pid,
                device=hello["device"],
                threads=hello["threads"],
                torch=hello["torch"],
                backend=hello["backend"],
                clock=own_clock(),
            )
        )
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
            reporter.meter = GpuMeter(lambda: gpus[0][1] or None, lambda: GpuMemory(*steps.memory))
        if self._asked.bottleneck:
            steps.tell = self._tell
        reporter.position, reporter.before_sending = lambda: self._position(steps), lambda: self._pass_on(steps)
        return steps

    def _position(self, steps: Steps) -> Any:
        with self._lock:
            return steps.position()

    def _pass_on(self, steps: Steps) -> None:
        """Pass the console's latest delays on to the rank."""
        assert self._reporter is not None
        command, self._reporter.command = self._reporter.command, None
        if command is not None:
            steps.tell = self._tell
            self._tell({"bottleneck": [asdict(delay) for delay in command.bottleneck]})

    def _tell(self, order: dict[str, Any]) -> None:
        with suppress(OSError):  # the rank has ended
            self._connection.sendall(json.dumps(order).encode() + b"\n")

    def _see_no_more(self, steps: Steps) -> None:
        self._finish(steps, "")
        self.end()

    def _finish(self, steps: Steps, error: str) -> None:
        """Send the rank's last message, once. error: the exception that ends the training; empty if there is none."""
        if self._reporter is None or self._has_reported:
            return
        steps.close()
        self._has_reported = True
        rank = self._reporter.rank
        last = Failed(rank=rank, at_ns=time.monotonic_ns(), error=error) if error else steps.done()
        self._reporter.send(last)

    def _frame(self) -> "dict[str, Any] | array[int] | None":
        """The next frame; None if the connection has ended. Raises OSError or ValueError."""
        head = self._bytes(HEAD_BYTES)
        if len(head) < HEAD_BYTES:
            return None
        length = int.from_bytes(head[1:], "big")
        if length > MOST_BYTES_A_FRAME:
            raise ValueError("the rank sent a frame of more than 64 MiB")
        body = self._bytes(length)
        if len(body) < length:
            return None
        if head[:1] != JSON:
            return array("q", body)
        frame: dict[str, Any] = json.loads(body)
        return frame

    def _bytes(self, number: int) -> bytes:
        parts = bytearray()
        while len(parts) < number and (new := self._connection.recv(number - len(parts))):
            parts += new
        return bytes(parts)


def peer_of(connection: socket.socket) -> int:
    """The id of the process at the other end, in this process's namespace; 0 if it has none there."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int = struct.unpack("3i", credentials)[0]
    return pid
