"""What is read from the recorded runs: results.json, the CSV, and which findings there are, of whom.

`python -m tests.recorded.net [NAME…]` writes it down anew, with the schema and the CSV's headers, and prints what
changes. Words may change at any time. Figures, ranks, phases and kinds of findings may not, unless a commit says why
and lists them.
"""

import csv
import io
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ddptui.analysis.finding import Finding
from ddptui.analysis.results import Results
from ddptui.config.preset import Preset
from ddptui.live.monitor import RunMonitor
from ddptui.report import primitive_report as primitives
from ddptui.report import table
from ddptui.report.notes import notes
from ddptui.store.overview import results_of
from ddptui.store.runs import Run
from ddptui.wire.messages import PHASES
from ddptui.wire.records import Ended

RUNS = Path(__file__).parent / "runs"
NAMES = sorted(folder.name for folder in RUNS.iterdir())
SCHEMA, HEADERS = RUNS.parent / "results.schema.json", RUNS.parent / "csv_headers.json"
EXACT = 1e-9  # relative
WORDS = ("title", "description")  # of a schema
KEPT = ("results.json", "results.csv", "findings.json")

Answers = Mapping[str, str]  # by the name of the file that keeps it


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        folder = RUNS / name
        now = read_run(folder)
        for line in differences(folder, now) if all((folder / file).exists() for file in KEPT) else ():
            print(f"{name}: {line}")
        for file, text in now.items():
            (folder / file).write_text(text, encoding="utf-8")
    for line in shrunk(json.loads(SCHEMA.read_text()), schema_now()):
        print(f"results.json {line}")
    SCHEMA.write_text(json.dumps(schema_now(), indent=1) + "\n")
    HEADERS.write_text(json.dumps(headers_now(), indent=1) + "\n")


def read_run(folder: Path) -> Answers:
    """Everything that today's code reads from the journals of a run."""
    run = Run(folder)
    preset = run.preset()
    results = results_of(run, preset)
    findings = {
        "answer": [*map(outline, results.findings)],
        "trials": {trial.name: [*map(outline, trial.findings)] for trial in results.trials},
        "notes": [
            [note.kind, list(note.trials), about(note.text, preset)]
            for note in notes(results, preset)
            if note.kind in ("finding", "caution")
        ],
        "live": {f"{trial} {repeat}": judged_live(run, trial, repeat) for trial, repeat in run.repeats(preset)},
    }
    return {
        "results.json": table.as_json(results, preset),
        "results.csv": table.as_csv(results, preset),
        "findings.json": json.dumps(findings, indent=1) + "\n",
    }


def outline(finding: Finding) -> list[Any]:
    """Its kind, trials, rank, phase and steps."""
    return [finding.kind.value, [*finding.trials], finding.rank, finding.phase, [*finding.steps]]


def about(text: str, preset: Preset) -> str:
    """The trials, ranks and phases that a text names, in order and once each."""
    names = sorted((trial.name for trial in preset.trials), key=len, reverse=True)
    words = [*map(re.escape, names), r"rank \d+", *PHASES]
    return ", ".join(dict.fromkeys(re.findall(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])", text)))


def judged_live(run: Run, trial: str, repeat: int) -> str:
    """What the console says of a launch's last two seconds: verdict, late rank and phase."""
    monitor = RunMonitor()
    monitor.add(message for message in run.messages(trial, repeat) if not isinstance(message, Ended))
    if (judgement := monitor.judge()) is None:
        return "nothing"
    judged = judgement.analysis
    late = f"rank {judged.culprit.rank} in {judged.culprit.phase}" if judged.culprit else "no rank"
    return f"{judged.verdict}: {late}"


def differences(folder: Path, now: Answers) -> list[str]:
    """A line for each kept value that reads otherwise now, with its path; keys and columns may be added."""
    kept = {file: (folder / file).read_text(encoding="utf-8") for file in KEPT}
    return [
        f"{file} {line}"
        for file in KEPT
        for line in compare(parse(file, kept[file]), parse(file, now[file]), exact=file == "findings.json")
    ]


def parse(file: str, text: str) -> Any:
    return list(csv.DictReader(io.StringIO(text))) if file.endswith(".csv") else json.loads(text)


def compare(kept: Any, now: Any, path: str = "", *, exact: bool = False) -> Iterator[str]:
    """Yield a line for each difference. exact: no key may be added either."""
    if isinstance(kept, dict) and isinstance(now, dict):
        for key in kept.keys() | now.keys() if exact else kept:
            yield from compare(kept.get(key, "absent"), now.get(key, "absent"), f"{path}.{key}", exact=exact)
    elif isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        for place, (one, other) in enumerate(zip(kept, now, strict=True)):
            yield from compare(one, other, f"{path}[{place}]", exact=exact)
    elif not is_same(kept, now):
        yield f"{path}: was {kept!r}, is {now!r}"


def is_same(kept: Any, now: Any) -> bool:
    numbers = [as_number(value) for value in (kept, now)]
    if None in numbers:
        return bool(kept == now)
    return math.isclose(*numbers, rel_tol=EXACT) or all(map(math.isnan, numbers))  # type: ignore[misc, arg-type]


def as_number(value: Any) -> float | None:
    """A number, or a text of the CSV that is one; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def schema_now() -> Any:
    """The JSON schema of results.json, without words."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(part) for key, part in value.items() if not isinstance(part, str) or key not in WORDS}
        return [bare(part) for part in value] if isinstance(value, list) else value

    return bare(msgspec.json.schema(Results))


def headers_now() -> dict[str, list[str]]:
    """The columns of the CSV of trials, and of that of primitives."""
    return {"trials": [*table.REPEAT_CSV], "primitives": [*primitives.PRIMITIVE_CSV]}


def shrunk(kept: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield a line for each part of a schema that is gone: a property, an accepted type, a value of an enum."""
    if isinstance(kept, Mapping):
        for key, value in kept.items():
            if not isinstance(now, Mapping) or key not in now:
                yield f"{path}.{key} is gone"
            else:
                yield from shrunk(value, now[key], f"{path}.{key}")
    elif isinstance(kept, Sequence) and not isinstance(kept, str):
        gone = [value for value in kept if value not in now]
        yield from (f"{path}: {value!r} is gone" for value in gone)
    elif kept != now:
        yield f"{path}: was {kept!r}, is {now!r}"


if __name__ == "__main__":
    main()
