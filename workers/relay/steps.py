"""Derives a rank's steps from its notes, and reports them."""

import math
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from ddptui.text.words import printable
from ddptui.wire.messages import Batch, Done, Fingerprint, Pause, Place, Position, Stack, Tied
from ddptui.wire.phases import BETWEEN
from ddptui.wire.relay_file import Watching
from workers.instruments.clock import UNKNOWN
from workers.instruments.progress import Progress, read_loss
from workers.instruments.records import Call, Slept, StepRecord
from workers.instruments.reporter import Reporter
from workers.watch.loop import BACKWARD, OPTIMIZER, FinishedStep
from workers.watch.notes import ASIDE, KINDS, MOST_OPEN, NONE, SITES, LoopReader

MOST_PHASES = 100_000  # a step with more phases is not a training step
MOST_ASIDE = 1_000
MOST_IN_NAME, MOST_IN_WORD, MOST_FRAMES = 500, 64, 64  # characters; frames


class WatchedProgress(Progress):
    """Progress that prints nothing: the output is the training's own."""

    def log(self, record: StepRecord, loss: float) -> None:
        """Print nothing."""


class Steps(LoopReader):
    """Reads the notes of one rank, and reports its steps."""

    def __init__(
        self, rank: int, asked: Watching, reporter: Reporter, *, at_ns: int, signs: int, over: Callable[[], None]
    ) -> None:
        """at_ns: the moment at which the first step begins. signs: backward calls and marked step ends before that.
        over: called after as many steps as were requested."""
        super().__init__(at_ns, self._report)
        self._rank, self._asked, self._reporter, self._over = rank, asked, reporter, over
        self._progress = WatchedProgress(rank, asked.skip, reporter)
        self._names: dict[int, Any] = {}  # kinds and groups of collectives, by number
        self._calls_of: Counter[tuple[int, ...]] = Counter()  # collectives so far, by group
        self._open: dict[int, Call] = {}  # calls that have not ended, by number
        self._aside: deque[Call] = deque(maxlen=MOST_ASIDE)  # calls on other streams, for which the loop's may wait yet
        self._buckets = False  # whether a torch DDP sends buckets of gradients
        self._is_asleep = self._is_over = False
        self._slept: list[Slept] = []
        self._fired = self._slept_ns = 0  # number and total length of the delays after the warm-up
        self.peaks: tuple[int | None, int | None] = None, None  # peak GPU memory, used and reserved, in bytes
        self.memory: tuple[int | None, int | None] = None, None  # present GPU memory, used and reserved, in bytes
        self._signs_unseen = signs
        self._signs_before: int | None = None  # signs before the first complete step
        self._first: int | None = None if signs else 0  # number of the first step; None if not known yet
        self.tell: Callable[[dict[str, int]], None] | None = None  # sends step numbers to the rank while it needs them

    def name(self, number: int, name: Any) -> None:
        """Store for which kind or group (a list of ranks) a number stands in the notes that follow."""
        if isinstance(name, list):  # a stack, or a group's ranks
            name = places(name) if name and isinstance(name[0], list) else tuple(name)
        self._names[number] = name

    def take_samples(self, samples: Sequence[Sequence[Any]]) -> None:
        """Take samples of the training's thread (instruments/sampler.py), which come before their steps."""
        for at_ns, ns, held_ns, stack, outside in samples:
            self._progress.add_sample(at_ns, ns, held_ns, places(stack), outside)

    def read(self, notes: Iterator[Any]) -> None:
        """Read notes, each of which must be complete. Raises ValueError if they contain no training steps."""
        if self._is_over:
            return
        super().read(notes)
        if len(self.loop.timer.phases) > MOST_PHASES:
            raise ValueError(f"the rank made no optimizer step in {MOST_PHASES:,} calls")

    def position(self) -> Position:
        """The rank's position in its training."""
        batch, batches = self.place
        position = self.calls.position(asleep=self._is_asleep)
        seq = 0
        if position.number is not None:
            calls = self.calls.calls[position.number :]
            seq = self._calls_of[position.group] - sum(call.group == position.group for call in calls[1:])
        return replace(
            position,
            phase=self.loop.phase,
            epoch=self.loop.epoch,
            batch=batch,
            batches=batches,
            seq=seq,
        )

    def last_position(self, page: Sequence[int]) -> Position:
        """The position of a rank that has died, from its page (watch/link.py): its last notes were not sent."""
        ends, calls, seq, kind, size, where = page
        if seq <= self._calls_of.total() and ends <= self.ends:
            return self.position()
        done = self.loop.timer.step + (self.loop.after_step is not None)
        done += round((ends - self.ends) * (done / self.ends if self.ends else 1))
        return Position(
            step=done if where else max(0, done - 1),
            passed=() if where else (OPTIMIZER,),
            calls=calls,
            number=calls - 1 if calls else None,
            kind=KINDS[kind] if 0 <= kind < len(KINDS) else "",
            phase=BACKWARD if where == 2 else BETWEEN,
            seq=seq if calls and len(self._calls_of) <= 1 else 0,  # the page counts over all groups
            bytes=size,
        )

    def close(self) -> None:
        """Report the last step: the loop is over."""
        if not self._is_over:
            self.loop.close()

    def done(self) -> Done:
        """The rank's last message."""
        return Done(
            rank=self._rank,
            at_ns=time.monotonic_ns(),
            correct=0,
            evaluated=0,
            parameters={},
            buffers={},
            bottleneck_fired=self._fired,
            bottleneck_ns=self._slept_ns,
            peak_gpu_bytes=self.peaks[0],
            peak_gpu_reserved_bytes=self.peaks[1],
            dropped=self._reporter.dropped,
        )

    def _take(self, name: str, arguments: list[Any]) -> None:
        match name, arguments:
            case "collective", [number, kind, size, root, group, line, background, *moments]:
                call = Call(
                    self._names[kind],
                    size,
                    None if root == NONE else root,
                    self._names[group],
                    False,
                    self._known_of_call(self._at),
                    self._known_of_call(moments[0]),
                )
                call.line = self._names[line]
                self._end_call(call, background, moments[1:])
                if number != NONE:
                    self._open[number] = call
                    if len(self._open) > MOST_OPEN:  # the rank no longer reports its end
                        del self._open[next(iter(self._open))]
                self._calls_of[call.group] += 1
                self._collective(call)
            case "collective_ended", [number, background, *moments]:
                if (open_call := self._open.pop(number, None)) is not None:
                    self._end_call(open_call, background, moments)
            case "slept", [site, begin_ns, end_ns]:
                self._slept.append((SITES[site], begin_ns, end_ns))
            case "asleep", [is_asleep]:
                self._is_asleep = bool(is_asleep)
            case "paused", [begin_ns, end_ns]:
                self._reporter.send(Pause(rank=self._rank, begin_ns=begin_ns, end_ns=end_ns))
            case "tied", [error_ns]:
                self._reporter.send(Tied(rank=self._rank, at_ns=self._at, error_ns=error_ns))
            case "held_up", [begin_ns]:
                self._held_up(begin_ns, self._at)
            case "memory", [used, reserved, peak, peak_reserved]:
                self.memory, self.peaks = (used, reserved), (peak, peak_reserved)
            case "ddp_is_made", []:
                self._buckets = True
            case "read", [number]:
                self._read_facts(self._names.pop(number))
            case "numbered", []:
                self.tell = None
            case _:
                super()._take(name, arguments)

    def _read_facts(self, facts: dict[str, Any]) -> None:
        """Report what the rank has read for the checks (watch/checks.py)."""
        if self._first is None:
            return
        common = {"rank": self._rank, "step": self.loop.timer.step}
        if batch := facts.get("batch"):
            batch |= common | {"rows": facts.get("rows", ())}
            batch["sampler"] = printable(batch.get("sampler", ""))[:MOST_IN_WORD]
            self._reporter.send(msgspec.convert(batch, Batch))
            return
        for name in ("own", "left"):
            values = array("d", array("q", facts.get(name, ())).tobytes())
            facts[name] = [value if math.isfinite(value) else None for value in values]
        for name in ("parameters", "buffers", "gradients"):
            facts[name] = {printable(key)[:MOST_IN_NAME]: value for key, value in facts.get(name, {}).items()}
        facts["settings"] = {key: printable(value)[:MOST_IN_NAME] for key, value in facts["settings"].items()}
        facts["ddp_hooks"] = [printable(hook)[:MOST_IN_WORD] for hook in facts.get("ddp_hooks", ())]
        self._reporter.send(msgspec.convert(facts | common, Fingerprint))

    def _known_of_call(self, at_ns: int) -> int:
        self.is_untimed_since |= at_ns == UNKNOWN
        return self._noted.at if at_ns == UNKNOWN else at_ns

    def _end_call(self, call: Call, background: int, moments: list[int]) -> None:
        call.background = bool(background)
        known = [None if moment == NONE else self._known_of_call(moment) for moment in moments]
        call.issued, call.awaited, call.notified, call.ended = known
        if background == ASIDE and call.ended is not None:
            call.awaited = call.ended  # the loop's stream has not waited for it so far
            self._aside.append(call)

    def _held_up(self, begin_ns: int, end_ns: int) -> None:
        """The loop's stream has waited for an event. We attribute the wait to the calls aside that had ended by then,
        one after the other."""
        if UNKNOWN in (begin_ns, end_ns):
            self.is_untimed_since = True
            return
        for call in sorted((call for call in self._aside if call.ended <= end_ns), key=lambda call: call.ended):
            self._aside.remove(call)
            call.notified, call.awaited, call.ended = call.ended, begin_ns, end_ns
            begin_ns = max(begin_ns, call.notified)

    def _report(self, step: FinishedStep, calls: list[Call]) -> None:
        if self._is_over or (self._first is None and not self._is_numbered(step)):
            return
        number = step.timer.step
        # We notice a step's end only at the next call, before which the next step may already have been delayed.
        slept = tuple(delay for delay in self._slept if delay[1] < step.timer.moments[-1])
        self._slept = self._slept[len(slept) :]
        if number >= self._progress.warmup_steps:
            self._fired += len(slept)
            self._slept_ns += sum(end_ns - begin_ns for _, begin_ns, end_ns in slept)
        record = StepRecord(number, step.epoch, step.timer, step.samples, step.losses, calls, self._buckets, slept)
        done = number - (self._first or 0)
        if not self.is_untimed and (done < self._asked.skip or number % self._asked.every == 0):
            times = record.moments()
            loss = read_loss(step.losses, self._noted)
            self._reporter.send(self._progress.step_message(record, times, loss, step.scheduled))
        if self.tell is not None:
            self.tell({"step": number, "ends": self.ends})
        if self._asked.steps is not None and done + 1 >= self._asked.steps:
            self._is_over = True
            self._over()

    def _is_numbered(self, step: FinishedStep) -> bool:
        """Number the steps of a training that began before we observed it, equally on all ranks. Skips the first step,
        of which we may have missed a part. Returns whether this step has a number. Raises ValueError if steps differ in
        their number of backward calls."""
        signs = self._signs_unseen + self.loop.signs
        if self._signs_before is None:
            self._signs_before = signs
            return False
        steps, rest = divmod(self._signs_before, signs - self._signs_before)
        if rest:
            raise ValueError("not every step calls backward equally often, so the steps of the ranks cannot be matched")
        self._first = step.timer.step = steps
        step.following.step = steps + 1
        self._progress.warmup_steps += steps
        return True


def places(frames: Sequence[Sequence[Any]]) -> Stack:
    """The frames of a rank's stack as it has sent them, made safe for a terminal."""
    return tuple(
        Place(printable(file)[-MOST_IN_NAME:], line, printable(function)[:MOST_IN_NAME], bool(own))
        for file, line, function, own in frames[:MOST_FRAMES]
    )
