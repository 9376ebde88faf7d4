"""How a process of a watched training ends, and the file of events in which it says so to the console.

Every Python process below the command may import this module at its end, also one without torch: it needs Python's
standard library only. It keeps texts and numbers, and neither exceptions nor frames, so that the training's objects are
freed as without us.
"""

import json
import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any, NamedTuple

WORKERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOREIGN = os.path.dirname(os.__file__), os.path.dirname(sys.executable)  # the standard library; torchrun and its like
PACKAGES = {"site-packages", "dist-packages"}
MOST_FRAMES = 40
MOST_FRAMES_IN_EVENT = 12
MOST_EVENT_BYTES = 4_000  # the console then never reads half a line: the system appends such writes at once
SHORTEST_ERROR = 300  # characters to which an error is cut before frames are left out
MOST_ERROR = 10_000  # characters
MOST_CHAINED = 10  # exceptions that were raised while the one before was handled
DIES_WITHIN_S = 0.3

Place = list[Any]  # file, line, function, and whether it is the user's own code


class ExitReason(NamedTuple):
    """Why a process ends."""

    error: str  # "Type: message"
    stack: list[Place]  # innermost first
    exit: int | None  # the exit code, if known
    failures: list[list[int | None]]  # of a launcher: rank, pid and exit code of each rank that has failed


class ProcessExit:
    """What is known of the end of this process."""

    def __init__(self) -> None:
        self.events = ""  # the file of events; empty: there is none
        self.forget()

    def forget(self) -> None:
        """Start anew, in a process that was just forked."""
        self.is_reported = False  # whether the console knows already why this process ends
        self.loader: list[tuple[int, int | None]] = []  # its workers when a fetch raised: pid, and exit code if known
        self.rank, self.world = variable("RANK"), variable("WORLD_SIZE")
        self.remark = ""  # what a hook has added to the error of a DDP, on a line of its own
        self._exit: tuple[int, ExitReason] | None = None  # the last sys.exit, with the id of its Unwinding

    def exits(self, code: Any, caller: FrameType) -> "Unwinding | None":
        """Note that sys.exit was called with a code that means failure. Returns what the frame of sys.exit must
        hold."""
        if threading.get_ident() != threading.main_thread().ident:
            return None  # only this thread ends
        handled = sys.exc_info()[1]
        if isinstance(handled, SystemExit) and self._exit is not None:
            failure = self._exit[1]._replace(exit=_exit_code(code))
        elif handled is not None and not isinstance(handled, SystemExit):
            failure = failure_of(handled)._replace(exit=_exit_code(code))
        else:
            failure = ExitReason(_error_of_exit(code, caller), stack_of(caller), _exit_code(code), [])
        unwinding = Unwinding()
        self._exit = id(unwinding), failure
        return unwinding

    def forget_exit(self, unwinding: "Unwinding") -> None:
        """Forget a sys.exit whose SystemExit the process has caught."""
        if self._exit is not None and self._exit[0] == id(unwinding):
            self._exit = None

    def failure(self, *, is_over: bool = True) -> ExitReason | None:
        """Why this process fails; None if it does not. is_over: the process ends now, so that an exception which is
        being handled is not caught any more."""
        found = self._failure(is_over=is_over)
        return found._replace(error=found.error + self.remark) if found is not None else None

    def _failure(self, *, is_over: bool) -> ExitReason | None:
        if sys.flags.interactive or hasattr(sys, "ps1"):  # there, an uncaught exception ends nothing
            return None
        handled = sys.exc_info()[1] if is_over else None
        if handled is not None and not isinstance(handled, SystemExit):
            return failure_of(handled)
        if (error := getattr(sys, "last_value", None)) is not None:
            return failure_of(error)
        if not is_over or (isinstance(handled, SystemExit) and not means_failure(handled.code)):
            return None
        if self._exit is not None:
            return self._exit[1]
        return failure_of(handled) if handled is not None else None

    def dead_workers(self) -> list[list[int]]:
        """Pid and exit code of the loader's workers that had died when a fetch raised, or do so within DIES_WITHIN_S:
        the connection to a worker that is killed ends before the worker does."""
        deadline = time.monotonic() + DIES_WITHIN_S
        while True:
            ended = [(pid, _exit_code_of_child(pid) if code is None else code) for pid, code in self.loader]
            dead = [[pid, code] for pid, code in ended if code]
            if dead or not self.loader or time.monotonic() > deadline:
                return dead
            time.sleep(0.01)

    def report(self) -> None:
        """Write an event if this process fails, and the console does not know yet."""
        if not self.is_reported and (failure := self.failure()) is not None:
            self.write("failed", failure)
            self.is_reported = True

    def joins(self, rank: int | None, world: int | None, caller: FrameType) -> None:
        """Write that this process begins to join its process group. rank, world: None if only the environment says."""
        self.rank = variable("RANK") if rank is None else rank
        self.world = variable("WORLD_SIZE") if world is None else world
        self.write("joins", ExitReason("", stack_of(caller), None, []))

    def joined(self, rank: int, world: int) -> None:
        """Write that this process has joined its process group."""
        self.rank, self.world = rank, world
        self.write("joined", ExitReason("", [], None, []))

    def thread_fails(self, error: BaseException) -> None:
        """Write that an exception has ended a thread, while the process goes on."""
        self.write("thread", failure_of(error))

    def write(self, what: str, failure: ExitReason) -> None:
        """Append an event to the file. Raises OSError."""
        if not self.events:
            return
        event = {
            "what": what,
            "at_ns": time.monotonic_ns(),
            "pid": os.getpid(),
            "ppid": os.getppid(),
            "rank": self.rank,
            "world": self.world,
            "launched": variable("WORLD_SIZE"),
            "attempt": variable("TORCHELASTIC_RESTART_COUNT") or 0,
            "error": failure.error,
            "stack": shortened(failure.stack, MOST_FRAMES_IN_EVENT),
            "exit": failure.exit,
            "failures": failure.failures,
            "workers": self.dead_workers() if what == "failed" else [],
        }
        descriptor = os.open(self.events, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, as_line(event))
        finally:
            os.close(descriptor)


class Unwinding:
    """Lies in the frame of sys.exit, and so lives as long as its SystemExit. The interpreter frees that one when no
    Python code runs any more. If Python code runs, it has caught the SystemExit, and the process goes on."""

    def __del__(self) -> None:
        try:
            if sys._getframe().f_back is not None:
                END.forget_exit(self)
        except Exception:  # the interpreter has cleared our modules
            pass


def means_failure(code: object) -> bool:
    """Whether sys.exit(code) ends a process as failed."""
    return not (code is None or (isinstance(code, int) and code == 0))


def failure_of(error: BaseException) -> ExitReason:
    """The failure of a process that an exception ends."""
    stack = _stack_of_error(error)
    if isinstance(error, SystemExit):
        return ExitReason(_error_of_exit(error.code, None), stack, _exit_code(error.code), [])
    code = None if isinstance(error, KeyboardInterrupt) else 1
    return ExitReason(as_text(error) + _origin(error), stack, code, _failures_of_ranks(error))


def _origin(error: BaseException) -> str:
    """The exception that the training handled when it raised this one, as a line; empty if there is none."""
    first = error
    for _ in range(MOST_CHAINED):
        before = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if before is None:
            break
        first = before
    if first is error or isinstance(first, StopIteration):
        return ""
    own, raised = (next((place for place in _stack_of_error(each) if place[3]), None) for each in (first, error))
    if own == raised:  # a library has only changed the exception
        return ""
    return f"\norigin: {own[0]}:{own[1]}: {as_text(first).splitlines()[0]}" if own else ""


def as_text(error: BaseException) -> str:
    """An exception as "Type: message"."""
    try:
        message = str(error)
    except Exception:  # the training's own class
        message = ""
    return ": ".join(filter(None, [type(error).__name__, message]))[:MOST_ERROR]


def stack_of(frame: FrameType | None) -> list[Place]:
    """A frame and its callers."""
    places: list[Place] = []
    while frame is not None:
        if not is_ours(frame.f_code):
            places.append(place_of(frame.f_code, frame.f_lineno or 0))
        frame = frame.f_back
    return shortened(places, MOST_FRAMES)


def has_lock() -> bool:
    """Whether this Python has a global lock: without it, no frame of a running thread may be read."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def shortened(stack: list[Place], most: int) -> list[Place]:
    """The innermost `most` frames of a stack. If none is the user's, the innermost one that is replaces the last."""
    kept, rest = stack[:most], stack[most:]
    if not any(own for *_, own in kept):
        kept[most - 1 :] = next(([place] for place in rest if place[3]), kept[most - 1 :])
    return kept


def as_line(event: dict[str, Any]) -> bytes:
    """An event as a line of at most MOST_EVENT_BYTES: first its error is cut, then its stack."""
    while len(line := json.dumps(event).encode() + b"\n") > MOST_EVENT_BYTES:
        if len(event["error"]) > SHORTEST_ERROR or not event["stack"]:
            event["error"] = event["error"][: len(event["error"]) * 3 // 4]
        else:
            del event["stack"][-1]
        if not event["error"] and not event["stack"]:
            event["failures"], event["workers"] = event["failures"][:9], event["workers"][:9]
    return line


def _stack_of_error(error: BaseException) -> list[Place]:
    """The frames that an exception has passed, then the callers of the one that handles it."""
    traceback = error.__traceback__
    callers = stack_of(traceback.tb_frame.f_back) if traceback is not None else []
    places: list[Place] = []
    while traceback is not None:
        if not is_ours(code := traceback.tb_frame.f_code):
            places.append(place_of(code, traceback.tb_lineno or 0))
        traceback = traceback.tb_next
    return shortened(places[::-1] + callers, MOST_FRAMES)


def place_of(code: CodeType, line: int) -> Place:
    """A line of code, as the console knows it."""
    file = code.co_filename
    is_own = not (
        file.startswith(("<", *(folder + os.sep for folder in FOREIGN))) or PACKAGES.intersection(file.split(os.sep))
    )
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # the current folder was removed
        here = "/"
    if here != "/" and file.startswith(here):
        file = file[len(here) :]
    return [file, line, getattr(code, "co_qualname", code.co_name), is_own]


def is_ours(code: CodeType) -> bool:
    """Whether this is code of ddptui."""
    return code.co_filename.startswith(WORKERS + os.sep)


def _error_of_exit(code: Any, caller: FrameType | None) -> str:
    """What a sys.exit says, without an exception before it. caller: the frame that called sys.exit."""
    if caller and caller.f_globals.get("__name__") == "argparse" and caller.f_code.co_name == "exit":
        message = caller.f_locals.get("message")  # of the standard library's frame, none of the training's
        if isinstance(message, str) and message.strip():
            return message.strip()[:MOST_ERROR]
    return code[:MOST_ERROR] if isinstance(code, str) else f"SystemExit: {_exit_code(code)}"


def _exit_code(code: object) -> int:
    """The exit code that Python makes of what SystemExit carries."""
    return int(code) & 0xFF if isinstance(code, int) else int(code is not None)


def _exit_code_of_child(pid: int) -> int | None:
    """The exit code of a child that has ended, negative for a signal; None if it runs. Leaves it to the loader to reap
    the child: torch raises an error for one that it finds dead."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, OSError):  # a system without it; reaped
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _failures_of_ranks(error: BaseException) -> list[list[int | None]]:
    """Rank, pid and exit code of each rank whose failure an exception of torch's launchers reports."""
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] == "torch"}
    of: Any = error
    if "ChildFailedError" in names:
        return [[int(rank), failure.pid, failure.exitcode] for rank, failure in of.failures.items()]
    if "ProcessException" in names:
        return [[of.error_index, of.error_pid, getattr(error, "exit_code", 1)]]
    return []


def variable(name: str) -> int | None:
    """A variable of the environment as a number; None if it is none."""
    value = os.environ.get(name, "")
    return int(value) if value.isdecimal() else None


END = ProcessExit()
os.register_at_fork(after_in_child=END.forget)
