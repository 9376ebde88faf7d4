"""Finds the first cause of a watched training's failure: which rank, how, and where; and what followed from it. Pure.

A rank that fails, dies or stands still takes the others with it: they lose a connection, run into a time limit, or are
ended by the launcher. Torch reports whichever it notices first. Here, each rank's end is a cause or a consequence. The
first cause counts; if there are only consequences, the positions of the ranks show which one the others waited for.
"""

import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from ddptui.config.trial import Trial
from ddptui.diagnosis.failure import with_log
from ddptui.diagnosis.known_errors import is_consequence, known_error
from ddptui.diagnosis.positions import (
    CallCountMismatch,
    RankProgress,
    describe_late,
    describe_mismatch,
    describe_positions,
    different_collectives,
    is_after_step,
    line_of,
    named,
    verb,
    where_in,
)
from ddptui.text.words import ending, printable, size
from ddptui.wire.messages import Stack
from ddptui.wire.records import Failure

MOST_OF_AN_ERROR, MOST_OF_A_CONSEQUENCE = 200, 100  # characters shown
SOURCE = re.compile(r"\[/\S+:\d+\] ")  # where in the source of gloo an error was raised
MUCH_GROWN = 100 * 2**20  # bytes: growth of a rank's memory that is mentioned when it was killed
TIME_LIMIT = re.compile(r"Timed out waiting (\d+)ms|Timeout\(ms\)=(\d+)|wait timeout after (\d+)ms")
ORIGIN = re.compile(r"^origin: (.+)$", re.MULTILINE)  # what watch/ending.py adds to an error
NUMBER = re.compile(r"\d+")  # a rank, a port or a process, which differ in errors that are alike
SYMPTOM = re.compile(r"op\.preamble\.length|Detected mismatch between collectives")
STOPS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
SIGNALLED = re.compile(r"^SignalException: Process \d+ got signal: (\d+)")  # torchrun's own
LAUNCHER = re.compile(r"^.*torch/distributed/elastic/", re.MULTILINE)  # how torchrun's own messages begin
IN_LOADER = re.compile(r"torch/utils/data/")
IN_WORKER = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)")
OUT_OF_STEP = (
    "all ranks must call the same collectives in the same order: look for one in an `if` or a loop that differs "
    "between ranks, and give every rank the same number of batches"
)
TOO_LATE = (
    "if that rank is only slow there (a checkpoint, an evaluation), shorten its work, or raise the time limit: "
    "init_process_group(timeout=…), Lightning's DDPStrategy(timeout=…), Trainer's ddp_timeout; if it never ends, it "
    "hangs"
)
NEW_GROUP = "every rank must call new_group, also those that are not in the new group"
KILLED = "another process or the kernel has sent this signal: `dmesg`, or the scheduler, says whether memory ran out"
IN_NATIVE_CODE = "it raised no Python error: put PYTHONFAULTHANDLER=1 before the command to see the line of a crash"
LESS_MEMORY = "use fewer DataLoader workers, keep less of the data, and keep losses as numbers (loss.item())"


class ProcessEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a process of a training has ended."""

    rank: int | None  # None: a launcher, or another process
    at_ns: int
    error: str = ""  # "Type: message"; empty: without an error message
    stack: Stack = ()  # where the exception was raised
    exit_code: int | None = None  # None: not known
    workers: Sequence[tuple[int, int]] = ()  # DataLoader workers that had died: pid and exit code
    progress: RankProgress | None = None  # where the rank was; None: it had not begun to train
    grown_bytes: int = 0  # by how much its resident memory had grown

    @property
    def is_cause(self) -> bool:
        """Whether it has not just followed from the end of another rank."""
        if self.exit_code in (0, -signal.SIGTERM):
            return False
        from_loader = bool(self.dead_workers) or any(IN_LOADER.search(place.file) for place in self.stack[:20])
        return from_loader or not is_consequence(self.error) or self.is_origin_cause

    @property
    def origin(self) -> str:
        """The exception that was being handled when this one was raised: "file:line: Type: message". May be empty."""
        found = ORIGIN.search(self.error)
        return found[1] if found else ""

    @property
    def is_origin_cause(self) -> bool:
        """Whether the process met a cause of its own first, and then ran into what followed from it."""
        return bool(self.origin) and is_consequence(self.error) and not is_consequence(self.origin)

    @property
    def has_raised(self) -> bool:
        """Whether an exception has ended it that was not just raised by a collective, since ranks are out of step."""
        in_call = self.progress is not None and self.progress.position.number is not None
        return bool(self.error) and (self.is_origin_cause or not (in_call or SYMPTOM.search(self.error)))

    @property
    def dead_workers(self) -> list[tuple[int, int]]:
        """The workers that have died by themselves: SIGTERM comes from whoever ends the job."""
        return [(pid, code) for pid, code in self.workers if code not in (0, -signal.SIGTERM)]

    @property
    def first_line(self) -> str:
        """The first line of the error, shortened, without the line in gloo's source that begins it."""
        first, second, *_ = [*(line.strip() for line in self.error.splitlines() if line.strip()), "", ""]
        goes_on = first.endswith(":") and not ORIGIN.match(second)
        return shortened(SOURCE.sub("", f"{first} {second}" if goes_on else first), MOST_OF_AN_ERROR)


def shortened(text: str, most: int) -> str:
    """A line of text from a training, made safe for a terminal, and cut after `most` characters."""
    line = printable(text.strip())
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a training, or of one attempt of it, that has failed."""

    trial: Trial
    exit_code: int | None  # of the command; None: it still runs
    ends: Sequence[ProcessEnd]  # in order of time
    positions: Mapping[int, RankProgress]  # where the ranks were when the first of them ended
    world_size: int = 0
    launched: int = 0  # the world size that the launcher has set; 0: not known
    threads: Mapping[int, str] = {}  # exceptions that have ended threads of ranks, in words
    mismatch: CallCountMismatch | None = None  # the first step in which ranks called different numbers of collectives
    joining: Sequence[int] = ()  # ranks that have called init_process_group
    memory_was_short: bool = False  # meanwhile, the kernel killed a process because memory ran out
    stood_s: float = 0.0  # for how long the ranks had made no step, if that was long
    port_holder: Callable[[int], str] = lambda port: ""  # names the process that uses a port
    log: str = ""  # the command's output, if ddptui has it


def first_cause(seen: Evidence) -> Failure:
    """The first cause of a failure, with its evidence."""
    limits = [end.at_ns for end in seen.ends if TIME_LIMIT.search(end.error)]
    causes = [end for end in seen.ends if end.is_cause and not (limits and _is_killed_after(end, limits[0]))]
    of_ranks = [end for end in causes if end.rank is not None] or causes
    stopped = stopped_from_outside(seen)
    raised = [end for end in of_ranks if end.has_raised and not (stopped and end.error.startswith("KeyboardInterrupt"))]
    failure = _ended(seen, raised) if raised else _out_of_step(seen) or stopped
    if failure is None:
        failure = _ended(seen, of_ranks) if of_ranks else _late(seen) or _never_came(seen) or _unknown(seen)
    return msgspec.structs.replace(failure, details=(*failure.details, *_consequences(seen, failure)))


def thread_failure(error: str, stack: Stack) -> str:
    """An exception that has ended a thread, in words."""
    line = next((line for line in error.splitlines() if line.strip()), "")
    return shortened(line, MOST_OF_AN_ERROR) + (f", at {where}" if (where := line_of(stack)) else "")


def _is_killed_after(end: ProcessEnd, at_ns: int) -> bool:
    """Whether a process was probably killed by its launcher, since another one has ended at this time."""
    return not end.error and end.exit_code in (None, -signal.SIGKILL) and end.at_ns > at_ns


def stacks(positions: Mapping[int, RankProgress]) -> tuple[str, ...]:
    """A line for each rank whose stack is known: its own lines, innermost first."""
    known = {rank: [place for place in progress.stack if place.own] for rank, progress in positions.items()}
    return tuple(
        f"rank {rank}: " + " < ".join(f"{place.function} ({place.file}:{place.line})" for place in own[:6])
        for rank, own in sorted(known.items())
        if own
    )


def _out_of_step(seen: Evidence) -> Failure | None:
    """The failure of ranks that are in different collectives."""
    found = different_collectives(seen.positions)
    if seen.mismatch is not None:
        before, suspects = describe_mismatch(seen.mismatch)
        found = f"{before}{f'; now {found[0]}' if found else ''}", suspects
    if found is None:
        return None
    sentence, suspects = found
    rank = suspects[0] if len(suspects) == 1 else None
    return Failure(
        summary=sentence,
        remedy=_uneven(seen.positions) or OUT_OF_STEP,
        rank=rank,
        step=_step(seen.positions.get(rank) if rank is not None else None),
        place=line_of(seen.positions[rank].stack) if rank is not None else "",
        details=stacks(seen.positions),
    )


def _uneven(positions: Mapping[int, RankProgress]) -> str:
    """What it means that the data of some ranks have ended before those of others; empty if they have not."""
    over = {
        rank: each.position.batch for rank, each in positions.items() if each.position.batch == each.position.batches
    }
    going_on = [
        rank
        for rank, each in positions.items()
        if rank not in over and any(each.position.batch > batches for batches in over.values())
    ]
    if not over or not going_on:
        return ""
    ended = [rank for rank, batches in over.items() if batches < positions[going_on[0]].position.batch]
    data = f"the data of {named(ended)} ended after {over[ended[0]]} batches, those of {named(going_on)} did not"
    return (
        f"{data}: give every rank the same number (a DistributedSampler; islice of an iterable), or use Join with DDP"
    )


def _ended(seen: Evidence, causes: Sequence[ProcessEnd]) -> Failure:
    """The failure of the process that ended first, and of all that ended alike."""
    first = causes[0]
    alike = [end for end in causes if end is first or (end.error and _likeness(end) == _likeness(first))]
    ranks = sorted({end.rank for end in alike if end.rank is not None})
    who = named(ranks) if ranks else "the command"
    how, remedy = _how(seen, first)
    return Failure(
        summary=" ".join(filter(None, [who, verb(ranks or [0], how[0]), _when(first.progress)])) + how[1],
        remedy=remedy,
        rank=ranks[0] if len(ranks) == 1 else None,
        step=_step(first.progress),
        place=line_of(first.stack),
        error=first.first_line,
        details=_end_of_log(seen) if not first.error else (),
    )


def _likeness(end: ProcessEnd) -> tuple[object, ...]:
    return NUMBER.sub("0", end.first_line), end.exit_code, line_of(end.stack), end.rank is None


def _how(seen: Evidence, end: ProcessEnd) -> tuple[tuple[str, str], str]:
    """How a process ended: the words before and after the moment; and the remedy."""
    place = f", at {line}" if (line := line_of(end.stack)) else ""
    if end.dead_workers:
        pid, code = end.dead_workers[0]
        error = f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code)}" if code < 0 else ""
        remedy = known_error(error, seen.trial) or ""
        return ("failed", f"{place}: its DataLoader worker (process {pid}) {ending(code)}"), remedy
    if end.error:
        how = "failed" if end.exit_code in (None, 1) else ending(end.exit_code)
        error = end.origin if end.is_origin_cause else end.error
        remedy = "; ".join(filter(None, [known_error(error, seen.trial), *_remarks(seen, end)]))
        if re.search(r"EADDRINUSE|[Aa]ddress already in use", end.error):
            port = re.search(r"port: (\d+)|:(\d+)\b", end.error)
            holder = seen.port_holder(int(port[1] or port[2])) if port else ""
            remedy = remedy.replace("another process", holder or "another process", 1)
        if worker := IN_WORKER.search(end.error):
            inside = _error_of_worker(end.error)
            return (how, f"{place}: {worker[1]} in DataLoader worker {worker[2]}{inside}"), remedy
        if end.is_origin_cause:
            return (how, f", at {shortened(end.origin, MOST_OF_AN_ERROR)}"), remedy
        after = f" (after {shortened(end.origin, MOST_OF_AN_ERROR)})" if end.origin else ""
        return (how, f"{place}: {end.first_line}{after}"), remedy
    how = ending(end.exit_code)
    is_killed = end.exit_code in (None, -signal.SIGKILL)
    grown = f"; its memory had grown by {size(end.grown_bytes)}" if is_killed and end.grown_bytes > MUCH_GROWN else ""
    where = f", {where}" if (where := where_in(end.stack)) else ""
    if is_killed and (seen.memory_was_short or grown):
        fact = "the kernel killed a process because" if seen.memory_was_short else "perhaps"
        return (how, where + grown), f"{fact} the host's memory ran out: {LESS_MEMORY}"
    if end.exit_code == -signal.SIGKILL:
        return (how, where + grown), KILLED
    known = known_error("\n".join(_end_of_log(seen)), seen.trial) or ""
    return (how, where + grown), known or (IN_NATIVE_CODE if end.exit_code is None or end.exit_code < 0 else "")


def _remarks(seen: Evidence, end: ProcessEnd) -> Iterator[str]:
    """What the ranks add to an error of DDP: the shape on rank 0, or the names of parameters without gradients."""
    if named_in := re.search(r"^without gradients: (.+)$", end.error, re.MULTILINE):
        yield f"without gradients: {shortened(named_in[1], MOST_OF_AN_ERROR)}"
    if differs := re.search(r"params\[(\d+)\] in this process", end.error):
        shapes = [
            re.findall(r"\[[\d, ]*\]", line[1])
            for other in seen.ends
            if other.rank == 0 and (line := re.search(r"^parameters: (.+)$", other.error, re.MULTILINE))
        ]
        if shapes and int(differs[1]) < len(shapes[0]):
            yield f"rank 0's parameter {differs[1]} has the shape {shapes[0][int(differs[1])]}"


def _error_of_worker(error: str) -> str:
    """The last line of the traceback that a DataLoader worker has sent, and the innermost line of code in it."""
    lines = [line for line in error.splitlines() if line.strip()]
    files = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', error)
    own = [(file.rpartition("/")[2], line) for file, line, _ in files if "site-packages" not in file]
    at = f", {own[-1][0]}:{own[-1][1]}" if own else ""
    return f"{at}: {shortened(lines[-1], MOST_OF_AN_ERROR)}"


def stopped_from_outside(seen: Evidence) -> Failure | None:
    """The failure of a command that was asked to end from outside, and what its ranks did if they stood still."""
    of_launcher = [SIGNALLED.search(end.error) for end in seen.ends if end.rank is None]
    number = next((int(found[1]) for found in of_launcher if found), -min(seen.exit_code or 0, 0))
    if number not in STOPS:
        return None
    details: tuple[str, ...] = ()
    if seen.stood_s and seen.positions:
        stood, _ = describe_positions(seen.positions, seen.world_size)
        details = f"no step for {seen.stood_s:.0f} s before: {stood}", *stacks(seen.positions)
    return Failure(summary=f"the command {ending(-number)}, which another process sent", details=details)


def _late(seen: Evidence) -> Failure | None:
    """The failure of ranks that lost a connection or ran into a time limit, while another rank kept them waiting."""
    if not seen.positions or not (seen.ends or any(each.waits_in for each in seen.positions.values())):
        return None
    sentence, suspects = describe_late(seen.positions, seen.world_size)
    rank = suspects[0] if len(suspects) == 1 else None
    limits = [limit for end in seen.ends if (limit := TIME_LIMIT.search(end.error))]
    limit_s = int(next(filter(None, limits[0].groups()))) / 1000 if limits else None
    late = seen.positions[suspects[0]]
    is_waited_for = any(each.waits_in for other, each in seen.positions.items() if other not in suspects)
    in_thread = [
        f"; a thread of rank {each} had failed: {seen.threads[each]}" for each in suspects if each in seen.threads
    ]
    is_new_group = any(place.function.endswith("new_group") for place in late.stack)
    return Failure(
        summary=sentence + (f", for the time limit of {limit_s:g} s" if limit_s else "") + "".join(in_thread),
        remedy=_uneven(seen.positions)
        or (NEW_GROUP if is_new_group else TOO_LATE if limit_s and is_waited_for and not in_thread else ""),
        rank=rank,
        step=_step(late),
        place=line_of(late.stack),
        details=stacks(seen.positions),
    )


def _never_came(seen: Evidence) -> Failure | None:
    """The failure of ranks that waited in init_process_group for ranks that never called it."""
    missing = sorted({*range(seen.world_size)} - {*seen.joining})
    has_addresses = any("connectFullMesh" in end.error for end in seen.ends)  # in a store from before a restart
    if not missing or not seen.joining or has_addresses:
        return None
    waiting = [end for end in seen.ends if end.rank in seen.joining and end.error]
    line = line_of(waiting[0].stack) if waiting else ""
    summary = f"{named(missing)} never called init_process_group: {named(seen.joining)} "
    summary += f"{verb(seen.joining, 'waits')} there{f', {line}' if line else ''}"
    remedy = f"start all {seen.world_size} ranks, with the same address and port; see whether {named(missing)} "
    remedy += f"{verb(missing, 'has')} failed before"
    if 0 < seen.launched != seen.world_size:
        asked = f"the script asks for a world size of {seen.world_size}, and its launcher has started {seen.launched}"
        summary = f"{asked} ranks: {summary}"
        remedy = (
            "leave out rank and world_size of init_process_group: torchrun sets both (WORLD_SIZE, --nproc_per_node)"
        )
    return Failure(
        summary=summary,
        remedy=remedy,
        rank=missing[0] if len(missing) == 1 else None,
        place=line,
        error=waiting[0].first_line if waiting else "",
    )


def _unknown(seen: Evidence) -> Failure:
    if of_ranks := [end for end in seen.ends if end.rank is not None and end.error]:
        return _ended(seen, of_ranks)
    first = seen.ends[0].first_line if seen.ends else ""
    remedy = known_error(first or "\n".join(_end_of_log(seen)), seen.trial) or ""
    how = "the command " + ("has failed" if seen.exit_code is None else ending(seen.exit_code))
    return Failure(
        summary=f"{how}: {first}" if first else how,
        remedy=remedy,
        error=first,
        details=_end_of_log(seen),
    )


def _end_of_log(seen: Evidence) -> tuple[str, ...]:
    """The last lines of the command's output before torchrun's report of the ranks, if ddptui has it."""
    return tuple(with_log("", LAUNCHER.split(seen.log, maxsplit=1)[0]).splitlines())


def _consequences(seen: Evidence, failure: Failure) -> list[str]:
    """A line for each error that only followed from the first cause."""
    errors: dict[str, list[int]] = {}
    for end in seen.ends:
        is_told = end.rank == failure.rank or NUMBER.sub("0", end.first_line) == NUMBER.sub("0", failure.error)
        if end.rank is not None and end.error and not (end.is_cause or is_told):
            errors.setdefault(shortened(end.first_line, MOST_OF_A_CONSEQUENCE), []).append(end.rank)
    return [f"{named(ranks)} failed as a consequence: {line}" for line, ranks in errors.items()]


def _when(progress: RankProgress | None) -> str:
    """The moment in its training at which a rank ended, in words."""
    if progress is None:
        return ""
    position = progress.position
    if position.step is None:
        return f"after step {progress.steps - 1}" if progress.steps else "before its first step"
    if is_after_step(position):
        return f"after step {position.step}"
    if position.phase in ("", "between steps"):
        return f"in step {position.step}"
    return f"in {position.phase} of step {position.step}"


def _step(progress: RankProgress | None) -> int | None:
    if progress is None:
        return None
    step = progress.position.step
    return step if step is not None else progress.steps - 1 if progress.steps else None
