"""The sampler: which line of the user's code a thread is on."""

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from weakref import ref

import pytest

from workers.instruments.sampler import COLLECTION, Named, Sample, Sampler, frames_of

RATE = 200


def name(code: CodeType) -> Named:
    own = code.co_filename == __file__
    return (code.co_filename, code.co_name, own) if own else None


@contextmanager
def sampling(name: Callable[[CodeType], Named] = name) -> Iterator[Sampler]:
    sampler = Sampler(threading.get_ident(), name)
    sampler.per_s = RATE
    thread = threading.Thread(target=sampler.run)
    thread.start()
    try:
        yield sampler
    finally:
        sampler.close()
        thread.join()


def slow_call() -> None:
    time.sleep(0.3)


def busy(seconds: float) -> int:
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        total += 1
    return total


def shares(sampler: Sampler) -> Counter[str]:
    times = Counter[str]()
    for sample in sampler.taken():
        times[sample.stack[0][2] if sample.stack else ""] += sample.ns
    whole = sum(times.values())
    return Counter({function: round(100 * ns / whole) for function, ns in times.items()})


def test_the_line_is_the_one_that_runs_and_its_caller_the_next_function_of_the_users_code() -> None:
    def outer() -> None:
        (lambda: slow_call())()

    with sampling() as sampler:
        outer()
    [(stack, _)] = Counter(sample.stack for sample in sampler.taken()).most_common(1)
    assert [place[2] for place in stack] == ["slow_call", "<lambda>"]
    assert stack[0][1] == slow_call.__code__.co_firstlineno + 1


def test_the_samples_stand_for_the_time_that_has_passed() -> None:
    begin = time.monotonic_ns()
    with sampling() as sampler:
        busy(0.3)
        slow_call()
    passed, counted = time.monotonic_ns() - begin, sum(sample.ns for sample in sampler.taken())
    assert passed * 0.8 < counted < passed * 1.2


def test_a_call_that_keeps_the_lock_gets_the_samples_that_were_due_meanwhile() -> None:
    numbers = [*range(1_000_000)]

    def sorts() -> None:
        for _ in range(3):
            sorted(numbers, key=str)

    with sampling() as sampler:
        sorts()
    assert shares(sampler)["sorts"] > 90


def test_samples_say_how_long_the_thread_kept_the_lock() -> None:
    def kept(samples: Sequence[Sample]) -> float:
        return sum(sample.held_ns >= 5_000_000 for sample in samples) / len(samples)

    with sampling() as sampler:
        busy(0.4)
        in_python = sampler.taken()
        slow_call()
        asleep = sampler.taken()
    assert kept(in_python) > kept(asleep) + 0.2


def test_garbage_collections_are_told_apart() -> None:
    kept = [[[number]] for number in range(300_000)]

    def collects() -> None:
        for _ in range(10):
            gc.collect()

    with sampling() as sampler:
        collects()
    assert shares(sampler)[COLLECTION] > 50
    del kept


def test_code_of_a_library_stands_in_where_no_frame_is_the_users() -> None:
    def library(code: CodeType) -> Named:
        return ("lib.py", code.co_name, False) if code.co_filename == __file__ else None

    with sampling(library) as sampler:
        slow_call()
    file, _, function, own = Counter(stack[0] for _, _, _, stack, _ in sampler.taken()).most_common(1)[0][0]
    assert (file, function, own) == ("lib.py", "slow_call", False)


def test_no_frame_outlives_the_look_at_it() -> None:
    """A frame would keep the variables of its function alive: in a training, activations."""

    class Big:
        pass

    looked = threading.Event()
    held: list[ref[Big]] = []

    def works() -> None:
        big = Big()
        held.append(ref(big))
        looked.wait()

    thread = threading.Thread(target=works)
    thread.start()
    while not held:
        time.sleep(0.001)
    frames = frames_of(thread.ident or 0)
    assert "works" in [code.co_name for code, _ in frames]
    looked.set()
    thread.join()
    assert held[0]() is None


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_the_training_has_set_it(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    try:
        for _ in range(100):
            assert frames_of(threading.get_ident())
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


def test_no_collection_runs_while_frames_are_read() -> None:
    """In Python 3.11 it could run Python code halfway, and the frames would be gone."""
    ran: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        ran.append(sys._getframe(1).f_code.co_name)

    threshold = gc.get_threshold()
    gc.callbacks.append(note)
    gc.set_threshold(1)
    try:
        for _ in range(200):
            frames_of(threading.get_ident())
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(note)
    assert ran  # collections did run, between the reads
