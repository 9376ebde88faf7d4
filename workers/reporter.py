"""A rank's end of the wire. The training loop only appends to a queue; a thread sends, listens and beats."""

import os
import signal
import threading
import time
from collections import deque

import msgspec
import psutil
import torch
import zmq

from ddptui.preset import Bottleneck
from ddptui.wire import HUB, MOST_BYTES_A_FRAME, ConsoleMessage, Heartbeat, Pause, RankMessage, SetBottleneck, Stop

SEND_EVERY_MS = 50
BEAT_EVERY_S = 1.0
STOOD_STILL_MS = 50  # later than planned: more than schedulers and Python's lock take
MOST_QUEUED = 20_000  # messages; beyond that new ones are dropped, and counted
MOST_A_FRAME = 1_000  # messages
LAST_WORDS_S = 2.0  # how long to wait for the console to take what is left


class Reporter:
    """Says what a rank has to say, without ever making it wait. Without a console it says nothing."""

    def __init__(self, rank: int, *, beats: bool = True) -> None:
        self.rank = rank
        self._beats = beats
        self.dropped = 0
        self.bottleneck: tuple[Bottleneck, ...] | None = None  # what the console wants from the next step on
        self._queue: deque[RankMessage] = deque()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if HUB in os.environ:
            self._thread = threading.Thread(target=self._run, args=(os.environ[HUB],), name="reporter", daemon=True)
            self._thread.start()

    def say(self, message: RankMessage) -> None:
        if self._thread is None:
            return
        if len(self._queue) < MOST_QUEUED:
            self._queue.append(message)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LAST_WORDS_S + 1)

    def _run(self, endpoint: str) -> None:
        context = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, int(LAST_WORDS_S * 1000))
        socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES_A_FRAME)
        socket.connect(endpoint)
        process = psutil.Process()
        process.cpu_percent()  # the first call only sets the mark
        next_beat = time.monotonic() + BEAT_EVERY_S
        while not self._closing.is_set():
            due_ns = time.monotonic_ns() + SEND_EVERY_MS * 1_000_000
            if socket.poll(SEND_EVERY_MS):
                self._obey(socket.recv())
            self._note_pause(due_ns)
            if self._beats and time.monotonic() >= next_beat:
                next_beat += BEAT_EVERY_S
                self._queue.append(self._beat(process))
            self._send(socket)
        deadline = time.monotonic() + LAST_WORDS_S
        while self._queue and time.monotonic() < deadline:
            self._send(socket)
        socket.close()
        context.term()

    def _note_pause(self, due_ns: int) -> None:
        """Whoever wakes much too late has stood still."""
        now = time.monotonic_ns()
        if self._beats and now - due_ns > STOOD_STILL_MS * 1_000_000:
            self._queue.append(Pause(rank=self.rank, begin_ns=due_ns, end_ns=now))

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        """Send the queue, a frame at a time; what a full socket refuses stays queued."""
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(MOST_A_FRAME, len(self._queue)))]
            try:
                socket.send(msgspec.msgpack.encode(batch), zmq.NOBLOCK)
            except zmq.Again:
                self._queue.extendleft(reversed(batch))
                return

    def _obey(self, frame: bytes) -> None:
        match msgspec.msgpack.decode(frame, type=ConsoleMessage):
            case Stop():
                os.kill(os.getpid(), signal.SIGTERM)  # its default action ends even a rank that sits in a collective
            case SetBottleneck(bottleneck=bottleneck):
                self.bottleneck = bottleneck

    def _beat(self, process: psutil.Process) -> Heartbeat:
        return Heartbeat(
            rank=self.rank,
            at_ns=time.monotonic_ns(),
            cpu_percent=process.cpu_percent(),
            rss_bytes=process.memory_info().rss,
            gpu_bytes=torch.cuda.memory_allocated() if torch.cuda.is_initialized() else None,
            dropped=self.dropped,
        )
