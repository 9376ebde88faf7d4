"""The parts of a finding's text: its numbers in the units that their names end in, and what it says of ranks and lines.
Pure.
"""

from collections.abc import Callable, Mapping

from ddptui.analysis.finding import Finding, Kind
from ddptui.analysis.policy import BUSY_WORKERS, IDLE_WORKERS, MUCH, NAMED_PART, OFTEN_ON_DISK, UNEXPLAINED
from ddptui.text.words import MS, S, count, in_a_row, listed, seconds, size, time_range
from ddptui.wire.phases import BETWEEN, PARTS


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
        return format(float(self), form) if form else UNITS.get(self.unit, _whole)(self)


def _whole(value: float) -> str:
    return f"{value:.0f}"


UNITS: Mapping[str, Callable[[float], str]] = {
    "s": seconds,
    "ms": lambda ms: seconds(ms * MS / S),
    "share": lambda share: f"{share:.0%}",
    "times": lambda times: f"{times:.2f}",
    "slower": lambda times: f"{times:.2f}",
    "loss": lambda loss: f"{loss:.3f}",
    "bytes": lambda size_: count(round(size_), "byte") if size_ < 1024 else size(size_),
}


def figures(finding: Finding) -> dict[str, Number]:
    """The numbers of a finding by name, for a template."""
    return {name: Number(name, value) for name, value in finding.numbers.items()}


def named_parts(finding: Finding) -> list[str]:
    """The parts of a step that a late rank lost much in, most first."""
    shares = {part: finding.numbers.get(f"in_{part}_share", 0.0) for part in PARTS}
    return [part for part in sorted(shares, key=lambda part: -shares[part]) if shares[part] >= NAMED_PART]


def where(phase: str | None) -> str:
    """As in "in backward", or "between steps". None: in several phases."""
    return phase if phase == BETWEEN else f"in {phase or 'several phases'}"


def steps_named(finding: Finding) -> str:
    """As in: steps 3, 7, 9 and 4 more."""
    named = [str(step) for step in finding.steps]
    more = round(finding.numbers.get("times", 0)) - len(named)
    names = f"{', '.join(named)} and {more} more" if more > 0 else listed(named, len(named))
    return f"step{'s' * (len(named) + max(0, more) > 1)} {names}"


def span(finding: Finding, low: str, high: str) -> str:
    """Two times with one unit; from 0 on."""
    factor = 1.0 if low.endswith("_s") else MS / S
    return time_range(max(0.0, finding.numbers[low]) * factor, finding.numbers[high] * factor)


def late_rank(finding: Finding) -> str:
    numbers, late = finding.numbers, "{late_ms} a step"
    if "of_repeats" in numbers:  # of a whole trial: with its interval
        ends = [(numbers["late_ms"] + sign * numbers["off_by_ms"]) * MS / S for sign in (-1, 1)]
        late += f" (95%: {time_range(max(0.0, ends[0]), ends[1])})"
    steps = f", in steps {finding.steps[0]} to {finding.steps[1]}" if finding.steps else ""
    return f"Rank {{rank}} holds everyone up: {late}, {in_parts(finding)}{steps}"


def in_parts(finding: Finding) -> str:
    """As in "in backward and forward", of a late rank."""
    if "slower" in finding.numbers:
        return "in every phase (× {slower})"
    named = named_parts(finding)
    within = " and ".join(part for part in named if part != BETWEEN)
    return " and ".join([f"in {within}"] * bool(within) + [BETWEEN] * (BETWEEN in named)) or "{where}"


def caused(finding: Finding) -> str:
    numbers = finding.numbers
    parts = [*filter(None, [in_lines(finding)]), "Rank {rank} caused {of_waiting_share} of the waiting for late ranks"]
    if "share" in numbers:
        parts[-1] += ": the others waited for it {share} of the time"
    parts += filter(None, [loader_workers(finding)])
    if "without_s" in numbers and f"{numbers['without_s']:.2f}" != f"{numbers['train_s']:.2f}":
        parts.append("Without its delay: about {without_s:.2f} s instead of {train_s:.2f} s")
    if "cpu_times" in numbers:
        is_everywhere = "slower" in numbers or len(named_parts(finding)) > 1
        why = "more work, or a slower core" if is_everywhere else "more work, and did not lack a core"
        parts.append(f"It used {{cpu_times:.1f}} × the CPU time of the others: it has {why}")
    elif "blocked_share" in numbers:
        parts.append("It did not compute meanwhile: it slept, or waited for a file, a lock or another process")
    return in_a_row(parts, ".")


def in_lines(finding: Finding) -> str:
    """As in: 19.8 ms of it in augment, train.py:28, called by collate, train.py:37. Empty if no line is known."""
    if not finding.lines:
        return ""
    first, *others = finding.lines
    calls = f", called by {first.by}" * bool(first.by and finding.kind is not Kind.INJECTED)
    parts = [f"{seconds(first.ms * MS / S)} of it {at_place(first.place)}{calls}"]
    parts += [f"{seconds(each.ms * MS / S)} {at_place(each.place)}" for each in others]
    left, whole = finding.numbers.get("unexplained_ms", 0.0), finding.numbers.get("late_ms", 0.0)
    return escaped("; ".join(parts)) + "; no line explains the other {unexplained_ms}" * (left > UNEXPLAINED * whole)


def loader_workers(finding: Finding) -> str:
    """What the DataLoader's workers do, of a rank, or on all ranks; empty if there are none."""
    numbers = finding.numbers
    if "workers" not in numbers:
        return ""
    is_one = finding.rank is not None and numbers["workers"] == 1
    of = f"Its {{workers}} loader worker{'s' * (not is_one)}" if finding.rank is not None else "The loader workers"
    if numbers["workers_disk_share"] >= OFTEN_ON_DISK:
        return f"{of} wait{'s' * is_one} for the disk"
    if numbers["workers_busy_share"] <= IDLE_WORKERS:
        return f"{of} hardly compute{'s' * is_one}: they sleep, or wait for a file, a lock or the network"
    much = "all the time" if numbers["workers_busy_share"] >= BUSY_WORKERS else "{workers_busy_share} of the time"
    return f"{of} {'is' if is_one else 'are'} busy {much}"


def at_place(place: str) -> str:
    return f"in {place}" if ", " in place else f"at {place}"


def escaped(text: str) -> str:
    """A text of the training as part of a template."""
    return text.replace("{", "{{").replace("}", "}}")


def injected(finding: Finding) -> str:
    where = "before the first step" if finding.phase == "start" else "{where}"
    words = f"We injected {{injected_s}} on rank {{rank}}, {where}"
    if "measured_s" in finding.numbers:
        interval = f"(95%: {span(finding, 'low_s', 'high_s')})"
        return f"{words}; ddptui measured {{measured_s}} {interval}" + " {doubt}" * bool(finding.doubt)
    if "at_start_s" in finding.numbers:
        return f"{words}; ddptui measured {{at_start_s}} there (outside the train time)"
    return words + "; not attributed: {doubt}" * bool(finding.doubt)


def rare_waits(finding: Finding) -> str:
    who = "rank {waiting_rank}" if "waiting_rank" in finding.numbers else "each of the other ranks"
    return f"In {{steps}}, {who} waited {{waited_s}} for rank {{rank}} ({{where}}{line_of_code(finding)})"


def line_of_code(finding: Finding) -> str:
    """As in ": validate, train.py:61"; empty if no line is known."""
    return f": {escaped(finding.lines[0].place)}" if finding.lines else ""


def by_turns(finding: Finding) -> str:
    by_rank = {name.split("_")[1]: times for name, times in finding.numbers.items() if name.startswith("rank_")}
    if len({*by_rank.values()}) == 1:
        who = f"{next(iter(by_rank.values())):.0f} on each rank"
    else:
        who = listed([f"{by_rank[rank]:.0f} on rank {rank}" for rank in sorted(by_rank, key=int)])
    return f"Late by turns: {{times:pause}} of {{pause_ms}} {{where}}, {who}"


def trend(finding: Finding) -> str:
    low = seconds(max(0.0, finding.numbers["from_ms"]) * MS / S)
    if finding.steps:
        return f"Rank {{rank}} is late from step {finding.steps[0]} on: {{to_ms}} a step, {low} before"
    return f"Rank {{rank}} grows late over the run: from {low} to {{to_ms}} a step"


def stood_idle(finding: Finding) -> str:
    """The larger part first."""
    wait, transfer = finding.numbers["wait_share"], finding.numbers["transfer_share"]
    parts = [(transfer, "to hand over outputs" if finding.place else "in transfers"), (wait, "for a late rank")]
    parts = [part for part in sorted(parts, reverse=True) if f"{part[0]:.0%}" != "0%"]
    words = ", ".join(f"{share:.0%}{' of the time' * (at == 0)} {why}" for at, (share, why) in enumerate(parts))
    mostly = "Mostly waiting: " if finding.kind is Kind.WAITING else "Mostly the network: " * (not finding.place)
    return f"{mostly}ranks stood idle {words}" if mostly and wait + transfer >= MUCH else f"Ranks stood idle {words}"
