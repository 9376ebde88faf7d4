"""Fills the templates of findings/words.py and words_zh.py. Pure.

A template names its values in braces. A number is written in the unit that its name ends in: {late_ms} is 20 ms,
{share} is 12%, {steps:step} is 3 steps. {names} are the trials, {first} and {last} two of them. Any other name is that
of a phrase of the language, a template itself: {where} is "in backward" or "between steps".

Of [one|another|a third], the first is shown whose names all have a value; none if there is none. `[name?one|another]`
shows the first if that name has a value, no matter what is in it. A number of 0 counts as no value, except the number
of a rank.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import BUSY_WORKERS, IDLE_WORKERS, MUCH, NAMED_PART, OFTEN_ON_DISK, UNEXPLAINED
from ddptui.text.words import MOST_LISTED, MS, S, count, seconds, size, time_range
from ddptui.wire.phases import BETWEEN, PARTS

CHOICE, NAME, CONDITION = re.compile(r"\[([^\[\]]*)\]"), re.compile(r"\{(\w+)"), re.compile(r"(?:(\w+)\?)?(.*)", re.S)
ENDS = {"low": "high", "first": "last"}  # how the names of both ends of a span begin
WORDED_PLACES = (Kind.CALLS, Kind.SAME_BATCHES)  # whose place is words, not a name
IN_S = {"s": 1.0, "ms": MS / S}


class Language(NamedTuple):
    """The templates of a language."""

    found: Mapping[Kind, str]
    evidence: Mapping[Kind, str]
    phrases: Mapping[str, str]
    parts: Mapping[str, str]  # the names of the parts of a time
    to: str  # between the ends of a span
    clauses: str  # between two clauses
    listed: Callable[[Sequence[str], int], str]  # names in a row, at most so many
    translated: Callable[[str], str]  # a doubt or a place, which rules word in English


class Number(float):
    """A number that is written in its unit, unless a format says otherwise; a noun as format counts with it."""

    def __new__(cls, name: str, value: float) -> "Number":
        number = float.__new__(cls, value)
        number.unit = name.rsplit("_", 1)[-1] if name != "times" else ""  # which is a count
        return number

    unit: str

    def __format__(self, form: str) -> str:
        if form.isalpha():
            return count(round(self), form)
        return format(float(self), form) if form else UNITS.get(self.unit, "{:.0f}".format)(float(self))


UNITS: Mapping[str, Callable[[float], str]] = {
    "s": seconds,
    "ms": lambda ms: seconds(ms * MS / S),
    "share": "{:.0%}".format,
    "times": "{:.2f}".format,
    "slower": "{:.2f}".format,
    "loss": "{:.3f}".format,
    "bytes": lambda size_: count(round(size_), "byte") if size_ < 1024 else size(size_),
}


def filled(template: str, values: Mapping[str, object]) -> str:
    """The template with its values."""

    def chosen(choice: re.Match[str]) -> str:
        for alternative in choice[1].split("|"):
            condition, text = CONDITION.fullmatch(alternative).groups()  # type: ignore[union-attr]
            if all(_is_known(name, values) for name in ([condition] if condition else NAME.findall(text))):
                return str(text)
        return ""

    while (text := CHOICE.sub(chosen, template)) != template:  # from the inside out
        template = text
    return template.format_map(values)


def _is_known(name: str, values: Mapping[str, object]) -> bool:
    try:
        return bool(values[name] or name.endswith("rank"))
    except KeyError:
        return False


class Values(dict[str, object]):
    """What the names in a template stand for: a finding's numbers and fields, and the phrases of a language."""

    def __init__(self, finding: Finding, language: Language) -> None:
        numbers, names, place = finding.numbers, finding.trials or ("",), finding.place
        super().__init__({name: Number(name, value) for name, value in numbers.items()})
        self._finding, self._language = finding, language
        texts = {"rank": finding.rank, "phase": finding.phase, "place": place}
        self |= {name: text for name, text in texts.items() if text is not None}
        if place and finding.kind in WORDED_PLACES:
            self["place"] = language.translated(place)
        self |= {"names": self._list(names), "first": names[0], "last": names[-1], "order": " < ".join(names)}
        self |= {"doubt": language.translated(finding.doubt or ""), "several": len(finding.trials) > 1}
        self |= {"is_sure": finding.severity == "critical", "at_start": finding.phase == "start"}
        self |= {"no_group": place == "no group", "bypassed": place == "bypassed"}
        self._add_steps()
        self._add_parts()
        self._add_lines()
        self._add_workers()
        self._add_times()
        self._add_counts()

    def __missing__(self, name: str) -> str:
        """The phrase with this name."""
        self[name] = text = filled(self._language.phrases[name], self)
        return text

    def _list(self, names: Sequence[str], most: int = MOST_LISTED) -> str:
        return self._language.listed(names, most)

    def _phrase(self, name: str, **values: object) -> str:
        return filled(self._language.phrases[name], values)

    def _add_steps(self) -> None:
        steps = [*map(str, self._finding.steps)]
        more = max(0, round(self._finding.numbers.get("times", 0)) - len(steps))
        self |= {"several_steps": len(steps) + more > 1, "all_steps": len(steps) + more, "are_more": more}
        others = [self._phrase("more", number=more)] if more else []
        self |= {"step_list": self._list([*steps, *filter(None, others)], most=len(steps) + 1)}
        self |= {"step": steps[0] if steps else "", "last_step": steps[1] if len(steps) == 2 else ""}

    def _add_parts(self) -> None:
        """The parts of a step: those that a late rank lost much in, most first, or the finding's phase."""
        parts = named_parts(self._finding) or [self._finding.phase or ""]
        within = [part for part in parts if part and part != BETWEEN]
        self |= {"within": self._list(within), "between": BETWEEN in parts}
        self |= {"is_everywhere": "slower" in self or len(within) + (BETWEEN in parts) > 1}

    def _add_lines(self) -> None:
        lines = []
        for at, line in enumerate(self._finding.lines):
            by = line.by if at == 0 and self._finding.kind is not Kind.INJECTED else ""
            time, is_function = seconds(line.ms * MS / S), ", " in line.place
            values = {"time": time, "place": line.place, "by": by, "is_first": at == 0, "is_function": is_function}
            lines.append(self._phrase("on_line", **values))
        left, late = (self._finding.numbers.get(name, 0.0) for name in ("unexplained_ms", "late_ms"))
        if lines and left > UNEXPLAINED * late:
            lines.append(self._phrase("on_no_line", time=seconds(left * MS / S)))
        self |= {"lines": self._language.clauses.join(lines)}
        self |= {"line": self._finding.lines[0].place if lines else ""}

    def _add_workers(self) -> None:
        busy, on_disk = (self._finding.numbers.get(f"workers_{what}_share", 0.0) for what in ("busy", "disk"))
        self |= {"is_own": self._finding.rank is not None, "is_one": self.get("workers") == 1 and "rank" in self}
        self |= {"on_disk": on_disk >= OFTEN_ON_DISK, "are_idle": busy <= IDLE_WORKERS}
        self |= {"are_busy": busy >= BUSY_WORKERS}

    def _add_times(self) -> None:
        """Spans of times, and what most of a difference of times is."""
        numbers, to = self._finding.numbers, self._language.to
        self |= {"span": self._span(), "has_spread": "off_times" in numbers}
        self |= {"is_span": to in str(self["span"]), "is_rough": self._finding.kind is Kind.ROUGHLY}
        if "of_repeats" in numbers:  # a late rank in a whole trial: between which times it was late a step
            low, high = (max(0.0, numbers["late_ms"] + sign * numbers["off_by_ms"]) * MS / S for sign in (-1, 1))
            self["interval"] = time_range(low, high, to)
        if "from_ms" in numbers:
            self["before"] = seconds(max(0.0, numbers["from_ms"]) * MS / S)
        without, train = (f"{numbers.get(name, 0.0):.2f}" for name in ("without_s", "train_s"))
        self |= {"would_differ": "without_s" in numbers and without != train}
        for part in (part for part in self._language.parts if f"{part}_s" in numbers):
            s, whole = abs(numbers[f"{part}_s"]), abs(numbers["whole_s"])
            self |= {"grew": numbers["whole_s"] > 0, "difference": seconds(whole), "of_part": seconds(min(s, whole))}
            self |= {"part": self._language.parts[part], "for_culprit": part == "culprit_wait" and "rank" in self}

    def _span(self) -> str:
        """The first two numbers that are the ends of a span: 1.20 to 1.25 s. Empty if there are none."""
        numbers, to = self._finding.numbers, self._language.to
        for name in numbers:
            begin, _, rest = name.partition("_")
            if begin in ENDS and (last := f"{ENDS[begin]}_{rest}") in numbers:
                if factor := IN_S.get(rest.rpartition("_")[2]):
                    return time_range(max(0.0, numbers[name]) * factor, numbers[last] * factor, to)
                return to.join(dict.fromkeys(f"{self[end]}" for end in (name, last)))
        return ""

    def _add_counts(self) -> None:
        numbers, trials = self._finding.numbers, len(self._finding.trials)
        of_trials = numbers.get("of_trials", 0)
        self |= {"trials": trials, "of_one": of_trials == 1, "in_all": of_trials == trials}
        self |= {"several_repeats": numbers.get("repeats", 0) > 1, "several_ranks": numbers.get("ranks", 0) > 1}
        self |= {"several_cells": numbers.get("cells", 0) > 1}
        wait, transfer = (numbers.get(f"{what}_share", 0.0) for what in ("wait", "transfer"))
        self |= {"is_much": wait + transfer >= MUCH, "mostly_waits": wait > transfer}
        self |= {"waits": f"{wait:.0%}" != "0%", "transfers": f"{transfer:.0%}" != "0%"}
        by_rank = {name.split("_")[1]: times for name, times in numbers.items() if name.startswith("rank_")}
        on_ranks = [
            self._phrase("on_rank", number=rank, times=f"{by_rank[rank]:.0f}") for rank in sorted(by_rank, key=int)
        ]
        self |= {"on_ranks": self._list(on_ranks)}
        self |= {"on_each": f"{next(iter(by_rank.values())):.0f}" if len({*by_rank.values()}) == 1 else ""}
        first, last = (numbers.get(f"{end}_bytes") for end in ("first", "last"))
        self |= {"one_size": first == last, "from_smallest": first == numbers.get("smallest_bytes")}
        self |= {"to_largest": last == numbers.get("largest_bytes")}


def named_parts(finding: Finding) -> list[str]:
    """The parts of a step that a late rank lost much in, most first."""
    shares = {part: finding.numbers.get(f"in_{part}_share", 0.0) for part in PARTS}
    return [part for part in sorted(shares, key=lambda part: -shares[part]) if shares[part] >= NAMED_PART]


def where(phase: str) -> str:
    """As in "in backward", or "between steps"."""
    return phase if phase == BETWEEN else f"in {phase}"
