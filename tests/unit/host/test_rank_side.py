"""A child process that answers questions: real ones, some of which die, hang or print something else."""

import errno
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ddptui.host.rank_side import Child, NoAnswer
from tests.support.failing import failing_with
from tests.support.runner import survivors

FAKE = """
import json, os, subprocess, sys, time
for line in sys.stdin:
    question = line.strip()
    if question == "die":
        print("a traceback", file=sys.stderr)
        sys.exit("SomeError: the last line")
    if question == "crash":
        os.kill(os.getpid(), 11)
    if question == "hang":
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(os.environ["STARTED"], "w").write(str(started.pid))
        time.sleep(60)
    wrong = {"garbage": "[[", "fail": json.dumps({"error": "it did not work"})}
    print(wrong.get(question, json.dumps({"pid": os.getpid()})), flush=True)
"""


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("die", "SomeError: the last line"),
        ("crash", "was killed by SIGSEGV"),
        ("fail", "it did not work"),
        ("garbage", "could not be started, or its answer not parsed"),
    ],
)
def test_who_dies_or_fails_says_why_and_another_answers(
    question: str, why: str, module: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Child(module(FAKE)) as asked:
        with pytest.raises(NoAnswer) as no:
            asked.ask(question)
        assert why in str(no.value)
        assert "\n" not in str(no.value)
        assert asked.ask("anything")["pid"] > 0
    monkeypatch.setattr(subprocess, "Popen", failing_with(errno.EAGAIN))
    with Child("workers.doctor.host") as asked, pytest.raises(NoAnswer, match="Resource temporarily unavailable"):
        asked.ask("clock")


def test_a_process_that_hangs_is_killed_with_its_family(module: Callable[[str], str], tmp_path: Path) -> None:
    with Child(module(FAKE), STARTED=str(tmp_path / "started")) as asked:
        first = asked.ask("anything")["pid"]
        begin = time.monotonic()
        with pytest.raises(NoAnswer, match=r"no answer within 1\.5 s"):
            asked.ask("hang", within_s=1.5)
        assert time.monotonic() - begin < 10
        assert not psutil.pid_exists(first)
        with suppress(psutil.NoSuchProcess):
            assert not survivors([psutil.Process(int((tmp_path / "started").read_text()))], timeout_s=10)
        assert asked.ask("anything")["pid"] != first
    with suppress(KeyboardInterrupt), Child(module(FAKE)) as asked:
        last = asked.ask("anything")["pid"]
        raise KeyboardInterrupt
    assert not psutil.pid_exists(last)  # at once


def test_what_is_printed_besides_is_no_answer_and_an_error_is_one(module: Callable[[str], str]) -> None:
    text = """
from workers.doctor.answers import answer, by_name
def noisy():
    print("a note of NCCL's", flush=True)
    return {"right": 1}
def broken():
    raise ValueError("first line\\nsecond line")
def rank():
    raise RuntimeError("\\n-- Process 1:\\nTraceback (most recent call last):\\n  a line\\nKeyError: 'x'\\n")
answer(by_name(noisy, broken, rank))
"""
    with Child(module(text)) as asked:
        assert asked.ask("noisy") == {"right": 1}
        for question, why in (("broken", "ValueError: first line"), ("rank", "KeyError: 'x'")):
            with pytest.raises(NoAnswer) as no:
                asked.ask(question)
            assert str(no.value) == why
