"""A check of the GPU report: what it asks, what is expected, and how its verdict comes about."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from ddptui.analysis.results import Results
from ddptui.doctor.gpu_report.plans import Plan
from ddptui.wire.records import Message

Verdict = Literal["ok", "NOT AS EXPECTED", "not run"]


class Observed(NamedTuple):
    """What was observed, in words, and whether that is as expected."""

    ok: bool
    text: str


class Recorded(NamedTuple):
    """What a run has left: its results, and by trial the messages of its journal."""

    results: Results
    messages: Mapping[str, Sequence[Message]]


class Impossible(Exception):
    """A check cannot be run here. One line that says what is lacking."""


class Failure(Exception):
    """What a check started did not come to its end. One line that says why."""


class Bench(Protocol):
    """What runs things for a check. facts: what the probe knows of this torch."""

    facts: Mapping[str, Any]

    def ask(self, question: str, within_s: float) -> dict[str, Any]:
        """The answer of the probe. Raises Failure."""

    def run(self, plan: Plan, within_s: float) -> Recorded:
        """What a run has left. Raises Impossible if it is refused, Failure if it has left nothing."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check."""

    name: str
    question: str
    expected: str
    run: Callable[[Bench, float], Observed]  # within so many s. Raises Impossible, Failure
    gpus: int = 1  # that it needs
    minutes: float = 3.0  # at most


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a check came out."""

    name: str
    question: str
    expected: str
    verdict: Verdict
    observed: str  # or why it was not run
    took_s: float = 0.0
    log: tuple[str, ...] = ()  # the last lines, if it was not as expected


def result_of(check: Check, verdict: Verdict, observed: str, took_s: float = 0.0, log: Iterable[str] = ()) -> Result:
    """The result of a check. The log is kept where a reader needs it."""
    return Result(
        name=check.name,
        question=check.question,
        expected=check.expected,
        verdict=verdict,
        observed=observed,
        took_s=took_s,
        log=tuple(log) if verdict == "NOT AS EXPECTED" else (),
    )


def together(parts: Iterable[Observed]) -> Observed:
    """Several observations as one, which is as expected if all are. What is not comes first, with a mark."""
    ordered = sorted(parts, key=lambda part: part.ok)
    return Observed(
        all(part.ok for part in ordered),
        "; ".join(part.text if part.ok else f"✗ {part.text}" for part in ordered if part.text),
    )
