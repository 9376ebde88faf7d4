"""The disk is full, or the run's folder is gone, in the midst of a run: one clear line, no rank left, nothing spoilt,
and what is finished is there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ddptui.store.runs import find_run
from tests.support.runner import QUICK, ddptui, family, start, survivors, write_preset
from tests.support.waiting import until

PRESET = f'[defaults]\nlaunch = "single"\n{QUICK}[[trial]]\nname = "short"\n[[trial]]\nname = "long"\nsteps = 400000\n'
PATIENCE_S = 90


def one_line(errors: str, what: str) -> str:
    """The one line that says it."""
    assert "Traceback" not in errors
    [line] = [line for line in errors.splitlines() if what in line]
    return line


def test_a_disk_that_runs_full_stops_the_run_and_spoils_nothing(tmp_path: Path, small_disk: Path) -> None:
    preset = write_preset(tmp_path, PRESET)
    console = start(small_disk, "--preset", str(preset), "--json")
    left: list[psutil.Process] = []
    while console.poll() is None and not left:
        left = family(console.pid)
    output, errors = console.communicate(timeout=PATIENCE_S)
    assert console.returncode == 1, errors
    line = one_line(errors, "No space left on device")
    assert "the run can no longer be saved in" in line
    assert one_line(errors, "`ddptui --resume")
    assert not survivors(left, 5)

    [run] = [path for path in small_disk.iterdir() if path.is_dir()]
    kept = json.loads((run / "results.json").read_text())
    assert kept == json.loads(output)
    assert [trial["status"] for trial in kept["trials"]] == ["ok", "skipped"]
    assert not list(run.glob("*.new"))
    journal = list(find_run(small_disk, "last").messages("long", 1))
    assert len(journal) > 100
    assert ddptui(small_disk, "show", "last").returncode == 0


def test_on_a_disk_that_is_full_nothing_is_begun(tmp_path: Path, small_disk: Path) -> None:
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(4 * 2**20))
    preset = write_preset(tmp_path, PRESET)
    done = ddptui(small_disk, "--preset", str(preset), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot save runs here: No space left on device" in one_line(done.stderr, "Error")
    assert list(small_disk.iterdir()) == [filler]


def test_a_run_whose_folder_is_moved_says_so_at_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    console = start(runs, "--preset", str(write_preset(tmp_path, PRESET)), "--json")
    until(lambda: list(runs.glob("*/trial-long/repeat-1/messages.jsonl")) or console.poll() is not None)
    left = family(console.pid)
    [run] = runs.iterdir()
    run.rename(elsewhere := tmp_path / "elsewhere")
    output, errors = console.communicate(timeout=PATIENCE_S)
    assert console.returncode == 1
    line = one_line(errors, "can no longer be saved")
    assert "it has been moved" in line
    assert one_line(errors, "if you moved it, resume the run by its new path")
    assert "kept in" not in errors.replace(line, "")
    assert not run.exists()
    assert not survivors(left, 5)
    assert [trial["status"] for trial in json.loads(output)["trials"]] == ["ok", "skipped"]
    assert ddptui(runs, "show", str(elsewhere)).returncode == 0


def test_a_folder_of_runs_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    mounted = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if mounted.returncode != 0 or os.getuid() != 0:
        pytest.skip("a read-only folder that holds for root, too, needs the right to mount one")
    command = f'mount --bind -o ro {runs} {runs} 2>/dev/null && mount -o remount,bind,ro {runs} && exec $0 "$@"'
    preset = write_preset(tmp_path, PRESET)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, "-m", "ddptui", "--preset", str(preset), "--json",
         "--runs", str(runs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert "cannot save runs here: Read-only file system" in one_line(done.stderr, "Error")
    assert list(runs.iterdir()) == []
