"""Runs the tests that must notice the faults in mutants.toml.

    python -m tests.mutants [NAME…]

The faults are put into a copy of the tracked files, one at a time, and their tests run there. The copy comes first on
the path of every process, so that ranks and consoles that a test starts have the fault, too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutant import ROOT, Mutant, read_mutants

LONGEST_S = 300  # for the tests of one mutant
HAS_FAILED = 1  # pytest's exit code if a test failed; others but 0 mean that the tests could not run


def main(names: Sequence[str]) -> int:
    """The exit code: 0 if every fault was noticed. names: of the mutants to try; none: all."""
    mutants = [mutant for mutant in read_mutants() if mutant.name in names or not names]
    if unknown := {*names} - {mutant.name for mutant in mutants}:
        print(f"no mutant is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 1
    with copied() as copy:
        tests = sorted({test for mutant in mutants for test in mutant.killed_by})
        print(f"without any fault, {len(tests)} tests:", flush=True)
        if code := run_tests(copy, tests, {}, None):  # also writes the bytecode of what they import
            print(f"pytest ended with {code}: what fails without a fault proves nothing", file=sys.stderr)
            return 1
        survivors = [mutant.name for mutant in mutants if not is_killed(copy, mutant)]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants killed", *survivors, sep="\nSURVIVED: ")
    return 1 if survivors else 0


def is_killed(copy: Path, mutant: Mutant) -> bool:
    """Whether a test fails with the fault in place. Prints a line."""
    begin, path = time.monotonic(), copy / mutant.file
    whole, saved = path.read_text(encoding="utf-8"), path.stat()
    path.write_text(mutant.applied(whole), encoding="utf-8")
    try:  # no bytecode, which might outlast the fault
        code = run_tests(copy, mutant.killed_by, {"PYTHONDONTWRITEBYTECODE": "1"}, subprocess.DEVNULL, LONGEST_S)
    except subprocess.TimeoutExpired:
        code = -1
    path.write_text(whole, encoding="utf-8")
    os.utime(path, ns=(saved.st_atime_ns, saved.st_mtime_ns))  # its bytecode is valid again
    verdict = {HAS_FAILED: "killed", 0: "SURVIVED"}.get(code, f"SURVIVED, pytest ended with {code}")
    print(f"{verdict} ({time.monotonic() - begin:.0f} s): {mutant.name}", flush=True)
    return code == HAS_FAILED


def run_tests(
    copy: Path, tests: Sequence[str], variables: dict[str, str], output: int | None, longest_s: float | None = None
) -> int:
    """Pytest's exit code in the copy. Raises TimeoutExpired."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), **variables}  # before the checkout, which is installed
    return subprocess.run(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        timeout=longest_s,
        check=False,
    ).returncode


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the tracked files as they are now."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, listed.split("\0")):
            if (source := ROOT / name).is_file():  # not one that was deleted just now
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
