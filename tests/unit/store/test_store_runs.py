"""A run's folder: written, reopened, replayed, found again."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ddptui.live.fold import fold
from ddptui.live.state import Live
from ddptui.report import table
from ddptui.store import journal as journals
from ddptui.store import runs as record
from ddptui.store.journal import LOCK, LOG_TAIL, what_matters
from ddptui.store.overview import results_of
from ddptui.store.runs import ANSWERS, Run, RunError, all_runs, find_run, runs_folder
from ddptui.wire.records import Ended, Message
from tests.support.builders import (
    heartbeat,
    hello,
    journal,
    launched,
    replayed,
    results_for,
    step,
    two_trials,
    write_run,
)

# In the order in which a run writes them: the repeats of the trials are interleaved.
JOURNALS = [
    journal("a", 1, launched_ms=100),
    journal("b", 1, launched_ms=200, step_ms=20),
    journal("a", 2, launched_ms=300),
    journal("b", 2, launched_ms=400, step_ms=30),
]


def journal_of(run: Run, trial: str = "a", number: int = 1) -> Path:
    return run.folder / f"trial-{trial}" / f"repeat-{number}" / "messages.jsonl"


def test_a_new_run_has_its_preset_and_a_command_to_type_again(tmp_path: Path) -> None:
    preset = two_trials()
    run = Run.create(tmp_path / "deep" / "runs", preset, {"cores": 2})
    assert run.folder.parent == tmp_path / "deep" / "runs"
    assert run.name.endswith("-made")
    assert run.environment()["cores"] == 2
    assert run.environment()["preset"] == "made"
    assert run.preset() == preset
    assert run.outline()[1] == "interrupted"
    with run.begin("a", 1) as repeat:
        repeat.write_command(["python", "-m", "workers.spawn", "data_dir=/my data"], {"PYTHONPATH": "/a b"})
        command = (repeat.folder / "command.txt").read_text()
    assert command == "PYTHONPATH='/a b' python -m workers.spawn 'data_dir=/my data'\n"


def test_an_intact_journal_reads_back_and_replays_as_it_was_written(tmp_path: Path) -> None:
    preset = two_trials()
    run = write_run(tmp_path, preset, *JOURNALS)
    assert list(run.messages("a", 1)) == JOURNALS[0]
    assert list(run.messages("b", 2)) == JOURNALS[3]
    assert list(run.messages("b", 3)) == []
    assert len(journal_of(run).read_text().splitlines()) == len(JOURNALS[0])
    live = [message for messages in JOURNALS for message in messages]
    assert replayed(run, preset) == live
    assert fold(Live(), replayed(run, run.preset())) == fold(Live(), live)
    run = write_run(tmp_path, preset, JOURNALS[0], JOURNALS[3])
    repeats = run.repeats(preset)
    assert list(repeats) == [("a", 1), ("b", 2)]
    assert list(repeats["b", 2]) == JOURNALS[3]


def test_a_last_line_of_the_last_message_cut_short_interrupts_the_repeat(tmp_path: Path) -> None:
    preset = two_trials(repeats=1)
    run = write_run(tmp_path, preset, JOURNALS[0], JOURNALS[1])
    path = journal_of(run)
    path.write_bytes(path.read_bytes()[:-10])
    assert list(run.messages("a", 1)) == JOURNALS[0][:-1]
    results = results_of(run, preset)
    assert results.status == "interrupted"
    assert not results.unread


def test_a_damaged_line_amid_a_journal_is_reported_wherever_results_are_shown(tmp_path: Path) -> None:
    preset = two_trials(repeats=1)
    run = write_run(tmp_path, preset, JOURNALS[0], JOURNALS[1])
    assert "unread" not in json.loads(table.as_json(results_of(run, preset), preset))
    lines = journal_of(run).read_bytes().splitlines(keepends=True)
    journal_of(run).write_bytes(b"".join([*lines[:4], b"{spoilt}\n", *lines[5:]]))
    assert list(run.messages("a", 1)) == JOURNALS[0][:4]
    results = results_of(run, preset)
    [note] = results.unread or []
    lost = len(lines) - 4
    assert note.startswith(f"trial-a/repeat-1/messages.jsonl: line 5 cannot be read; {lost} lines are missing")
    assert f"caution: {note}" in table.text(results, preset, 500)
    assert json.loads(table.as_json(results, preset))["unread"] == [note]


def test_a_figure_that_is_no_number_does_not_cost_the_rest_of_the_journal(tmp_path: Path) -> None:
    """JSON has no NaN: what a rank says must not make its journal unreadable from there on."""
    messages: list[Message] = [launched(), hello(), heartbeat(cpu_percent=float("nan")), step()]
    run = Run.create(tmp_path, two_trials(), {})
    with run.begin("a", 1) as repeat:
        for message in messages:
            repeat.write(message)
    assert step() in list(run.messages("a", 1))


def test_a_repeat_that_is_left_before_its_end_was_interrupted(tmp_path: Path) -> None:
    run = Run.create(tmp_path, two_trials(), {})

    def leave() -> None:
        with run.begin("a", 1) as repeat:
            repeat.write(launched())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    *_, last = run.messages("a", 1)
    assert isinstance(last, Ended)
    assert last.status == "interrupted"


def test_a_journal_is_on_its_way_to_the_disk_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run.create(tmp_path, two_trials(), {})
    monkeypatch.setattr(journals, "FLUSH_EVERY_S", -1.0)
    with run.begin("a", 1) as repeat:
        repeat.write(launched())
        repeat.write(hello())
        assert list(run.messages("a", 1)) == [launched(), hello()]


def test_results_are_replaced_as_a_whole_and_a_link_is_not_followed(tmp_path: Path) -> None:
    preset = two_trials()
    run = write_run(tmp_path, preset, *JOURNALS)
    path = run.folder / "results.json"
    before = path.stat().st_ino
    with path.open() as reader:
        run.write_results(results_for(preset, JOURNALS[0]))
        assert json.loads(reader.read())["status"] == "ok"  # a reader keeps the old one
    assert json.loads(path.read_text())["status"] == "interrupted"
    assert path.stat().st_ino != before
    assert sorted(entry.name for entry in run.folder.iterdir() if entry.is_file()) == [
        "environment.json", "preset.toml", "results.json",
    ]  # fmt: skip
    run, precious = write_run(tmp_path / "runs", two_trials(), JOURNALS[0]), tmp_path / "precious"
    precious.write_text("mine")
    (run.folder / "results.json.new").symlink_to(precious)
    run.write_results(results_for(two_trials(), JOURNALS[0]))
    assert precious.read_text() == "mine"


def test_what_lies_in_a_repeats_folder_is_read_as_far_as_needed(tmp_path: Path) -> None:
    run = Run.create(tmp_path, two_trials(), {})
    with run.begin("a", 1) as repeat:
        assert repeat.flight_records(range(4)) == []
        for name in ("rank-1.flight.json", "rank-3.flight.json", "rank-7.flight.json", "rank-2.flight.part"):
            (repeat.folder / name).touch()
        assert repeat.flight_records(range(4)) == [1, 3]
        assert repeat.log("rank-0.log") == ""
        (repeat.folder / "rank-0.log").write_bytes(b"short \xff\n")
        assert repeat.log("rank-0.log") == "short �\n"
        (repeat.folder / "rank-0.log").write_bytes(b"x" * 100_000 + b"the end")
        assert repeat.log("rank-0.log").endswith("xthe end")
        assert len(repeat.log("rank-0.log")) == LOG_TAIL


def test_two_runs_in_the_same_second_get_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noon(record.datetime):
        @classmethod
        def now(cls, tz: object = None) -> "Noon":
            return cls(2030, 1, 2, 12, 0, 0)

    monkeypatch.setattr(record, "datetime", Noon)
    names = [Run.create(tmp_path, two_trials(), {}).name for _ in range(3)]
    assert names == ["20300102-120000-made", "20300102-120000-made.2", "20300102-120000-made.3"]
    assert find_run(tmp_path, "last").name == names[-1]
    assert find_run(tmp_path, names[0]).name == names[0]


def test_a_runs_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    place.write_text("")
    for runs in (place, place / "below"):
        with pytest.raises(RunError) as refusal:
            Run.create(runs, two_trials(), {})
        assert str(refusal.value).startswith(f"{runs}: cannot save runs here: ")
        assert "name a folder with --runs" in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_the_runs_folder_is_the_one_given_then_of_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("DDPTUI_RUNS", raising=False)
    assert runs_folder(None) == tmp_path / "data" / "ddptui" / "runs"
    monkeypatch.setenv("DDPTUI_RUNS", str(tmp_path / "mine"))
    assert runs_folder(None) == tmp_path / "mine"
    assert runs_folder("here") == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert runs_folder("~/runs") == tmp_path / "home" / "runs"


def test_an_editor_that_replaces_the_preset_lets_no_second_console_in_and_old_runs_get_a_lock(tmp_path: Path) -> None:
    run = Run.create(tmp_path, two_trials(), {})
    with run.held():
        saved = run.folder / "preset.toml.new"
        saved.write_bytes((run.folder / "preset.toml").read_bytes())
        saved.replace(run.folder / "preset.toml")
        assert run.is_held()
        with pytest.raises(RunError, match="another console is running this run"), run.held():
            pass
    assert not run.is_held()
    run = write_run(tmp_path, two_trials(), JOURNALS[0])
    assert not (run.folder / LOCK).exists()
    assert not run.is_held()
    with run.held():
        assert run.is_held()


LOOKS = """
import sys, pathlib
from ddptui.store.runs import Run
run = Run(pathlib.Path(sys.argv[1]))
print(run.is_held(), flush=True)
while True: run.is_held()
"""


def test_a_look_whether_it_is_held_never_keeps_a_console_from_holding_it(tmp_path: Path) -> None:
    run = Run.create(tmp_path, two_trials(), {})
    with run.held():
        pass
    with subprocess.Popen([sys.executable, "-c", LOOKS, run.folder], stdout=subprocess.PIPE) as others:
        assert others.stdout is not None
        assert others.stdout.readline() == b"False\n"
        try:
            for _ in range(2000):
                with run.held():
                    assert run.is_held()
        finally:
            others.kill()


@pytest.mark.parametrize("other", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_what_is_no_file_is_no_lock(tmp_path: Path, other: Callable[[Path], None]) -> None:
    run = write_run(tmp_path, two_trials(), JOURNALS[0])
    other(run.folder / LOCK)
    assert not run.is_held()
    with suppress(RunError), run.held():
        pass
    assert not (run.folder / "elsewhere").exists()


def test_a_run_on_a_medium_that_cannot_be_written_is_shown_and_not_held(tmp_path: Path) -> None:
    write_run(tmp_path, two_trials(), JOURNALS[0], JOURNALS[1])
    command = 'mount --bind -o ro "$0" "$0" 2>/dev/null && mount -o remount,bind,ro "$0" && exec "$@"'
    words = [sys.executable, "-m", "ddptui"]

    def read_only(*more: str) -> subprocess.CompletedProcess[str]:
        inside = ["unshare", "-m", "sh", "-c", command, str(tmp_path), *words, *more, "--runs", str(tmp_path)]
        return subprocess.run(inside, capture_output=True, text=True, check=False)

    if os.getuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a read-only folder that holds for root, too, needs the right to mount one")
    assert read_only("show", "last").returncode == 0
    resumed = read_only("--resume", "last", "--no-ui")
    assert resumed.returncode == 2
    assert "this run cannot be continued: Read-only file system" in resumed.stderr


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs, a folder and a file that are none."""
    for name in ("20300101-000000-a", "20300102-000000-a", "20300102-000000-b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "preset.toml").write_text('[[trial]]\nname = "a"\n')
    (tmp_path / "20300103-no-run").mkdir()
    (tmp_path / "notes.txt").write_text("")
    return tmp_path


def test_the_newest_run_comes_first(runs: Path) -> None:
    assert [run.name for run in all_runs(runs)] == ["20300102-000000-b", "20300102-000000-a", "20300101-000000-a"]
    assert all_runs(runs / "nowhere") == all_runs(runs / "notes.txt") == []


def test_a_run_that_may_not_be_looked_into_is_listed_with_the_reason_beside_the_others(runs: Path) -> None:
    hidden = runs / "20300102-000000-a"
    hidden.chmod(0)
    command = [sys.executable, "-m", "ddptui", "runs", "--runs", str(runs)]
    if os.getuid() == 0:  # who may look into everything, unless these rights are taken away
        rights = "-dac_override,-dac_read_search"
        command = ["setpriv", "--bounding-set", rights, "--inh-caps", rights, *command]
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv")
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    hidden.chmod(0o700)
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["20300102-000000-b", "20300102-000000-a", "20300101-000000-a"]
    assert "Permission denied" in lines[1]


@pytest.mark.parametrize(
    ("name", "found"),
    [("20300102-000000-a", "20300102-000000-a"), ("20300101", "20300101-000000-a"), ("last", "20300102-000000-b")],
)
def test_a_run_is_found_by_its_name_the_start_of_it_or_as_the_last(runs: Path, name: str, found: str) -> None:
    assert find_run(runs, name).name == found


def test_a_run_is_found_by_its_folder(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    found = find_run(tmp_path / "elsewhere", "20300101-000000-a")
    assert found.folder == runs / "20300101-000000-a"
    assert found.preset().name == "preset"  # it has no environment.json to tell more
    with pytest.raises(RunError, match=r"no run 'last' in .*: there are no runs yet; start one with `ddptui run quick"):
        find_run(tmp_path / "nowhere", "last")


UNKNOWN = "no run's name begins with it, and no preset of that name was run; `ddptui runs` lists them"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("20300102", "2 runs begin with '20300102' in {}; `ddptui runs` lists them"),
        ("1999", f"no run '1999' in {{}}: {UNKNOWN}"),
        ("quickstart", "no run 'quickstart' in {}: this preset was never run; start it with `ddptui run quickstart`"),
    ],
)
def test_a_run_that_cannot_be_told_is_refused(runs: Path, name: str, message: str) -> None:
    with pytest.raises(RunError) as refusal:
        find_run(runs, name)
    assert str(refusal.value) == message.format(runs)


def of_preset(run: Path, preset: str) -> None:
    (run / "environment.json").write_text(json.dumps({"preset": preset}))


def test_a_run_is_found_by_its_preset_unless_a_name_begins_so_or_it_is_spoilt(runs: Path) -> None:
    for name in ("20300101-000000-a", "20300102-000000-a"):
        of_preset(runs / name, "who-waits")
    of_preset(runs / "20300102-000000-b", "quickstart")
    assert find_run(runs, "who-waits").name == "20300102-000000-a"
    assert find_run(runs, "quickstart").name == "20300102-000000-b"
    of_preset(runs / "20300102-000000-b", "20300101")
    assert find_run(runs, "20300101").name == "20300101-000000-a"
    of_preset(runs / "20300102-000000-b", "last")
    of_preset(runs / "20300102-000000-a", "last")
    assert find_run(runs, "last").name == "20300102-000000-b"
    of_preset(runs / "20300101-000000-a", "who-waits")
    (runs / "20300102-000000-b" / "environment.json").write_text("{")
    assert find_run(runs, "who-waits").name == "20300101-000000-a"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nowhere")], ids=["pipe", "nowhere"])
def test_a_run_without_a_plain_preset_is_listed_with_the_reason(make: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "runs" / "run").mkdir(parents=True)
    make(tmp_path / "runs" / "run" / "preset.toml")
    [run] = all_runs(tmp_path / "runs")
    with pytest.raises(RunError, match=r"run/preset\.toml: "):
        run.preset()


def test_answers_are_kept_with_their_questions_and_read_by_their_text(tmp_path: Path) -> None:
    preset = two_trials(question=[{"text": "Why?"}, {"text": "Wo?"}])
    run = Run.create(tmp_path, preset, {})
    form = (run.folder / ANSWERS).read_text(encoding="utf-8")
    assert form == '{\n  "Why?": "",\n  "Wo?": ""\n}\n'
    (run.folder / ANSWERS).write_text(form.replace('"Why?": ""', '"Why?": "慢"'), encoding="utf-8")
    assert run.answers(run.preset()) == ["慢", ""]
    run.write_answers(preset, ["", "here"])
    assert run.answers(two_trials(question=[{"text": "Wo?"}, {"text": "New?"}])) == ["here", ""]
    (run.folder / ANSWERS).write_text("[]")
    with pytest.raises(RunError, match=r"answers\.json: cannot be read"):
        run.answers(preset)


def test_what_connects_gpus_may_change_figures_and_the_package_of_nccl() -> None:
    begun = {"gpu_links": ["NVLink: 0-1"], "packages": {"nccl": "2.28.9"}, "load_before": 1.0}
    now = {"gpu_links": ["PHB: 0-1"], "packages": {"nccl": "2.30.7"}, "load_before": 9.0}
    before = what_matters(begun)
    changed = {key for key, value in what_matters(now).items() if before.get(key) != value}
    assert changed == {"gpu_links", "nccl"}
