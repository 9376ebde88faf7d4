"""Sends a rank's notes to its relay, in a thread of its own; the loop's thread only takes the notes. Work in the loop's
thread takes several times as long, since the training's data have displaced everything else from the caches.
"""

import json
import os
import time
from collections import deque
from collections.abc import Callable
from threading import Event
from types import CodeType
from typing import Any

import torch

from ..instruments.clock import (
    LOOK_EVERY_MS,
    NS_PER_MS,
    SEND_EVERY_MS,
    STOOD_STILL_MS,
    Clock,
)
from ..instruments.gpu import memory_of
from ..instruments.page_locked import RELAXED, exchange_capture_mode
from ..instruments.sampler import MODULE_CALL, Named, Sampler, frames_of, line_of
from ..instruments.shield import suppressed
from .encoder import NoteEncoder
from .ending import MOST_FRAMES, PACKAGES, Place, has_lock, is_ours, place_of, shortened
from .link import JSON, NOTES, Gone, Link
from .notes import CODES
from .process import OwnThread

MEMORY_EVERY_S = 1.0  # how often a GPU's memory use is noted
STILL_S = 2.0  # without a note for this long, the relay learns where the training stands
STACK_EVERY_S = 1.0  # how often we look then
MODULES = os.path.join("torch", "nn", "modules", "module.py")
LAST_WORDS_S = 1.0  # timeout for the device to reach the last notes, and for the relay to receive them


class Sender:
    """The sending thread, with its queues of notes to the relay and orders from it."""

    def __init__(
        self,
        link: Link,
        hello: dict[str, Any],
        clock: Clock,
        trains: int,
        lines: bool,
        is_asleep: Callable[[], bool],
        over: Callable[[Exception | None], None],
    ) -> None:
        """trains: the thread that trains. lines: whether to sample its lines. is_asleep: whether the rank is in an
        injected delay. over: called by the thread when it stops sending, with the error that stopped it, or None if the
        relay is gone."""
        # A note's numbers are appended together, but not as one object: more objects would trigger more garbage
        # collections, which walk everything that the training has. A collective is a note of its own.
        self.notes: deque[Any] = deque()
        self._encoder = NoteEncoder(self.notes, clock)
        self.orders: deque[dict[str, Any]] = deque()  # from the relay
        self._link, self._device = link, clock.device
        self._is_asleep, self._over = is_asleep, over
        self._was_asleep = False
        self._memory_at = 0.0
        self._trains = trains
        self._waiting = 0  # notes that were left after the last look
        self._noted_at = self._stack_at = time.monotonic()  # the last new note, and the last look at the stack
        self._stack: list[Place] = []  # as sent
        self._closing = Event()
        self._link.put(JSON, json.dumps(hello).encode())
        self.thread = OwnThread(self._run)
        self._sampler = Sampler(trains, named_code) if lines and has_lock() else None
        self._sampling = OwnThread(self._sample)

    def start(self) -> None:
        """Start the threads; the sending one sends Hello first. Raises RuntimeError if no thread can be started."""
        self.thread.start()
        if self._sampler is not None:
            self._sampling.start()

    def _sample(self) -> None:
        try:
            if self._sampler is not None:
                self._sampler.run()
        except Exception as error:
            self._over(error)

    def _run(self) -> None:
        try:
            if self._device is not None:
                exchange_capture_mode(RELAXED)
                # Otherwise the thread would use the first GPU, where CUDA takes some hundred MB.
                torch.cuda.set_device(self._device)
            self._send_until_closed()
        except Gone:
            self._over(None)
        except Exception as error:
            self._over(error)

    def _send_until_closed(self) -> None:
        self._link.send()  # Hello: if the rank dies soon, the relay knows of it
        next_send_ms = 0
        while not self._closing.is_set():
            due_ms = (time.monotonic_ns() // NS_PER_MS // LOOK_EVERY_MS + 1) * LOOK_EVERY_MS
            self._closing.wait(max(0.0, due_ms / 1000 - time.monotonic()))
            woke_ns = time.monotonic_ns()
            if len(self.notes) != self._waiting:
                self._noted_at = time.monotonic()
            begin_ns = (due_ms - LOOK_EVERY_MS // 2) * NS_PER_MS  # a guess: half an interval before it was due
            if woke_ns - begin_ns > STOOD_STILL_MS * NS_PER_MS:
                self.notes.extend((CODES["paused"], woke_ns, begin_ns, woke_ns))
            for order in self._link.receive():
                self._look(order) if "per_s" in order else self.orders.append(order)
            if woke_ns // NS_PER_MS >= next_send_ms:
                next_send_ms = (woke_ns // NS_PER_MS // SEND_EVERY_MS + 1) * SEND_EVERY_MS
                self._send_known()
            self._waiting = len(self.notes)

    def _send_known(self) -> None:
        """Send the notes whose moments are known. Raises Gone."""
        if self._is_asleep() != self._was_asleep:
            self._was_asleep = not self._was_asleep
            self.notes.extend((CODES["asleep"], time.monotonic_ns(), self._was_asleep))
        self._link.send()
        if not self._link.is_idle:  # the relay is behind: keep the rest as notes, whose number is limited
            return
        if self._device is not None and time.monotonic() - self._memory_at > MEMORY_EVERY_S:
            self._memory_at = time.monotonic()
            with suppressed(RuntimeError):  # a custom allocator may not report its memory
                self.notes.extend((CODES["memory"], time.monotonic_ns(), *memory_of(self._device)))
        if self._sampler is not None and (samples := self._sampler.taken()):  # before the steps that have them
            self._link.put(JSON, json.dumps({"samples": samples}).encode())
        if notes := self._encoder.encode():
            self._link.put(NOTES, notes)
        self._look_at_stack(time.monotonic())
        self._link.send()

    def _look(self, order: dict[str, Any]) -> None:
        """Sample as often as the console wants, and send the stack if it asks for one."""
        if self._sampler is not None:
            self._sampler.per_s = order["per_s"]
        if order["stack"]:
            at_ns, stack = time.monotonic_ns(), stack_of_thread(self._trains)
            self._link.put(JSON, json.dumps({"stack": stack, "asked": order["stack"], "at_ns": at_ns}).encode())

    def _look_at_stack(self, now: float) -> None:
        """Send where the training stands if it is still, and if that has changed."""
        is_still = now - self._noted_at > STILL_S
        if (is_still and now - self._stack_at < STACK_EVERY_S) or not (is_still or self._stack):
            return
        self._stack_at = now
        stack = stack_of_thread(self._trains) if is_still else []
        if stack != self._stack:
            self._stack = stack
            self._link.put(JSON, json.dumps({"stack": stack}).encode())

    def close(self, last: dict[str, Any] | None) -> None:
        """End the thread, send the remaining notes and `last`, and close the connection. last: a message about the end;
        None to send nothing more."""
        self._closing.set()
        if self._sampler is not None:
            self._sampler.close()
            self._sampling.has_ended_within(LAST_WORDS_S)
        has_ended = self.thread.has_ended_within(LAST_WORDS_S)
        if last is not None and has_ended:
            self._send_last(last)
        self._link.close()

    def _send_last(self, last: dict[str, Any]) -> None:
        deadline = time.monotonic() + LAST_WORDS_S
        try:
            while (self._encoder.has_more or not self._link.is_idle) and time.monotonic() < deadline:
                self._send_known()
                if self._encoder.has_more:
                    time.sleep(0.001)  # the device has not reached them
            self._link.put(JSON, json.dumps(last).encode())
            while not self._link.is_idle and time.monotonic() < deadline:
                self._link.send()
        except Gone:
            pass

    def forget(self) -> None:
        """In a process forked from the rank's, close the inherited descriptor of its connection."""
        self._link.close()


def stack_of_thread(ident: int) -> list[Place]:
    """Where a thread stands; empty if it has ended, and in a Python without a lock."""
    frames = frames_of(ident) if has_lock() else []
    return shortened([place_of(code, line_of(code, at)) for code, at in frames if not is_ours(code)], MOST_FRAMES)


def named_code(code: CodeType) -> Named:
    """File and function of some code, and whether it is the user's own. None for ours, torch's and Python's, but
    MODULE_CALL for a call of a module."""
    if code.co_name == "_call_impl" and code.co_filename.endswith(MODULES):
        return MODULE_CALL
    file, _, function, own = place_of(code, 0)
    folders = code.co_filename.split(os.sep)
    is_library = bool(PACKAGES.intersection(folders)) and "torch" not in folders
    return (file, function, own) if (own or is_library) and not is_ours(code) else None
