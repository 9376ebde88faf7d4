"""How findings read: the sentences that are pinned. All other tests assert findings, not words."""

import string
from typing import Any

import pytest

from ddptui.analysis.finding import Finding, Kind
from ddptui.findings.words import EVIDENCE, FOUND, evidence, in_sentences, short
from ddptui.text.words import seconds
from tests.support.printed import long

LATE = {"late_ms": 20.0, "off_by_ms": 2.0, "of_waiting_share": 0.93, "share": 0.4, "in_backward_share": 1.0}
TIMES = {"ratio_times": 2.1, "low_times": 2.0, "high_times": 2.2, "repeats": 3.0}
ONE_REPEAT = {"ratio_times": 2.1, "low_times": 2.1, "high_times": 2.1, "repeats": 1.0}
WHOLE = {"work_s": 0.033, "whole_s": 0.033}
IDLE = {"share": 0.45, "wait_share": 0.33, "transfer_share": 0.12}


def found(kind: Kind, *trials: str, **fields: Any) -> Finding:
    """A finding; a field that it does not have is one of its numbers."""
    own = {name: value for name, value in fields.items() if name in Finding.__struct_fields__}
    numbers = {name: value for name, value in fields.items() if name not in own}
    return Finding(kind=kind, trials=trials, numbers=numbers, **own)


FINDINGS = {
    "Rank 1 holds everyone up: 20 ms a step, in backward": found(Kind.LATE_RANK, rank=1, phase="backward", **LATE),
    "Rank 1 holds everyone up: 20 ms a step (95%: 18.0 to 22.0 ms), in backward, in steps 300 to 339": found(
        Kind.LATE_RANK, rank=1, phase="backward", steps=(300, 339), **LATE | {"of_repeats": 1.0}
    ),
    "Rank 1 holds everyone up: 20 ms a step, in backward and forward": found(
        Kind.LATE_RANK, rank=1, **LATE | {"in_backward_share": 0.6, "in_forward_share": 0.4}
    ),
    "Rank 1 holds everyone up: 20 ms a step, in forward and between steps": found(
        Kind.LATE_RANK,
        rank=1,
        **LATE | {"in_backward_share": 0.0, "in_forward_share": 0.6, "in_between steps_share": 0.4},
    ),
    "Rank 1 holds everyone up: 20 ms a step, in every phase (× 1.31)": found(
        Kind.LATE_RANK, rank=1, phase="forward", **LATE | {"slower": 1.31}
    ),
    "Rank 0 holds everyone up, because other programs use its core": found(Kind.NO_CORE, rank=0),
    "The others waited for rank 0 40% of the time; the cause is uncertain, since 5 steps are few": found(
        Kind.UNCERTAIN, rank=0, doubt="5 steps are few", **LATE
    ),
    "Mostly waiting: ranks stood idle 33% of the time for a late rank, 12% in transfers": found(Kind.WAITING, **IDLE),
    "Mostly the network: ranks stood idle 33% of the time in transfers, 12% for a late rank": found(
        Kind.NETWORK, share=0.45, wait_share=0.12, transfer_share=0.33
    ),
    "Ranks stood idle 10% of the time to hand over outputs, 4% for a late rank": found(
        Kind.NETWORK, place="gather", share=0.14, wait_share=0.04, transfer_share=0.1
    ),
    "Data loading is the bottleneck on all ranks: 41% of the time, 1.94 ms a step": found(
        Kind.DATA, share=0.41, step_ms=1.94, low_share=0.37, high_share=0.43
    ),
    "Late by turns: 16 pauses of 150 ms in forward, 8 on each rank": found(
        Kind.BY_TURNS, phase="forward", times=16.0, pause_ms=150.0, rank_0_times=8.0, rank_1_times=8.0
    ),
    "In steps 50, 100 and 1 more, rank 1 waited 750 ms for rank 0 (between steps)": found(
        Kind.RARE_WAITS, rank=0, phase="between steps", steps=(50, 100), times=3.0, waited_s=0.75, waiting_rank=1.0
    ),
    "Rank 1 is late in 1 step of 10, by 150 ms, in data (6 times)": found(
        Kind.BURSTS, rank=1, phase="data", every_steps=10.0, pause_ms=150.0, times=6.0
    ),
    "Rank 1 grows late over the run: from 0 ms to 50 ms a step": found(Kind.TREND, rank=1, from_ms=-1.0, to_ms=50.0),
    "Most of the communication is 10 all_gathers of 8 bytes a step, in optimizer": found(
        Kind.SMALL_CALLS, place="all_gather", phase="optimizer", calls=10.0, bytes=8.0
    ),
    "4 of 60 measured steps took more than twice the median (worst: step 13, 112 ms)": found(
        Kind.SLOW_STEPS, steps=(13,), times=4.0, of=60.0, worst_ms=112.0
    ),
    "We injected 1.21 s on rank 1, in backward; ddptui measured 1.23 s (95%: 1.20 to 1.25 s)": found(
        Kind.INJECTED, rank=1, phase="backward", injected_s=1.21, measured_s=1.23, low_s=1.2, high_s=1.25
    ),
    "We injected 5 ms on rank 1, in forward; not attributed: too small or too uncertain": found(
        Kind.INJECTED, rank=1, phase="forward", doubt="too small or too uncertain", injected_s=0.005
    ),
    "We injected 13 ms on rank 1, before the first step; ddptui measured 14 ms there (outside the train time)": found(
        Kind.INJECTED, rank=1, phase="start", injected_s=0.013, at_start_s=0.014
    ),
}
SENTENCES = {
    "b took 2.10 ± 0.10 times as long as a; 33 ms of the extra 33 ms went into own work.": [
        found(Kind.SLOWER, "b", place="a", **TIMES | WHOLE | {"off_times": 0.1})
    ],
    "b took about 2.10 times as long as a.": [
        found(Kind.SLOWER, "b", place="a", **TIMES | {"low_times": 2.1, "high_times": 2.1, "repeats": 1})
    ],
    "b took roughly 2.00 to 2.20 times as long as a; c took roughly 2.00 to 2.20 times as long as a.": [
        found(Kind.ROUGHLY, name, place="a", **TIMES) for name in "bc"
    ],
    "The other trials took roughly 2.00 (b) to 2.20 (c) times as long as a.": [
        found(Kind.ROUGHLY, "b", "c", place="a", **TIMES)
    ],
    "b took as long as a, as far as 3 repeats can tell.": [found(Kind.ALIKE, "b", place="a", **TIMES)],
    "b and c took as long as a, as far as 3 repeats can tell.": [found(Kind.ALIKE, "b", "c", place="a", **TIMES)],
    "Cannot tell whether b differs from a: 3 repeats of b differ by 70%.": [
        found(Kind.UNCLEAR, "b", place="a", doubt="3 repeats of b differ by 70%")
    ],
    "b was the fastest: it took 2.10 ± 0.10 times as long as a; 33 ms of the 33 ms saved came from transfer.": [
        found(Kind.FASTEST, "b", place="a", **TIMES | {"off_times": 0.1, "transfer_s": -0.033, "whole_s": -0.033})
    ],
    "b and c were the slowest, too close to call: b took 2.10 ± 0.10 times as long as a.": [
        found(Kind.SLOWEST, "b", "c", place="a", **TIMES | {"off_times": 0.1})
    ],
    "b took about 2.10 times as long as a; 30 ms of the 33 ms saved came from waiting for a late rank.": [
        found(Kind.FASTER, "b", place="a", **ONE_REPEAT | {"culprit_wait_s": -0.03, "whole_s": -0.033})
    ],
    "late took about 2.10 times as long as even; 749 ms were injected, and the train time grew by 562 ms.": [
        found(Kind.SLOWER, "late", place="even", **ONE_REPEAT | {"longer_s": 0.562, "slept_s": 0.749})
    ],
    "The loss is nearly the same in all trials: 1.429 to 1.467.": [
        found(Kind.SAME_LOSS, "a", "b", place="all trials", low_loss=1.429, high_loss=1.467)
    ],
    "The loss differs: from 0.300 (b) to 1.500 (a).": [found(Kind.OTHER_LOSS, "b", "a", low_loss=0.3, high_loss=1.5)],
    "The others wait for rank 2, which is delayed: ddptui measured a delay of 20.0 to 21.3 ms a step in a"
    "ll 4 trials.": [found(Kind.DELAY_FOUND, "a", "b", "c", "d", rank=2, low_ms=20.0, high_ms=21.3, of_trials=4.0)],
    "Under ring, rank 1 waits for rank 0, which waits for rank 2.": [
        found(Kind.CHAIN, "ring", rank=1, for_rank=0.0, then_rank=2.0)
    ],
    "Rank 1 was identified as the cause from 10 ms a step on, and not at 2 ms.": [
        found(Kind.FOUND_FROM, rank=1, from_ms=10.0, missed_ms=2.0)
    ],
    "The checks found 6 of 7 mistakes; again passes every check.": [
        found(Kind.MISTAKES, "again", found=6.0, mistakes=7.0)
    ],
    'The check "in sync" fails in a and b; the check "average" fails in c.': [
        found(Kind.CHECK_FAILS, "a", "b", place="in sync"),
        found(Kind.CHECK_FAILS, "c", place="average"),
    ],
    "7 of 7 faults ended the trial with a reason that names rank 1.": [
        found(Kind.FAULTS_NAMED, rank=1, found=7.0, faults=7.0)
    ],
    "small hid 66% of its communication behind backward; flat hid nothing.": [
        found(Kind.OVERLAP, "small", share=0.66),
        found(Kind.OVERLAP, "flat"),
    ],
    "With the same global batch, 4 ranks trained on 1.80 times as many samples a second as 1 (ideal: 4).": [
        found(Kind.SPEEDUP, "4", ranks=4.0, base_ranks=1.0, speedup_times=1.8, ideal_times=4.0)
    ],
    "On 2 ranks the fastest way to average is ring from 1 MB on.": [
        found(
            Kind.FASTEST_WAY,
            place="ring",
            ranks=2.0,
            first_bytes=2.0**20,
            last_bytes=2.0**26,
            smallest_bytes=4.0,
            largest_bytes=2.0**26,
        )
    ],
    "Of the published order (a < b < c), this run swaps c before b.": [
        found(Kind.PUBLISHED_SWAPPED, "a", "b", "c", doubt="c before b")
    ],
}


@pytest.mark.parametrize(("words", "finding"), FINDINGS.items(), ids=FINDINGS)
def test_a_finding_reads(words: str, finding: Finding) -> None:
    assert short(finding) == words


@pytest.mark.parametrize(("words", "findings"), SENTENCES.items(), ids=SENTENCES)
def test_an_answer_reads(words: str, findings: list[Finding]) -> None:
    assert in_sentences(findings) == [words]


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"cpu_times": 1.6}, "It used 1.6 × the CPU time of the others: it has more work, and did not lack a core"),
        (
            {"cpu_times": 1.3, "in_backward_share": 0.4, "in_forward_share": 0.3},
            "It used 1.3 × the CPU time of the others: it has more work, or a slower core",
        ),
        (
            {"blocked_share": 0.9},
            "It did not compute meanwhile: it slept, or waited for a file, a lock or another process",
        ),
        ({"without_s": 0.42, "train_s": 1.54}, "Without its delay: about 0.42 s instead of 1.54 s"),
    ],
)
def test_the_evidence_of_a_late_rank(numbers: dict[str, float], words: str) -> None:
    caused = "Rank 1 caused 93% of the waiting for late ranks: the others waited for it 40% of the time"
    assert evidence(Finding(kind=Kind.LATE_RANK, rank=1, numbers=LATE | numbers)) == f"{caused}. {words}"


def test_what_a_trial_would_take_without_a_delay_is_not_said_where_that_is_the_same_time() -> None:
    numbers = LATE | {"without_s": 4.108, "train_s": 4.112}
    assert "Without" not in evidence(Finding(kind=Kind.LATE_RANK, rank=1, numbers=numbers))


def test_finding_evidence_and_remedy_are_a_sentence_each() -> None:
    finding = Finding(kind=Kind.NO_CORE, rank=0, numbers={"queued_ms": 9.0}, action="End those programs")
    assert long(finding) == (
        "Rank 0 holds everyone up, because other programs use its core. "
        "It queued for a core 9 ms a step longer than the others. End those programs"
    )


def test_every_kind_has_words() -> None:
    assert FOUND.keys() == {*Kind}
    assert EVIDENCE.keys() < FOUND.keys()


def test_a_name_may_hold_anything() -> None:
    """A trial's name is a user's own: braces and brackets in it are nothing of a template."""
    name = "{rank}[a|b]"
    for kind, template in FOUND.items():
        fields = {field for _, field, *_ in string.Formatter().parse(template)} if isinstance(template, str) else {""}
        if fields - {None} == {"names"}:
            assert name in short(Finding(kind=kind, trials=(name,))), kind
    assert name in short(Finding(kind=Kind.PUBLISHED_HOLDS, trials=(name, "b")))


def test_seconds_are_told_with_three_digits() -> None:
    said = [seconds(value) for value in (0.0, 0.0000123, 0.0256, 0.9994, 1.0, 12.345)]
    assert said == ["0 ms", "12.3 µs", "25.6 ms", "999 ms", "1 s", "12.3 s"]
