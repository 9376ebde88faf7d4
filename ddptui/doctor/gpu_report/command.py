"""`ddptui doctor --gpu-report`: runs all checks that this machine's GPUs allow, and writes what came out."""

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddptui.doctor.gpu_report.bench import PROBE, Workbench
from ddptui.doctor.gpu_report.check import Check, Result
from ddptui.doctor.gpu_report.checks import CHECKS
from ddptui.doctor.gpu_report.privacy import own_names
from ddptui.doctor.gpu_report.report import TAKEN_OUT, Report, after, before, machine_of, markdown, summary
from ddptui.doctor.torch import gpus_finding
from ddptui.engines.preflight_gpus import ELSEWHERE
from ddptui.host import gpus
from ddptui.host.folders import TemporaryFolder, expanded
from ddptui.host.gpus import VISIBLE
from ddptui.host.machine import describe
from ddptui.host.rank_side import Child, NoAnswer

DOCTOR_SAYS_MORE = "`ddptui doctor` says more"


class NoReport(Exception):
    """No check can be run, or nothing be written. One line with a remedy."""


def report(file: str) -> int:
    """Run all checks, printing each as it comes, and write the file. Returns the exit code: 1 if something is not as
    expected. Raises NoReport, KeyboardInterrupt; after an interrupt the file holds what was finished."""
    facts = gpu_facts()
    machine = machine_of(describe(), facts)
    path = reserved(file)
    try:
        print(f"{len(CHECKS)} checks, an estimated ten minutes; Ctrl-C keeps what is finished", flush=True)
        results = in_a_folder(facts, machine, path)
    finally:
        with suppress(OSError):
            if path.stat().st_size == 0:  # the next run would refuse it
                path.unlink()
    print(f"\n{summary(results)}\nwritten to {path}: {TAKEN_OUT}", flush=True)
    return 1 if any(result.verdict == "NOT AS EXPECTED" for result in results) else 0


def in_a_folder(facts: Mapping[str, Any], machine: Mapping[str, str], path: Path) -> tuple[Result, ...]:
    """The results of all checks, which run in a temporary folder. Raises NoReport, KeyboardInterrupt."""
    try:
        folder = TemporaryFolder("ddptui-gpu-report", Path(tempfile.gettempdir()))
    except OSError as error:
        why = error.strerror or error
        raise NoReport(f"{tempfile.gettempdir()}: cannot be written: {why}; name another folder in TMPDIR") from None
    try:
        return checked(Workbench(folder.path, len(facts["gpus"]), facts), CHECKS, machine, path)
    finally:
        folder.remove()


def gpu_facts() -> dict[str, Any]:
    """What the probe knows of torch and its GPUs, of which there is at least one. Raises NoReport."""
    if gpus.surely_none():
        raise NoReport(f"--gpu-report needs an NVIDIA GPU, but this machine has none: {ELSEWHERE}")
    try:
        with Child(PROBE) as child:
            facts = child.ask("facts")
        if not facts["gpus"]:
            raise NoReport(f"--gpu-report needs a GPU that torch can use: {_why_none()}")
        return facts
    except NoAnswer as why:
        raise NoReport(f"--gpu-report needs torch, which cannot be asked: {why}; {DOCTOR_SAYS_MORE}") from None


def _why_none() -> str:
    """Why torch sees no GPU, and the remedy, as `ddptui doctor` has them. Raises NoAnswer."""
    with Child("workers.doctor.probe") as child:
        build, seen = child.ask("versions")["gpu_build"], child.ask("gpus")
    finding = gpus_finding(seen, build, os.environ.get(VISIBLE), none="")
    return f"{finding.text}; {finding.remedy or DOCTOR_SAYS_MORE}"


def reserved(file: str) -> Path:
    """The path of a new, empty file. Raises NoReport, also where there is a file already."""
    try:
        path = expanded(file)
        path.open("x", encoding="utf-8").close()
    except FileExistsError:
        raise NoReport(f"{file}: is there already: move it, or name another file: --gpu-report FILE") from None
    except OSError as error:
        raise NoReport(f"{file}: cannot be written: {error.strerror}; name another file: --gpu-report FILE") from None
    return path


def replace(path: Path, text: str) -> None:
    """Write the file anew, in one go: whatever ends this process, it holds the old text or the new one. Raises
    NoReport."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise NoReport(
            f"{path}: cannot be written: {why}; it holds the checks before this one: make room, or name another file: "
            "--gpu-report FILE"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink()


def checked(bench: Workbench, checks: Sequence[Check], machine: Mapping[str, str], path: Path) -> tuple[Result, ...]:
    """The results of these checks. The file is written anew after each of them. Raises NoReport,
    KeyboardInterrupt."""
    results: list[Result] = []
    names = own_names()

    def write(*, interrupted: bool) -> None:
        content = Report(
            machine=dict(machine), results=tuple(results), names=names, checks=len(checks), interrupted=interrupted
        )
        replace(path, markdown(content))

    try:
        for number, check in enumerate(checks, start=1):
            print(*before(check, number, len(checks)), sep="\n", flush=True)
            results.append(bench.perform(check))
            print(*after(results[-1], names), sep="\n", flush=True)
            write(interrupted=len(results) < len(checks))  # a console that is killed leaves what was finished
    except KeyboardInterrupt:
        write(interrupted=True)
        print(f"\ninterrupted; {summary(results)}\nwritten to {path}", file=sys.stderr, flush=True)
        raise
    return tuple(results)
