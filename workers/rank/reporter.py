"""A rank's end of the wire. The training loop only appends to a queue; a thread sends, listens and beats."""

import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec
import psutil
import torch
import zmq

from ddptui.config.trial import Bottleneck
from ddptui.wire.connection import HUB, KEYS, SILENCE_S, Keys, unlock
from ddptui.wire.limits import MOST_A_STEP, MOST_BYTES_A_FRAME, MOST_OF_AN_ERROR
from ddptui.wire.messages import (
    Alive,
    ConsoleMessage,
    Echo,
    Failed,
    Heartbeat,
    Hello,
    Pause,
    Position,
    Probe,
    RankMessage,
    SetBottleneck,
    Step,
    Stop,
)
from workers.rank.device import CPU, used_bytes
from workers.rank.gpu_meter import Meter

SEND_EVERY_MS = 200  # at the same moments on all ranks of a host: what that costs them, it costs them at once
BEAT_EVERY_S = 1.0
LOOK_EVERY_MS = 50  # whether the process has stood still meanwhile
MS = 1_000_000  # ns
STOOD_STILL_MS = 75  # more than schedulers and Python's lock take
MOST_QUEUED = 20_000  # messages; beyond that new ones are dropped, and counted
MOST_A_FRAME = 1_000  # messages
MOST_FRAMES_UNREAD = 16  # by the console; beyond that messages wait in the queue
LAST_WORDS_S = 2.0  # how long to wait for the console to take what is left
USUAL_SILENCE_S = 300.0  # of a console that is stopped, or unreachable


Telling = Callable[[], Sequence[RankMessage] | None]  # gives what there is to say; None: it is not known yet


class Reporter:
    """Says what a rank has to say, without ever making it wait. Without a console nobody hears it."""

    def __init__(self, rank: int, *, beats: bool = True) -> None:
        self.rank = rank
        self._beats = beats
        self.dropped = 0
        self._failed = False  # the device: what it was to tell, nobody will ever know
        self.bottleneck: tuple[Bottleneck, ...] | None = None  # what the console wants from the next step on
        self.position: Callable[[], Position] = Position  # where the rank is
        self.meter = Meter(CPU)  # of its device, once that is known
        self._heard = time.monotonic()
        self._queue: deque[RankMessage | Telling] = deque()
        self._unsent: list[RankMessage] = []  # taken from the queue, or the thread's own
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if HUB in os.environ:
            self._thread = threading.Thread(target=self._run, args=(os.environ[HUB],), name="reporter", daemon=True)
            self._thread.start()

    def works_on(self, device: torch.device) -> None:
        """The rank's device is known. It becomes the current one of the reporter's thread, too, which asks it about its
        events: a thread that has none is on the first GPU, where CUDA would take some hundred MB for each such rank."""
        self.meter = Meter(device)
        if device.type == "cuda" and self._thread is not None:
            self.say(partial(make_current, device))

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
        socket.setsockopt(zmq.SNDHWM, MOST_FRAMES_UNREAD)
        if KEYS in os.environ:  # the console is on another host
            unlock(socket, Keys.read(os.environ[KEYS]))
        socket.connect(endpoint)
        silence_s = float(os.environ.get(SILENCE_S, USUAL_SILENCE_S))
        process = psutil.Process()
        process.cpu_percent()  # the first call only sets the mark
        next_beat = time.monotonic() + BEAT_EVERY_S
        next_send_ms = 0
        while not self._closing.is_set():
            due_ms = (time.monotonic_ns() // MS // LOOK_EVERY_MS + 1) * LOOK_EVERY_MS
            if socket.poll(due_ms - time.monotonic_ns() // MS):
                self._obey(socket)
            elif time.monotonic() - self._heard > silence_s:
                end(f"no word from the console for {silence_s:g} s: it is stopped, or cannot be reached")
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
            frame, messages = self._frame()
            if messages == 0:
                self.dropped += 1
                del self._unsent[0]
                continue
            try:
                socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                return
            del self._unsent[:messages]

    def _frame(self) -> tuple[bytes, int]:
        """What is unsent, encoded, or as much of it as the console takes at once; and how many messages that is. A
        Hello goes alone: of strangers the console takes little."""
        messages = 1 if isinstance(self._unsent[0], Hello) else len(self._unsent)
        while messages and len(frame := msgspec.msgpack.encode(self._unsent[:messages])) > MOST_BYTES_A_FRAME:
            messages //= 2
        return frame, messages

    def _take(self) -> list[RankMessage]:
        """What is known by now, in order, as much as a frame may hold."""
        known: list[RankMessage] = []
        while self._queue and len(known) < MOST_A_FRAME:
            words = self._queue[0]
            told = self._told_by(words) if callable(words) else [words]
            if told is None:
                break
            self._queue.popleft()
            sayables = [sayable(message) for message in told if not is_too_long(message)]
            self.dropped += len(told) - len(sayables)
            known += sayables
        return known

    def _told_by(self, words: Telling) -> Sequence[RankMessage] | None:
        """Nothing, once the device has failed, of which torch raises RuntimeError. The loop notices, too, and its words
        should end the log: it will say so, or if the rank is ending already, it has."""
        if self._failed:
            return []
        try:
            return words()
        except RuntimeError:
            self._failed = True
            if not self._closing.is_set():
                traceback.print_exc()
            return []

    def _say_what_is_left(self, say: Callable[[], object]) -> None:
        """For a while; what is not known by then never will be."""
        deadline = time.monotonic() + LAST_WORDS_S
        while (self._queue or self._unsent) and time.monotonic() < deadline:
            say()
            time.sleep(0.001)
        self._queue = deque(words for words in self._queue if not callable(words))
        say()

    def _obey(self, socket: zmq.Socket[bytes]) -> None:
        frame, heard_ns = socket.recv(), time.monotonic_ns()
        self._heard = time.monotonic()
        match msgspec.msgpack.decode(frame, type=ConsoleMessage):
            case Alive():
                pass
            case Probe(number=number):
                self._answer(socket, number, heard_ns)
            case Stop(why=why):
                end(f"stopped by the console: {why}")
            case SetBottleneck(bottleneck=bottleneck):
                self.bottleneck = bottleneck

    def _answer(self, socket: zmq.Socket[bytes], number: int, heard_ns: int) -> None:
        """At once: what lies between is what the console cannot know of this host's clock."""
        echo = Echo(rank=self.rank, number=number, heard_ns=heard_ns, said_ns=time.monotonic_ns())
        with suppress(zmq.Again):  # the console will ask again
            socket.send(msgspec.msgpack.encode([echo]), zmq.NOBLOCK)

    def _beat(self, process: psutil.Process) -> Heartbeat:
        return Heartbeat(
            rank=self.rank,
            at_ns=time.monotonic_ns(),
            cpu_percent=process.cpu_percent(),
            rss_bytes=process.memory_info().rss,
            gpu_bytes=used_bytes(self.meter.device),
            gpu=self.meter.read(),
            dropped=self.dropped,
            position=self.position(),
        )


def make_current(device: torch.device) -> list[RankMessage]:
    """For the thread that calls it. There is nothing to say of it."""
    torch.cuda.set_device(device)
    return []


def is_too_long(message: RankMessage) -> bool:
    """Whether the console would refuse it, and all that comes with it."""
    return isinstance(message, Step) and len(message.collectives) > MOST_A_STEP


def sayable(message: RankMessage) -> RankMessage:
    """As the console takes it: an error cut to length; and in place of what it would refuse, why."""
    if isinstance(message, (Step, Heartbeat, Pause)):  # these come too often to be looked at
        return message
    if isinstance(message, Failed):
        error = message.error.encode("utf-8", "backslashreplace").decode()
        return msgspec.structs.replace(message, error=error[:MOST_OF_AN_ERROR])
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=RankMessage)
    except ValueError as error:  # msgspec's are such, and those of text that is no text
        what = f"cannot tell the console what it wanted to ({type(message).__name__}): {error}"
        return Failed(rank=message.rank, at_ns=time.monotonic_ns(), error=what[:MOST_OF_AN_ERROR])
    return message


def end(why: str) -> None:
    """End the process, and leave in its log why, and what it was doing."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    print(f"{why}; meanwhile the rank was here:", "".join(traceback.format_stack(frame)), sep="\n", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)  # its default action ends even a rank that sits in a collective
