"""The numbers of findings, written in the units that their names end in. Pure."""

from collections.abc import Callable, Mapping

from ddptui.analysis.finding import Finding
from ddptui.analysis.policy import NAMED_PART
from ddptui.text.words import MS, S, count, seconds, size
from ddptui.wire.phases import PARTS


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
