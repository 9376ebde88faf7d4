"""The GPU report as lines for the terminal, and as the Markdown file that its user can send. Pure."""

import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ddptui.doctor.gpu_report.check import Check, Result
from ddptui.doctor.gpu_report.privacy import without_names
from ddptui.text.tables import Filled, Table, as_markdown
from ddptui.text.units import duration, size
from ddptui.text.words import count

COLUMNS = 80
MARKS = {"ok": "✓", "NOT AS EXPECTED": "✗", "not run": "–"}
SPECIAL = re.compile(r"([\\`*\[\]<>&])")  # to Markdown; a bar is for the table to escape
# Of environment.json; what else begins like OF_GPUS goes in as well.
OF_MACHINE = ("ddptui", "python", "platform", "cpu", "cores")
OF_GPUS = "gpu"
TAKEN_OUT = "own names, paths and addresses are taken out; look through it before you send it"
FOOT = f"{TAKEN_OUT[0].upper()}{TAKEN_OUT[1:]}: a message may contain something that this filter does not know."


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that the file holds. names: what to take out of texts, and what to write instead."""

    machine: dict[str, str]
    results: tuple[Result, ...]
    names: dict[str, str]
    checks: int  # how many there are
    interrupted: bool = False


def before(check: Check, number: int, of: int) -> list[str]:
    """The lines printed before a check is run: its number, what it tries, and what is expected."""
    return [*_wrapped(f"[{number}/{of}] {check.name}: ", check.question), *_wrapped("  expected  ", check.expected)]


def after(result: Result, names: Mapping[str, str]) -> list[str]:
    """The lines printed when a check is over."""
    took = f", {_took(result)}" if result.took_s else ""
    label = "  observed  " if result.verdict != "not run" else "  because   "
    observed = _wrapped(label, without_names(result.observed, names))
    return [*observed, f"  {MARKS[result.verdict]} {result.verdict}{took}"]


def _took(result: Result) -> str:
    return duration(result.took_s) if result.took_s >= 1 else "under 1 s"


def _wrapped(begin: str, text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(COLUMNS, begin, " " * 12, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text) or [begin.rstrip()]


def summary(results: Sequence[Result]) -> str:
    """How many checks came out how, in one line."""
    verdicts = Counter(result.verdict for result in results)
    how = f"{verdicts['ok']} as expected, {verdicts['NOT AS EXPECTED']} not, {verdicts['not run']} not run"
    return f"{count(len(results), 'check')}, {duration(sum(result.took_s for result in results))}: {how}"


def machine_of(environment: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """What the report says of the machine. environment: the contents of environment.json; facts: the probe's."""
    values = {key: str(environment[key]) for key in OF_MACHINE if environment.get(key) is not None}
    if environment.get("memory_bytes") is not None:
        values["memory"] = size(environment["memory_bytes"])
    values |= {key: str(value) for key, value in environment.get("packages", {}).items() if value}
    values |= {
        key: _in_a_line(value) for key, value in environment.items() if key.startswith(OF_GPUS) and _is_known(value)
    }
    torch = ("cuda", "cudnn", "nccl", "nccl_implementations", "gpus", "capabilities", "group_hooks")
    return values | {f"torch's {key}": _in_a_line(facts[key]) for key in torch if facts.get(key) is not None}


def _is_known(value: Any) -> bool:
    """Whether there is anything in it but None: GPUs are listed by number, so one that is unknown leaves a gap."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
    return any(part is not None and part != "" for part in parts)


def _in_a_line(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{key}: {_in_a_line(part)}" for key, part in value.items() if part is not None)
        case list() | tuple():
            return ", ".join("unknown" if part is None else _in_a_line(part) for part in value)
    return str(value)


def markdown(report: Report) -> str:
    """The file."""
    left = report.checks - len(report.results)
    stopped = [f"Interrupted: {count(left, 'check')} of {report.checks} not reached.", ""] if report.interrupted else []
    machine = _table(report, {"what": list(report.machine), "here": list(report.machine.values())})
    lines = ["# GPU report of ddptui", "", summary(report.results), "", *stopped, "## Machine", "", *machine, ""]
    lines += ["## Checks", "", *_checks(report), ""]
    failed = [result for result in report.results if result.log]
    lines += ["## Logs of what was not as expected", ""] if failed else []
    for result in failed:
        lines += [f"### {result.name}", "", *fenced([without_names(line, report.names) for line in result.log]), ""]
    return "\n".join([*lines, FOOT, ""])


def _checks(report: Report) -> list[str]:
    results = report.results
    return _table(
        report,
        {
            "check": [result.name for result in results],
            "tried": [result.question for result in results],
            "expected": [result.expected for result in results],
            "observed": [result.observed for result in results],
            "verdict": [f"{MARKS[result.verdict]} {result.verdict}" for result in results],
            "took": [_took(result) for result in results],
        },
    )


def _table(report: Report, cells: Mapping[str, Sequence[str]]) -> list[str]:
    safe = {header: [escaped(without_names(cell, report.names)) for cell in column] for header, column in cells.items()}
    return as_markdown(Table([Filled(header, column, left=True) for header, column in safe.items()]))


def escaped(text: str) -> str:
    """The text as Markdown that shows it as it is."""
    return SPECIAL.sub(r"\\\1", text)


def fenced(lines: Sequence[str]) -> list[str]:
    """Lines as a block of code, which nothing in them can end."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence]
