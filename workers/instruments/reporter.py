"""A rank's connection to the console. The training loop only appends to a queue; a thread sends and listens."""

import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import zmq

from ddptui.wire.connection import HUB, KEYS_VARIABLE, SILENCE_S, PeerKeys, use_keys
from ddptui.wire.limits import MOST_A_STEP, MOST_BYTES_A_FRAME, MOST_OF_AN_ERROR
from ddptui.wire.messages import Echo, Failed, Heartbeat, Hello, Pause, Position, RankMessage, Stack, Step
from ddptui.wire.records import Alive, ConsoleMessage, LastStep, Look, Probe, SetBottleneck, Stop

from .clock import LOOK_EVERY_MS, NS_PER_MS, SEND_EVERY_MS, STOOD_STILL_MS
from .heartbeat import GpuMeter, LoaderMeter, ProcessMeter
from .output import print_line

if TYPE_CHECKING:
    import torch

BEAT_EVERY_S = 1.0
MOST_QUEUED = 20_000  # messages in the queue; further ones are dropped and counted
MOST_A_FRAME = 1_000  # messages per frame
MOST_FRAMES_UNREAD = 16  # frames that the console has not read; further messages wait in the queue
LAST_WORDS_S = 2.0  # timeout for the console to receive the last messages
STAYS_S = 1.0  # how long a rank lives after Stop: its end makes the launcher kill the others, which may still write
DEFAULT_SILENCE_S = 300.0  # default timeout for messages from the console

Deferred = Callable[[], Sequence[RankMessage] | None]  # returns messages, or None while they are not known


class Reporter:
    """Sends a rank's messages to the console without ever blocking the rank. Without a console, drops them."""

    def __init__(
        self,
        rank: int,
        *,
        heartbeat: bool = True,
        stop: Callable[[str], None] | None = None,
        of: int | None = None,
        console: Mapping[str, str] = os.environ,
    ) -> None:
        """heartbeat: whether to send heartbeats and pauses. stop: called in the reporter's thread, with the reason,
        when the console requests an end or is gone; by default the process ends. of: the rank's process, if this one
        reports for it; the rank's process then reports its own pauses. console: the environment variables that say how
        to reach the console."""
        self.rank = rank
        self._beats = heartbeat
        self._stop = self._on_stop = stop or end_process
        if stop is None:
            from . import flight_recorder  # late: it needs torch, which a relay lacks

            self._on_stop = partial(end_process, first=partial(flight_recorder.keep, rank))
        self._of = of
        self._loaders = LoaderMeter(of)
        self._known = False  # whether Hello has left the queue, which may be late since CUDA starts first
        self.dropped = 0
        self._has_failed = False  # whether a deferred message has failed
        self.command: SetBottleneck | None = None  # the console's latest, until the loop takes it between two steps
        self.bottleneck: Callable[[SetBottleneck], object] = self._keep  # called by the thread with a new one
        self.look: Callable[[Look], object] = lambda _: None  # called by the thread when the console sends a Look
        self.last_step: int | None = None  # the training's last step, once the console has sent it
        self.position: Callable[[], Position] = Position  # returns the rank's position
        self.stack: Callable[[], Stack] = tuple  # returns the rank's stack, while it makes no calls
        # These two are replaced once the rank's device is known.
        self.meter = GpuMeter()
        self.gpu_memory: Callable[[], Sequence[int | None]] = lambda: (None, None)  # used, and reserved
        self._last_received = time.monotonic()
        self._queue: deque[RankMessage | Deferred] = deque()
        self._unsent: list[RankMessage] = []  # messages taken from the queue, and the thread's own
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None  # None without a console: `send` then processes messages at once
        self.is_heard = HUB in console
        if self.is_heard:
            self._thread = threading.Thread(target=self._run, args=(console,), name="reporter", daemon=True)
            self._thread.start()

    def set_device(self, device: "torch.device") -> None:
        """Set the rank's device, which is a device of this process."""
        import torch  # late, as above

        from .gpu import memory_of, uuid_of

        self.meter, self.gpu_memory = GpuMeter(partial(uuid_of, device)), partial(memory_of, device)
        if device.type == "cuda" and self._thread is not None:
            # The thread queries events of the device. Without this it would use the first GPU, where CUDA would take
            # some hundred MB for each rank.
            def make_current() -> list[RankMessage]:
                torch.cuda.set_device(device)
                return []

            self.send(make_current)

    def send(self, message: RankMessage | Deferred) -> None:
        """Queue a message, or a function that the reporter's thread calls until it returns messages."""
        if len(self._queue) >= MOST_QUEUED:
            self.dropped += 1
            return
        self._queue.append(message)
        if self._thread is None:
            self._take()

    def close(self) -> None:
        """Send the queued messages, and end the thread."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(LAST_WORDS_S + 1)
        else:
            self._flush(self._take)

    def _run(self, console: Mapping[str, str]) -> None:
        context = zmq.Context()
        socket = _connect(context, console)
        silence_s = float(console.get(SILENCE_S, DEFAULT_SILENCE_S))
        process = ProcessMeter(self._of)
        next_beat = time.monotonic() + BEAT_EVERY_S
        next_send_ms = 0
        while not self._closing.is_set():
            due_ms = (time.monotonic_ns() // NS_PER_MS // LOOK_EVERY_MS + 1) * LOOK_EVERY_MS
            # A negative timeout would wait forever: the thread may lose its core between the two readings of the clock.
            if socket.poll(max(0, due_ms - time.monotonic_ns() // NS_PER_MS)):
                self._receive(socket)
            elif time.monotonic() - self._last_received > silence_s:
                self._stop(f"no message from the console for {silence_s:g} s: it is stopped, or cannot be reached")
            woke_ns = time.monotonic_ns()
            if woke_ns // NS_PER_MS >= next_send_ms:
                self._send(socket)
                next_send_ms = (woke_ns // NS_PER_MS // SEND_EVERY_MS + 1) * SEND_EVERY_MS
            if self._beats and self._known:  # the console ignores ranks that have not sent Hello
                if self._of is None:
                    self._note_pause(due_ms * NS_PER_MS, woke_ns)
                if time.monotonic() >= next_beat:
                    next_beat += BEAT_EVERY_S
                    self._unsent.append(self._beat(process))
        self._flush(lambda: self._send(socket))
        socket.close()
        context.term()

    def _beat(self, process: ProcessMeter) -> Heartbeat:
        used, reserved, *_ = self.gpu_memory()
        return Heartbeat(
            rank=self.rank,
            at_ns=time.monotonic_ns(),
            cpu_percent=process.cpu_percent(),
            rss_bytes=process.rss_bytes(),
            gpu_bytes=used,
            gpu_reserved_bytes=reserved,
            gpu=self.meter.read(),
            dropped=self.dropped,
            position=self.position(),
            stack=self.stack(),
            loaders=self._loaders.read(),
        )

    def _note_pause(self, due_ns: int, woke_ns: int) -> None:
        begin_ns = due_ns - LOOK_EVERY_MS * NS_PER_MS // 2  # a guess: half an interval before it was due
        if woke_ns - begin_ns > STOOD_STILL_MS * NS_PER_MS:
            self._unsent.append(Pause(rank=self.rank, begin_ns=begin_ns, end_ns=woke_ns))

    def _send(self, socket: zmq.Socket[bytes]) -> None:
        """Send the known messages frame by frame. What a full socket refuses stays in `_unsent`."""
        while True:
            self._unsent = self._unsent or self._take()
            if not self._unsent:
                return
            frame, number = encode_frame(self._unsent)
            if number == 0:
                self.dropped += 1
                del self._unsent[0]
                continue
            try:
                socket.send(frame, zmq.NOBLOCK)
            except zmq.Again:
                return
            del self._unsent[:number]

    def _take(self) -> list[RankMessage]:
        """Take the messages that are known by now from the queue, in order, at most one frame."""
        known: list[RankMessage] = []
        while self._queue and len(known) < MOST_A_FRAME:
            first = self._queue[0]
            messages = self._call(first) if callable(first) else [first]
            if messages is None:
                break
            self._queue.popleft()
            self._known = self._known or isinstance(first, Hello)
            accepted = [within_limits(message) for message in messages if not is_too_long(message)]
            self.dropped += len(messages) - len(accepted)
            known += accepted
        return known

    def _flush(self, send: Callable[[], object]) -> None:
        """Send the remaining messages, within LAST_WORDS_S. Drops deferred messages that are still not known then."""
        deadline = time.monotonic() + LAST_WORDS_S
        while (self._queue or self._unsent) and time.monotonic() < deadline:
            send()
            time.sleep(0.001)
        self._queue = deque(message for message in self._queue if not callable(message))
        send()

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        frame, received_ns = socket.recv(), time.monotonic_ns()
        self._last_received = time.monotonic()
        match msgspec.msgpack.decode(frame, type=ConsoleMessage):
            case Alive():
                pass
            case Probe(number=number):
                # Reply at once: any delay adds to the console's error in estimating this host's clock.
                echo = Echo(rank=self.rank, number=number, heard_ns=received_ns, said_ns=time.monotonic_ns())
                with suppress(zmq.Again):  # the console will probe again
                    socket.send(msgspec.msgpack.encode([echo]), zmq.NOBLOCK)
            case Stop(why=why):
                self._on_stop(f"stopped by the console: {why}")
            case SetBottleneck() as command:
                self.bottleneck(command)
            case LastStep(step=step):
                self.last_step = step
            case Look() as look:
                self.look(look)

    def _keep(self, command: SetBottleneck) -> None:
        self.command = command

    def _call(self, deferred: Deferred) -> Sequence[RankMessage] | None:
        """The messages of a deferred message; none if it fails, as all do after the device has failed."""
        try:
            return deferred()
        except RuntimeError:  # raised by torch
            if not (self._has_failed or self._closing.is_set()):  # when closing, the loop's traceback should be last
                traceback.print_exc()
            self._has_failed = True
            self.dropped += 1
            return []


def _connect(context: zmq.Context[zmq.Socket[bytes]], console: Mapping[str, str]) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, int(LAST_WORDS_S * 1000))  # ms that term() waits for unsent messages
    socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES_A_FRAME)
    socket.setsockopt(zmq.SNDHWM, MOST_FRAMES_UNREAD)
    if KEYS_VARIABLE in console:  # the console is on another host
        use_keys(socket, PeerKeys.read(console[KEYS_VARIABLE]))
    socket.connect(console[HUB])
    return socket


def end_process(why: str, first: Callable[[], object] | None = None) -> None:
    """End the process, whatever fails meanwhile. Prints the reason and the main thread's stack to the log. first:
    called before; the process then ends STAYS_S after the call of this function."""
    until = time.monotonic() + STAYS_S
    try:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        stack = "".join(traceback.format_stack(frame))
        print_line(f"{why}; meanwhile the rank was here:\n{stack}")
        if first is not None:
            first()
            time.sleep(max(0.0, until - time.monotonic()))
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # its default action ends even a rank blocked in a collective


def encode_frame(messages: Sequence[RankMessage]) -> tuple[bytes, int]:
    """Encode the first messages as a frame, as many as fit. Returns it and their number, 0 if the first is too long."""
    # Hello travels alone: the console accepts only a short frame from a rank that it does not know yet.
    number = 1 if isinstance(messages[0], Hello) else len(messages)
    # Halving is fast enough: nearly always the first attempt fits, and encoding is the expensive part.
    while number and len(frame := msgspec.msgpack.encode(messages[:number])) > MOST_BYTES_A_FRAME:
        number //= 2
    return frame, number


def is_too_long(message: RankMessage) -> bool:
    """Whether the console would reject the message, and with it the whole frame."""
    return isinstance(message, Step) and len(message.collectives) > MOST_A_STEP


def within_limits(message: RankMessage) -> RankMessage:
    """The message as the console accepts it: a long error is truncated; a Failed replaces a message that it would
    reject."""
    if isinstance(message, (Step, Heartbeat, Pause)):  # these come too often to be checked
        return message
    if isinstance(message, Failed):
        error = message.error.encode("utf-8", "backslashreplace").decode()  # the console rejects lone surrogates
        return msgspec.structs.replace(message, error=error[:MOST_OF_AN_ERROR])
    try:
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=RankMessage)
    except ValueError as error:  # raised by msgspec, or for text with lone surrogates
        reason = f"cannot send the console a {type(message).__name__}: {error}"
        return Failed(rank=message.rank, at_ns=time.monotonic_ns(), error=reason[:MOST_OF_AN_ERROR])
    return message
