"""A rank's end of the wire. The training loop only appends to a queue; a thread sends, listens and beats."""

import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import psutil
import torch
import zmq

from ddptui.preset import Bottleneck
from ddptui.wire import HUB, MOST_BYTES_A_FRAME, ConsoleMessage, Heartbeat, Pause, RankMessage, SetBottleneck, Stop

SEND_EVERY_MS = 200  # at the same moments on all ranks of a host: what that costs them, it costs them at once
BEAT_EVERY_S = 1.0
LOOK_EVERY_MS = 50  # whether the process has stood still meanwhile
MS = 1_000_000  # ns
STOOD_STILL_MS = 75  # more than schedulers and Python's lock take
MOST_QUEUED = 20_000  # messages; beyond that new ones are dropped, and counted
MOST_A_FRAME = 1_000  # messages
LAST_WORDS_S = 2.0  # how long to wait for the console to take what is left


Telling = Callable[[], Sequence[RankMessage] | None]  # gives what there is to say; None: it is not known yet


class Reporter:
    """Says what a rank has to say, without ever making it wait. Without a console nobody hears it."""

    def __init__(self, rank: int, *, beats: bool = True) -> None:
        self.rank = rank
        self._beats = beats
        self.dropped = 0
        self.bottleneck: tuple[Bottleneck, ...] | None = None  # what the console wants from the next step on
        self._queue: deque[RankMessage | Telling] = deque()
        self._unsent: list[RankMessage] = []  # taken from the queue, or the thread's own
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if HUB in os.environ:
            self._thread = threading.Thread(target=self._run, args=(os.environ[HUB],), name="reporter", daemon=True)
            self._thread.start()

    def say(self, words: RankMessage | Telling) -> None:
        """A message; or what gives one, later and in another thread."""
        if len(self._queue) >= MOST_QUEUED:
            self.dropped += 1
            return
        self._queue.append(words)
        if self._thread is None:
            self._take()

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LAST_WORDS_S + 1)
        else:
            self._say_what_is_left(self._take)

    def _run(self, endpoint: str) -> None:
        context = zmq.Context()
        socket = context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, int(LAST_WORDS_S * 1000))
        socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES_A_FRAME)
        socket.connect(endpoint)
        process = psutil.Process()
        process.cpu_percent()  # the first call only sets the mark
        next_beat = time.monotonic() + BEAT_EVERY_S
        next_send_ms = 0
        while not self._closing.is_set():
            due_ms = (time.monotonic_ns() // MS // LOOK_EVERY_MS + 1) * LOOK_EVERY_MS
            if socket.poll(due_ms - time.monotonic_ns() // MS):
                self._obey(socket.recv())
            woke_ns = time.monotonic_ns()
            if woke_ns // MS >= next_send_ms:
                self._send(socket)  # what the rank has said comes first: a Hello opens the wire
                next_send_ms = (woke_ns // MS // SEND_EVERY_MS + 1) * SEND_EVERY_MS
            if self._beats:
                self._note_pause(due_ms * MS, woke_ns)
                if time.monotonic() >= next_beat:
                    next_beat += BEAT_EVERY_S
                    self._unsent.append(self._beat(process))
        self._say_what_is_left(lambda: self._send(socket))
        socket.close()
        context.term()

    def _note_pause(self, due_ns: int, woke_ns: int) -> None:
        """Whoever wakes much too late has stood still, from some moment since it last looked."""
        begin_ns = due_ns - LOOK_EVERY_MS * MS // 2
        if woke_ns - begin_ns > STOOD_STILL_MS * MS:
            self._unsent.append(Pause(rank=self.rank, begin_ns=begin_ns, end_ns=woke_ns))

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        """Send what is known, a frame at a time; what a full socket refuses stays."""
        while True:
            self._unsent = self._unsent or self._take()
            if not self._unsent:
                return
            try:
                socket.send(msgspec.msgpack.encode(self._unsent), zmq.NOBLOCK)
            except zmq.Again:
                return
            self._unsent = []

    def _take(self) -> list[RankMessage]:
        """What is known by now, in order, as much as a frame may hold."""
        known: list[RankMessage] = []
        while self._queue and len(known) < MOST_A_FRAME:
            words = self._queue[0]
            try:
                told = words() if callable(words) else [words]
            except RuntimeError:  # torch's: the device has failed, as the loop will notice, too
                traceback.print_exc()
                told = []
            if told is None:
                break
            self._queue.popleft()
            known += told
        return known

    def _say_what_is_left(self, say: Callable[[], object]) -> None:
        """For a while; what is not known by then never will be."""
        deadline = time.monotonic() + LAST_WORDS_S
        while (self._queue or self._unsent) and time.monotonic() < deadline:
            say()
            time.sleep(0.001)
        self._queue = deque(words for words in self._queue if not callable(words))
        say()

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
