"""Trainings in two runs: the table's columns, the figures for scripts, and whether B was faster or slower."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from ddptui.analysis.counted import counted, is_rough
from ddptui.analysis.effect import off
from ddptui.analysis.results import Ratio, RepeatResult, TrialResult
from ddptui.report.rows import (
    DISTURBED,
    OFF_BY,
    Figure,
    culprit_of,
    grouped,
    is_held_back,
    is_marked,
    median_figure,
    median_of,
    mfu_percent,
    status_of,
)
from ddptui.report.run_diff.pairs import ABOUT_TRIAL, ALIKE, RANGE, Pair, doubt, train_times
from ddptui.text.tables import Column, value_at
from ddptui.text.units import NOTHING
from ddptui.text.words import listed, sentence

MOST_NAMED = 3  # trials in a clause
SPOILT = f"{DISTURBED} every repeat was disturbed by other programs, or changed by hand"
SLOWED = f"{DISTURBED} heat or the power supply slowed a GPU"


def answer(both: Sequence[Pair]) -> str:
    """Whether B was faster or slower, and what cannot be told, in one to three sentences."""
    doubts = grouped((why, pair.name) for pair in both if (why := doubt(pair)))
    certain = [pair for pair in both if not doubt(pair)]
    findings = grouped((times.finding, pair) for pair in certain if (times := train_times(pair)))
    clauses = [_found(finding, findings[finding]) for finding in ("slower", "faster") if finding in findings]
    if alike := [pair.name for pair in findings.get(ALIKE, [])]:
        why = "" if clauses else ": what the repeats differ by can be chance"
        clauses.append(f"no difference was seen in {listed(alike, MOST_NAMED)}{why}")
    sentences = ["; ".join(clauses)] if clauses else []
    if doubts:
        is_all = not clauses and len(doubts) == 1
        reasons = [why if is_all else f"{why} ({listed(names, MOST_NAMED)})" for why, names in doubts.items()]
        sentences.append(f"cannot tell: {'; '.join(reasons)}")
        if any(why.startswith("one repeat") for why in doubts):
            sentences.append("take more `--repeats`")
    return " ".join(map(sentence, sentences))


def _found(finding: str, found: Sequence[Pair]) -> str:
    """B was 1.29 ± 0.05 times slower than A in ddp; of several trials, those that differ most come first."""
    factors = {pair.name: times.factor for pair in found if (times := train_times(pair))}
    names = sorted(factors, key=lambda name: -factors[name].median)
    if len(names) == 1:
        return f"B was {_off_by(factors[names[0]])} times {finding} than A in {names[0]}"
    each = [f"{name} ({_off_by(factors[name])} times)" for name in names]
    return f"B was {finding} than A in {listed(each, MOST_NAMED)}"


def _off_by(ratio: Ratio) -> str:
    return f"{ratio.median:.2f} {OFF_BY} {off(ratio):.2f}"


def notes(both: Sequence[Pair]) -> list[str]:
    """How to read the table."""
    ranged = any(_range(pair) != NOTHING for pair in both)
    spoilt = any(is_rough(trial.repeats) for pair in both for trial in pair.both)
    slowed = any(is_held_back(trial) for pair in both for trial in pair.both)
    return [RANGE] * ranged + [SPOILT] * spoilt + [SLOWED] * slowed


def _verdict(pair: Pair) -> str:
    if why := doubt(pair):
        return f"cannot tell: {why}"
    times = train_times(pair)
    return NOTHING if times is None else ALIKE if times.finding == ALIKE else f"B {times.finding}"


def _train(trial: TrialResult) -> str:
    if trial.summary is None:
        return status_of(trial) or "not reached"
    return f"{trial.summary.train_time_s.median:.2f}" + f" {DISTURBED}" * is_marked(trial)


def _ratio(pair: Pair) -> str:
    times = train_times(pair)
    return f"{times.ratio.median:.2f}" if times else NOTHING


def _range(pair: Pair) -> str:
    times = train_times(pair)
    return f"{times.ratio.low:.2f}…{times.ratio.high:.2f}" if times and not doubt(pair) else NOTHING


def _both(name: str, form: str = "") -> Callable[[Pair], str]:
    """A median over the repeats in both runs, A's first."""
    return lambda pair: _change(*(median_of(trial, SHOWN[name], form) for trial in pair.both))


def _change(a: str, b: str) -> str:
    return NOTHING if a == b == NOTHING else f"{a} → {b}"


MEDIANS: dict[str, Figure] = {
    "wait_ms": lambda repeat: repeat.wait_ms,
    "transfer_ms": lambda repeat: repeat.transfer_ms,
    "loss": lambda repeat: repeat.loss.last,
    "tflops": lambda repeat: repeat.tflops,
    "mfu": lambda repeat: repeat.mfu,
    "joules_a_step": lambda repeat: repeat.joules_a_step,
}
SHOWN = MEDIANS | {"mfu": mfu_percent}
OF_REPEATS = "the median over the repeats that count"
COLUMNS: tuple[Column[Pair], ...] = (
    Column("trial", lambda pair: pair.name, 100, left=True, about=ABOUT_TRIAL),
    Column("A train s", lambda pair: _train(pair.a), 98, about=f"The train time in run A, {OF_REPEATS}."),
    Column("B train s", lambda pair: _train(pair.b), 97, about=f"The train time in run B, {OF_REPEATS}."),
    Column("B / A", _ratio, 99, about="B's train time over A's: above 1, B was slower."),
    Column("range", _range, 95, about="The least and the largest B / A that the repeats allow; empty for one repeat."),
    Column(
        "so B is",
        _verdict,
        96,
        left=True,
        about="Faster or slower, if every repeat of B was, and by more than chance; else no difference is seen, or what"
        " prevents a comparison.",
    ),
    Column("wait ms", _both("wait_ms", ".2f"), 90, about="Waiting a step in A → in B, as in each run's own table."),
    Column("transfer ms", _both("transfer_ms", ".2f"), 89, about="Transfer a step in A → in B."),
    Column(
        "waits for",
        lambda pair: _change(culprit_of(pair.a), culprit_of(pair.b)),
        91,
        left=True,
        about="The rank that all others waited for in A → in B, and in which phase it was late.",
    ),
    Column("loss", _both("loss", ".3f"), 88, about="The loss at the end in A → in B, the median over repeats."),
    Column("MFU %", _both("mfu", ".1f"), 94, about="The MFU of all GPUs in A → in B, as in each run's own table."),
    Column("TFLOP/s", _both("tflops"), 93, about="TFLOP/s a rank in A → in B, as in each run's own table."),
    Column("J/step", _both("joules_a_step"), 92, about="Joules per step, all GPUs together, in A → in B."),
)


def _figures(run: Literal["a", "b"]) -> dict[str, str | Callable[[Pair], object]]:
    """Those of one run."""
    time, culprit = f"{run}.summary.train_time_s", f"{run}.summary.culprit"
    return {
        f"{run}_status": f"{run}.status",
        f"{run}_repeats": lambda pair: len(counted(getattr(pair, run).repeats)),
        f"{run}_train_s": f"{time}.median",
        f"{run}_train_s_min": f"{time}.min",
        f"{run}_train_s_max": f"{time}.max",
        **{f"{run}_{name}": partial(_median, run, figure) for name, figure in MEDIANS.items()},
        f"{run}_culprit": f"{culprit}.rank",
        f"{run}_culprit_phase": f"{culprit}.phase",
    }


def _median(run: str, figure: Callable[[RepeatResult], float | None], pair: Pair) -> float | None:
    return median_figure(getattr(pair, run), figure)


# In JSON and CSV: the path of the value from the pair, or what computes it. Scripts read these names: never rename.
FIGURES: dict[str, str | Callable[[Pair], object]] = {
    "trial": "name",
    "finding": lambda pair: None if doubt(pair) else value_at(train_times(pair), "finding"),
    "doubt": lambda pair: doubt(pair) or None,
    "ratio": lambda pair: value_at(train_times(pair), "ratio.median"),
    "ratio_low": lambda pair: None if doubt(pair) else value_at(train_times(pair), "ratio.low"),
    "ratio_high": lambda pair: None if doubt(pair) else value_at(train_times(pair), "ratio.high"),
    **_figures("a"),
    **_figures("b"),
    **{f"{run}_trial": f"{run}.name" for run in "ab"},
}
