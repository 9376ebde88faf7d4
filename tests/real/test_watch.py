"""Trainings that know nothing of ddptui, under `ddptui watch --no-ui`: who is late is named, and nothing is harmed."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
import torch
from click.testing import CliRunner

from ddptui.cli import main
from ddptui.wire.messages import Position
from tests.support.runner import ENOUGH_S, arguments, ddptui, environment
from tests.support.waiting import until
from tests.support.watched import watched as on_a_terminal
from tests.support.watching import TORCHRUN, environment_without_ddptui, journal, only_trial, script, torchrun, watched

RARE = pytest.mark.rare
OLDER = os.environ.get("DDPTUI_OLDER_TORCH")  # a Python with an older torch, whose groups take no hooks
NOTHING = "nothing was watched, so no run was saved"
LATE = {  # how, and where a rank is late; and which one it is, in which phase
    ("ddp", "forward"): (1, "forward"),
    ("ddp", "data"): (1, "data"),
    ("by_hand", "backward"): (1, "backward"),
    ("by_hand", "checkpoint"): (0, "between steps"),
}


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """The folder of a watched training in which a rank was late: its runs, and what it has learned."""

    @cache
    def folder(way: str, where: str) -> Path:
        folder = tmp_path_factory.mktemp("late")
        done = watched(folder / "runs", "--", *training(folder, way, where))
        assert done.returncode == 0, done.stderr
        return folder

    return folder


def training(folder: Path, way: str, where: str, python: str = sys.executable) -> list[str]:
    options = [f"late_ms={100 if where == 'checkpoint' else 20}", "epochs=1", f"save={folder / 'saved'}"]
    return [*torchrun(python), *script("plain", way, where, *options)]


@pytest.mark.parametrize(
    ("way", "where"), [pytest.param(*how, marks=[] if how == ("ddp", "forward") else RARE) for how in LATE]
)
def test_the_late_rank_and_its_phase_are_named(late: Callable[[str, str], Path], way: str, where: str) -> None:
    runs = late(way, where) / "runs"
    trial = only_trial(runs)
    [repeat] = trial["repeats"]
    assert LATE[way, where] in [(found.get("rank"), found.get("phase")) for found in repeat["findings"]]
    if where != "checkpoint":  # three: their steps are named, and the rank; that it is the culprit is chance
        culprit = trial["summary"]["culprit"]
        assert (culprit["rank"], culprit["phase"]) == LATE[way, where]
    assert repeat["steps"] == 29  # 1024 samples, 2 ranks, batches of 16, without the warm-up
    assert len(repeat["ranks"]) == 2
    assert [repeat["phases_ms"]["aggregate"] > 0, repeat["in_sync"]["parameters"]] == [way == "by_hand", None]
    assert "wrong" not in {light["state"] for light in repeat["checks"]}
    assert (buckets(runs), {step["epoch"] for step in steps_of(runs)}) == ({0} if way == "ddp" else {None}, {0})


def steps_of(runs: Path) -> list[dict[str, Any]]:
    return [line for line in journal(runs) if line["type"] == "Step"]


def buckets(runs: Path) -> set[int | None]:
    """The buckets of DDP that were averaged; None: by a call of the training's own."""
    return {called[9] for step in steps_of(runs) for called in step["collectives"] if called[0] == "all_reduce"}


def test_the_training_learns_the_same_bits(late: Callable[[str, str], Path], tmp_path: Path) -> None:
    port = free_port()
    bare = [
        subprocess.Popen(
            [sys.executable, *training(tmp_path, "ddp", "forward")[len(TORCHRUN) :]],
            env=os.environ | {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port},
        )
        for rank in "01"
    ]
    assert [rank.wait(ENOUGH_S) for rank in bare] == [0, 0]
    assert_same_bits(late("ddp", "forward"), tmp_path)


def free_port() -> str:
    with socket.create_server(("localhost", 0)) as free:
        return str(free.getsockname()[1])


def assert_same_bits(watched: Path, bare: Path) -> None:
    for rank in range(2):
        one, other = (torch.load(folder / f"saved-{rank}.pth") for folder in (watched, bare))
        assert all(torch.equal(one[key], other[key]) for key in one)


@RARE
@pytest.mark.skipif(OLDER is None, reason="DDPTUI_OLDER_TORCH names no Python with an older torch")
def test_so_does_one_in_an_environment_with_an_older_torch_whose_late_rank_is_named(tmp_path: Path) -> None:
    bare, here = tmp_path / "bare", tmp_path / "watched"
    for folder in (bare, here):
        folder.mkdir()
    subprocess.run(training(bare, "ddp", "forward", str(OLDER)), check=True, capture_output=True)
    done = watched(here / "runs", "--", *training(here, "ddp", "forward", str(OLDER)))
    assert done.returncode == 0, done.stderr
    culprit = only_trial(here / "runs")["summary"]["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (1, "forward")
    assert_same_bits(here, bare)


OWN = """
import importlib.util, runpy, sys
assert importlib.util.find_spec("torch")  # it looks for it before it imports it
import torch, workers
print(greeting, workers.NAME, any("inject" in folder for folder in sys.path))
runpy.run_path(sys.argv[0], run_name="__main__")
import workers
print(workers.NAME)
"""


def test_one_process_in_an_environment_of_its_own_needs_nothing_of_ours_and_waits_for_nobody(tmp_path: Path) -> None:
    """Neither ddptui nor its libraries; and a sitecustomize and modules are the training's own."""
    environment_without_ddptui(tmp_path / "venv")
    for name in ("msgspec", "zmq", "psutil", "pynvml"):
        (tmp_path / f"{name}.py").write_text("raise ImportError(__name__)")
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.greeting = 'hello'")
    (tmp_path / "workers.py").write_text("NAME = 'my own'")
    [plain, *words] = script("plain", "alone", "none", "evaluate=1", "accumulate=2")
    (tmp_path / "train.py").write_text(OWN.replace("sys.argv[0]", repr(plain)))
    command = [str(tmp_path / "venv" / "bin" / "python"), str(tmp_path / "train.py"), *words]
    done = watched(tmp_path / "runs", "--set", f'env=["PYTHONPATH={tmp_path}"]', "--", *command)
    assert (done.returncode, said_why(done)) == (0, []), done.stderr
    [first, *_, last] = done.stdout.splitlines()
    assert (first, last) == ("hello my own False", "my own")
    [repeat] = only_trial(tmp_path / "runs")["repeats"]
    assert (repeat["steps"], repeat["wait_ms"], len(repeat["ranks"])) == (2 * 32 - 3, None, 1)
    assert all(repeat["phases_ms"][phase] > 0 for phase in ("data", "forward", "backward", "optimizer"))


def test_a_loop_without_a_loader_shows_forward_by_its_model_which_can_still_be_pickled(tmp_path: Path) -> None:
    model = str(tmp_path / "model.pth")
    done = watched(tmp_path / "runs", "--", sys.executable, *script("without_loader", "modules", model))
    assert (done.returncode, done.stdout) == (0, "torch.Size([16, 1])\n"), done.stderr
    [repeat] = only_trial(tmp_path / "runs")["repeats"]
    assert (repeat["steps"], repeat["samples_per_s"]) == (17, None)
    phases_ms = repeat["phases_ms"]
    assert (phases_ms["data"], phases_ms["forward"] > 3, phases_ms["backward"] > 0) == (0, True, True)
    assert repeat["loss"]["last"] is not None


@RARE
def test_a_loop_that_fetched_once_and_then_uses_its_model_by_a_method_shows_forward(tmp_path: Path) -> None:
    done = watched(tmp_path, "--", sys.executable, *script("without_loader", "methods"))
    assert done.returncode == 0, done.stderr
    [repeat] = only_trial(tmp_path)["repeats"]
    phases_ms = repeat["phases_ms"]
    assert (phases_ms["data"], phases_ms["forward"] > 3, phases_ms["backward"] > 0) == (0, True, True)


@pytest.mark.parametrize("how", ["fork", pytest.param("spawn", marks=RARE)])
def test_ranks_that_a_script_starts_itself_are_seen(tmp_path: Path, how: str) -> None:
    done = watched(tmp_path, "--", sys.executable, *script("spawned", how, free_port()))
    assert done.returncode == 0, done.stderr
    culprit = only_trial(tmp_path)["summary"]["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (1, "forward")


def test_delays_can_be_put_in_and_only_some_steps_be_watched_without_checks_and_lines(tmp_path: Path) -> None:
    delay = 'bottleneck=[{at = "forward", ranks = [0], sleep_ms = 60}]'
    words = ["--skip", "5", "--steps", "20", "--set", delay, "--name", "my-net", "--no-checks", "--no-lines", "--"]
    done = watched(tmp_path, *words, *TORCHRUN, *script("plain", "by_hand", "none"))
    assert done.returncode == 0, done.stderr
    trial = only_trial(tmp_path)
    assert trial["name"] == "my-net"
    [repeat] = trial["repeats"]
    assert (repeat["steps"], repeat["checks"], repeat["places"]) == (20, [], [])
    assert not [message for message in journal(tmp_path) if message["type"] == "Line" or message.get("lines")]
    assert [rank["bottleneck_fired"] for rank in repeat["ranks"]] == [20, 0]
    assert trial["summary"]["culprit"]["rank"] == 0
    assert (repeat["phases_ms"]["aggregate"] > 0, buckets(tmp_path)) == (True, {None})
    assert done.stdout.count("loss") == 2  # the training went on to its end
    beats = [line["position"] for line in journal(tmp_path) if line["type"] == "Heartbeat"]
    # The console lets go of it in epoch 0; on a busy machine the rank is in the next one before it hears of that.
    passes = [msgspec.convert(beat, Position) for beat in beats]
    assert {(beat.epoch, beat.batches) for beat in passes if beat.batch} - {(1, 32)} == {(0, 32)}


@RARE
def test_the_preset_that_init_writes_compares_launches(tmp_path: Path) -> None:
    def ran(*words: str) -> str:
        command = arguments(*words, "--runs", str(tmp_path / "runs")) if "--preset" in words else arguments(*words)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=ENOUGH_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    [plain] = script("plain")
    shutil.copy(plain, tmp_path / "train.py")
    ran("init", "train.py", "ddp", "none", "epochs=99")
    preset = tmp_path / "train.toml"
    before, _, late = preset.read_text().rpartition("#[[trial]]")
    steps = before.replace("#steps = 200", "steps = 33").replace("repeats = 3", "repeats = 1")
    preset.write_text(f"{steps}[[trial]]{late.replace('#', '')}")
    at_ease, held_up = json.loads(ran("--preset", "train.toml", "--json"))["trials"]
    assert [trial["name"] for trial in (at_ease, held_up)] == ["as-it-is", "late-backward"]
    assert [trial["repeats"][0]["steps"] for trial in (at_ease, held_up)] == [30, 30]
    culprit = held_up["summary"]["culprit"]
    assert (culprit["rank"], culprit["phase"]) == (1, "backward")


# The command is its own.


def test_output_input_and_exit_code_are_the_commands_own(tmp_path: Path) -> None:
    command = arguments("watch", "--no-ui", "--", "sh", "-c", "read line; echo $line; echo wrong >&2; exit 7")
    done = subprocess.run(command, env=environment(tmp_path), input="typed\n", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "typed\n")
    first, *others = done.stderr.splitlines()
    assert first == "wrong"
    assert others[0] == "ddptui: the command ended with exit code 7"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the command"),
        (("--", "no-such-program"), "no-such-program: no such program"),
        (
            ("--repeats", "--", "python"),
            "watch has no option --repeats (`ddptui watch --help` lists them); the command comes",
        ),
        (("--stepz", "5", "python"), "watch has no option --stepz"),
        (("--steps", "0", "--", "true"), "--steps"),
        (("--set", "epochs=3", "--", "true"), "epochs: has no effect with a command"),
        (("--set", 'bottleneck=[{at="start", ranks=[0], sleep_ms=1}]', "--", "true"), "a command starts its own ranks"),
    ],
)
@pytest.mark.usefixtures("signals_given_back")
def test_bad_input_starts_nothing_and_is_said_in_a_line(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(main, ("watch", "--no-ui", *words), env={"DDPTUI_RUNS": str(tmp_path)})
    assert done.exit_code == 2
    assert why in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        (["sh", "-c", "exit 0"], 0, NOTHING),
        (
            [sys.executable, "-c", "import torch; torch.ones(1, requires_grad=True).sum().backward()"],
            0,
            "1 rank connected, but no step of an optimizer was seen",
        ),
        (["sh", "-c", "kill -9 $$"], 137, "the command was killed by SIGKILL"),
    ],
)
def test_a_command_that_trains_nothing_ends_as_it_would_and_that_is_said(
    tmp_path: Path, command: list[str], code: int, why: str
) -> None:
    done = watched(tmp_path, "--", *command)
    assert done.returncode == code
    assert any(why in line for line in done.stderr.splitlines()), done.stderr
    assert [*tmp_path.glob("*/preset.toml")] == [] if why == NOTHING else len([*tmp_path.glob("*/preset.toml")]) == 1


def test_a_command_that_trains_nothing_leaves_no_run_of_the_console(tmp_path: Path) -> None:
    variables = environment(tmp_path / "runs") | {"TERM": "xterm", "XDG_CONFIG_HOME": str(tmp_path)}
    with on_a_terminal(["watch", "--", "true"], tmp_path, variables, on_a_terminal=True) as console:
        assert console.until(b"no rank was seen")
        console.press(b"q")
        assert "computed a gradient with torch; the run is not kept" in " ".join(console.over().out.split())
    assert [*(tmp_path / "runs").iterdir()] == []


def said_why(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("ddptui: not watched")]


@pytest.mark.parametrize(
    ("python", "torch_version", "why"),
    [
        ("3, 9", "2.4.0", "its Python is 3.9, and ddptui watch needs 3.10 or newer"),
        ("3, 10", "2.3.1+cu121", "its torch is 2.3, and ddptui watch needs 2.4 or newer"),
    ],
)
def test_what_is_too_old_is_said_once_and_the_command_goes_on(
    tmp_path: Path, python: str, torch_version: str, why: str
) -> None:
    (tmp_path / "torch.py").write_text(f"__version__ = '{torch_version}'")
    code = f"import sys, time; sys.version_info = ({python}); import torch; time.sleep(0.3); print('went on')"
    twice = f'{sys.executable} -c "{code}"; {sys.executable} -c "{code}"; exit 3'
    done = watched(tmp_path / "runs", "--set", f'env=["PYTHONPATH={tmp_path}"]', "--", "sh", "-c", twice)
    assert (done.returncode, done.stdout) == (3, "went on\n" * 2)
    assert said_why(done) == [f"ddptui: not watched: {why}"]


@RARE
def test_the_steps_of_an_optimizer_that_is_compiled_are_seen(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nweight = torch.ones(1, requires_grad=True)\noptimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "step = torch.compile(optimizer.step, backend='eager')\n"
        "for _ in range(9):\n    weight.square().backward()\n    step()\n    optimizer.zero_grad()\n"
    )
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"))
    [repeat] = only_trial(tmp_path / "runs")["repeats"]
    assert (done.returncode, repeat["steps"], repeat["phases_ms"]["optimizer"]) == (0, 6, 0), done.stderr
    assert repeat["phases_ms"]["backward"] > 0


# The console may end as it likes, and come back.


STEPS = 60  # of both ranks together: enough for a verdict


def await_steps(runs: Path) -> None:
    journals = "*/trial-*/repeat-1/messages.jsonl"
    until(lambda: any(path.read_text().count('"Step"') >= STEPS for path in runs.glob(journals)))


def launcher_of(console: int) -> psutil.Process:
    """The command that a console has started, beside its relay."""
    [launcher] = [child for child in psutil.Process(console).children() if "workers.relay" not in child.cmdline()]
    return launcher


@RARE
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_training_goes_on_when_the_console_does_not(tmp_path: Path, number: signal.Signals) -> None:
    saved = tmp_path / "saved"
    training = script("plain", "ddp", "forward", "epochs=3", f"save={saved}")
    command = arguments("watch", "--no-ui", "--", *TORCHRUN, *training)
    with subprocess.Popen(command, env=environment(tmp_path / "runs"), stdout=subprocess.DEVNULL) as console:
        await_steps(tmp_path / "runs")
        # not the launcher itself, which a console that is stopped does not bury
        launcher = launcher_of(console.pid)
        ranks = launcher.children(recursive=True)
        console.send_signal(number)
        psutil.wait_procs(ranks, timeout=ENOUGH_S)
        assert all(Path(f"{saved}-{rank}.pth").exists() for rank in range(2))
        console.kill()


@RARE  # test_one_watcher.py: a console may attach
def test_a_training_that_goes_on_can_be_watched_again(tmp_path: Path) -> None:
    training = script("plain", "ddp", "forward", "late_ms=40", "epochs=400")
    command = arguments("watch", "--no-ui", "--", *TORCHRUN, *training)
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.DEVNULL) as console:
        await_steps(tmp_path)
        launcher = launcher_of(console.pid)
        console.kill()
    again = ("attach", "--json", "--skip", "5", "--steps", "40")
    try:
        for _ in range(2):  # the first time the ranks may not have noticed yet that their console is gone
            last = max(tmp_path.iterdir())
            assert ddptui(tmp_path, *again, last.name).returncode == 0
            [trial] = json.loads((max(tmp_path.iterdir()) / "results.json").read_text())["trials"]
            assert (trial["status"], trial["repeats"][0]["steps"] > 20) == ("ok", True)  # that both ranks saw
            culprit = trial["summary"]["culprit"]
            assert (culprit["rank"], culprit["phase"]) == (1, "forward")
    finally:
        launcher.terminate()
    psutil.wait_procs([launcher], timeout=ENOUGH_S)
    refused = ddptui(tmp_path, *again, last.name)
    assert (refused.returncode, "has no training that runs on this host" in refused.stderr) == (2, True)


@RARE
def test_a_rank_that_torchrun_starts_again_is_watched_on(tmp_path: Path) -> None:
    # one rank alone: torch 2.14 hangs now and then where ranks that were started again form a group of gloo
    again = [*torchrun(sys.executable, ranks=1), "--max-restarts=1"]
    done = watched(tmp_path, "--", *again, *script("plain", "alone", "none", "fails_at=3000", "epochs=60"))
    assert done.returncode == 0, done.stderr
    died = "ddptui: the ranks were restarted: rank 0 died without an error message after step 2998"
    assert done.stderr.count(died) == 1
    [repeat] = only_trial(tmp_path)["repeats"]
    numbers = [line["step"] for line in journal(tmp_path) if line["type"] == "Step"]
    [first] = [number for before, number in pairwise(numbers) if number != before + 1]
    assert first == 3000  # one number is left out; the last notes of a process that leaves by os._exit are lost
    assert (len(numbers) - numbers.index(first), repeat["steps"]) == (60 * 64, len(numbers) - 2 * 3)
    assert repeat["refused"] == 0


@RARE
def test_the_training_goes_on_when_the_disk_is_full(small_disk: Path) -> None:
    done = watched(small_disk, "--", *TORCHRUN, *script("plain", "ddp", "none", "epochs=60"))
    assert (done.returncode, done.stdout.count("loss")) == (0, 2)
    [line] = [line for line in done.stderr.splitlines() if "no longer watched" in line]
    assert line.endswith("No space left on device; the training goes on")
    assert "Traceback" not in done.stderr


@RARE
def test_an_error_that_ends_the_training_is_told(tmp_path: Path) -> None:
    [plain] = script("plain")
    (tmp_path / "train.py").write_text(Path(plain).read_text().replace("step += 1\n", "step += 1 // (step < 9)\n"))
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"), "alone", "none")
    assert done.returncode == 1
    assert "\nRank 0 failed in step 9, at train.py:" in done.stderr
    [failed] = [line for line in journal(tmp_path / "runs") if line["type"] in ("Failed", "Done")]
    assert failed["error"].startswith("ZeroDivisionError: ")


def test_an_error_of_ours_is_said_and_the_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, torch\nweight = torch.ones(1, requires_grad=True)\noptimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for step in range(9):\n    weight.square().backward()\n    optimizer.step()\n"
        "    if step == 5: sys.modules['ddptui_injected.watch.observer'].Observer.backward_ends = None\n"
        "print('trained')\n"
    )
    done = watched(tmp_path / "runs", "--", sys.executable, str(tmp_path / "train.py"))
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert said_why(done) == ["ddptui: not watched: TypeError: 'NoneType' object is not callable"]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=RARE)])
def test_a_signal_to_the_console_reaches_the_command(tmp_path: Path, number: signal.Signals) -> None:
    command = arguments("watch", "--no-ui", "--", sys.executable, *script("plain", "alone", "none", "epochs=100000"))
    with subprocess.Popen(
        command, env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as console:
        await_steps(tmp_path)
        family = psutil.Process(console.pid).children(recursive=True)
        console.send_signal(number)
        _, said = console.communicate(timeout=ENOUGH_S)
    assert console.returncode != 0
    [path] = tmp_path.glob("*/results.json")
    [trial] = json.loads(path.read_text())["trials"]
    assert trial["repeats"][0]["steps"] >= STEPS / 2, said
    assert not [process for process in family if process.is_running()]
