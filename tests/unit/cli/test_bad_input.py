"""Bad input: each in a console of its own. One line says what is wrong, and nothing is begun: no folder, no process."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from ddptui.cli import main
from ddptui.engines.join.ticket import Ticket, read_ticket
from ddptui.host.folders import lab_root
from ddptui.wire.connection import PeerKeys
from ddptui.wire.relay_file import Watching
from tests.support.runner import QUICK
from tests.unit.cli.bad_input import CASES, Case, write

HANGS_S = 30  # a refusal takes a quarter of a second
CONSOLE = Path(__file__).parent / "overheard.py"
A_RUN = f'[defaults]\n{QUICK}[[trial]]\nlaunch = "single"\n'


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Nothing of this user's: a home of its own, and the mark that a console leaves when it starts a process."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "PYTHONPATH": str(lab_root()),
        "DDPTUI_RUNS": str(folder / "runs"),
        "OMP_NUM_THREADS": "1",
        "STARTED": str(folder / "started"),
        **variables,
    }


def console(
    folder: Path, words: Sequence[str | bytes], shell: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """The real console, overheard."""
    command: list[str | bytes] = [sys.executable, str(CONSOLE), *words]
    if shell:
        command = ["sh", "-c", shell.replace("{}", 'exec "$@"'), "sh", *command]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=HANGS_S,
        check=False,
    )


def assert_refused(done: "subprocess.CompletedProcess[str]", folder: Path, message: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    *usage, line = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert message in line
    assert not usage or usage[0].startswith("Usage: "), done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "runs").exists()
    assert not (folder / "started").exists()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_bad_input_is_refused_in_one_line_and_nothing_is_begun(case: Case, tmp_path: Path) -> None:
    write(tmp_path, case.files)
    done = console(tmp_path, case.words, case.shell, **case.variables, HIDDEN=case.hidden)
    assert_refused(done, tmp_path, case.message)


def with_mounts(*words: str) -> str:
    """A shell's line in a mount namespace of its own. Skips where this user may not make one."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounts of one's own want root (unshare -m)")
    return "exec unshare -m sh -c '" + "; ".join(words) + """; exec "$@"' sh "$@" """


HOMELESS = "exec unshare --user --map-user=54321 env -u HOME "  # a user id that is in no /etc/passwd


NEED_A_HOME = [
    ("runs",),
    ("--preset", "quickstart", "--no-ui"),
    ("runs", "--runs", "~/r"),
    ("--preset", "./p.toml", "--no-ui", "--runs", "r", "--set", "dataset=mnist"),
]


@pytest.mark.parametrize("words", NEED_A_HOME)
def test_a_user_without_a_home_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    if subprocess.run([*HOMELESS.split()[1:], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("another user id wants user namespaces (unshare --user)")
    write(tmp_path, {"p.toml": A_RUN})
    done = console(tmp_path, words, HOMELESS + '"$@"', DDPTUI_RUNS="")
    assert_refused(done, tmp_path, "~: no home folder; set HOME to a folder that you own")
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


@pytest.mark.parametrize(
    "variables",
    [{"COLUMNS": "0"}, {"COLUMNS": "wide"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
     {"TMPDIR": "/nowhere"}, {"HOME": "/dev/null"}, {"XDG_CONFIG_HOME": "/dev/null"}],
)  # fmt: skip
def test_an_odd_environment_changes_nothing(variables: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, {"preset.toml": 'title = "Für wén?"\n[[trial]]\n'})
    done = console(tmp_path, ("presets", "./preset.toml"), **variables)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("file", ["results.json", "trial-a/repeat-1/messages.jsonl"])
def test_a_spoilt_run_is_shown_as_far_as_it_can_be(file: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        {"runs/20260101-000000-x/preset.toml": '[[trial]]\nname = "a"', f"runs/20260101-000000-x/{file}": b"\xff{"},
    )
    done = console(tmp_path, ("show", "last"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_read_only_home_or_folder_for_temporary_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    home = tmp_path / "home"
    shell = with_mounts(f"mount --bind {home} {home}", f"mount -o remount,ro,bind {home}")
    done = console(tmp_path, ("--preset", "quickstart", "--no-ui"), shell, DDPTUI_RUNS="")
    assert_refused(done, tmp_path, "Read-only file system; name a folder with --runs")
    mounts = [f"mount --bind {path} {path}; mount -o remount,ro,bind {path}" for path in ("/tmp", "/var/tmp")]
    done = console(tmp_path, ("--preset", "quickstart", "--no-ui"), with_mounts(*mounts, "cd /proc"), TMPDIR="/tmp/t")
    assert_refused(done, tmp_path, "/tmp/t: temporary files cannot be written")
    assert "set TMPDIR to a writable folder" in done.stderr


TO_JOIN = Ticket(run="r", endpoint="tcp://10.0.0.1:15000", token="t" * 32, keys=PeerKeys("s" * 40, "p" * 40, "x" * 40))
TO_WATCH = msgspec.structs.replace(TO_JOIN, watching=Watching(skip=5, steps=20, every=2))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--listen", "--", "train", "x y"), "also this one: `ddptui watch --join TICKET -- train 'x y'`"),
        (("--listen", "--kill-on-exit"), "--kill-on-exit has no effect with --listen"),
        (("--listen", "--interface", "no-such"), "no interface 'no-such' is up"),
        (("--listen", "--steps", "0"), "--steps"),
        (("--port", "2000", "--", "true"), "need --listen: they say how other hosts reach this console"),
        (("--join", "nothing", "--", "true"), "nothing: neither a ticket (ddptui1:…) nor a file that holds one"),
        (("--join", "nothing", "--skip", "3", "--", "true"), "--skip cannot be combined with --join: give it"),
        (("--join", "nothing", "--set", "a=1", "--", "true"), "--set cannot be combined with --join: give it"),
        (("--join", "nothing"), "name the command"),
        (("--join", TO_JOIN.spell(), "--", "true"), "this ticket is for `ddptui join`"),
        (("--join", TO_WATCH.spell(), "--", "no-such-program"), "no-such-program: no such program"),
    ],
)
@pytest.mark.usefixtures("signals_given_back")
def test_what_cannot_be_is_refused(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(main, ["watch", *words], env={"DDPTUI_RUNS": str(tmp_path / "runs")})
    assert done.exit_code == 2
    assert why in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("signals_given_back")
def test_a_ticket_says_what_is_to_be_watched_and_is_none_to_join() -> None:
    done = CliRunner().invoke(main, ["join", TO_WATCH.spell()])
    assert (done.exit_code, "`ddptui watch --join TICKET -- COMMAND`" in done.stderr) == (2, True)
    assert read_ticket(TO_WATCH.spell()) == TO_WATCH
    assert len(TO_JOIN.spell()) < len(TO_WATCH.spell())
