"""What the checks of GPUs came to: a table at the end of the tests, and a file to send back."""

import json
import textwrap
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path
from time import strftime
from typing import Any, NamedTuple

import pytest

from ddptui.text.words import count, duration, first_line
from tests.gpu.privacy import own_names, without_names

COLUMNS = 80
MARKS = {"ok": "✓", "NOT AS EXPECTED": "✗", "not run": "–"}
VERDICTS = {"passed": "ok", "failed": "NOT AS EXPECTED", "skipped": "not run"}
LINES_OF_LOGS = 200
# Of environment.json; what else begins like OF_GPUS goes in as well.
OF_MACHINE = ("ddptui", "python", "platform", "cpu", "cores", "memory_bytes", "packages")
OF_GPUS = "gpu"


class Row(NamedTuple):
    """One check."""

    check: str
    tried: str
    expected: str
    seen: str  # or why it was not run
    verdict: str
    took_s: float
    log: list[str]  # the last lines, if it was not as expected


class Report(NamedTuple):
    """All that the file holds."""

    path: Path
    machine: dict[str, Any]
    rows: list[Row]

    @property
    def summary(self) -> str:
        """How many checks came out how, in one line."""
        number = Counter(row.verdict for row in self.rows)
        how = ", ".join(f"{number[verdict]} {verdict}" for verdict in MARKS)
        return f"{count(len(self.rows), 'check')}, {duration(sum(row.took_s for row in self.rows))}: {how}"

    def add(self, row: Row) -> None:
        """Write the file anew with one more check: whatever ends the tests, it holds those before."""
        self.rows.append(row)
        content = {"summary": self.summary, "machine": self.machine, "checks": [row._asdict() for row in self.rows]}
        text = json.dumps(cleaned(content, own_names()), ensure_ascii=False, indent=1)
        new = self.path.with_suffix(".new")
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(self.path)


REPORT = pytest.StashKey[Report]()
TOOK_S = pytest.StashKey[float]()


def report_of(folder: Path, environment: Mapping[str, Any], facts: Mapping[str, Any]) -> Report:
    """One without checks yet. environment: the contents of environment.json; facts: what the probe knows of torch."""
    machine = {key: value for key, value in environment.items() if key in OF_MACHINE or key.startswith(OF_GPUS)}
    return Report(folder / f"gpu-report-{strftime('%Y%m%d-%H%M%S')}.json", {**machine, "torch": dict(facts)}, [])


def cleaned(value: Any, names: Mapping[str, str]) -> Any:
    """The same without what a stranger need not know, in all its texts."""
    match value:
        case str():
            return without_names(value, names)
        case dict():
            return {key: cleaned(part, names) for key, part in value.items()}
        case list() | tuple():
            return [cleaned(part, names) for part in value]
    return value


def row_of(item: pytest.Function, report: pytest.TestReport, error: BaseException | None) -> Row:
    """A check that has been made. Its docstring says what is tried, and what is expected."""
    tried, _, expected = " ".join((item.function.__doc__ or "").split()).partition(" Expected: ")
    seen = str(dict(report.user_properties).get("seen", ""))
    if error:
        seen = str(error) if isinstance(error, pytest.fail.Exception | pytest.skip.Exception) else first_line(error)
    return Row(
        check=item.name.removeprefix("test_"),
        tried=tried,
        expected=expected,
        seen=seen,
        verdict=VERDICTS[report.outcome],
        took_s=item.stash[TOOK_S],
        log=report.capstdout.splitlines()[-LINES_OF_LOGS:] if report.failed else [],
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note how a check came out, on a machine where checks can be made."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    item.stash[TOOK_S] = item.stash.get(TOOK_S, 0.0) + report.duration  # a run may be made in the setup
    if REPORT in item.config.stash and (report.when == "call" or error):
        item.config.stash[REPORT].add(row_of(item, report, error))
    elif report.skipped:
        # without a GPU: no line of a file, so that one line of the summary stands for all checks
        report.longrepr = (str(item.path.parent), None, str(error))  # type: ignore[assignment]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was tried, expected and seen, and where the file is."""
    if REPORT not in config.stash:
        return
    report = config.stash[REPORT]
    terminalreporter.section("what GPUs were expected to do, and did")
    for number, row in enumerate(report.rows, start=1):
        terminalreporter.write_line("\n".join(lines_of(row, f"[{number}/{len(report.rows)}]")))
    terminalreporter.write_line(f"{report.summary}\nto send back: {report.path}")


def lines_of(row: Row, number: str) -> list[str]:
    """A check in the table."""
    because = "seen" if row.verdict != "not run" else "because"
    texts = {f"{number} {row.check}: ": row.tried, "  expected  ": row.expected, f"  {because:10}": row.seen}
    took = duration(row.took_s) if row.took_s >= 1 else "under 1 s"
    wrapped = [textwrap.wrap(text, COLUMNS, initial_indent=begin, subsequent_indent=" " * 12, break_long_words=False,
                             break_on_hyphens=False) for begin, text in texts.items()]  # fmt: skip
    return [*(line for lines in wrapped for line in lines), f"  {MARKS[row.verdict]} {row.verdict}, {took}"]
