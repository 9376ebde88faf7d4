"""The run's folder: write it while the run goes on, reopen it later. Nothing about a run is kept anywhere else."""

import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec
import platformdirs

from ddptui.preset import Preset
from ddptui.preset_file import PresetError, load
from ddptui.preset_text import as_toml
from ddptui.results import Results
from ddptui.wire import Ended, Launched, Message

RUNS_VARIABLE = "DDPTUI_RUNS"
FLUSH_EVERY_S = 1.0
LOG_TAIL = 16_384  # bytes


STAMP, STAMP_FORMAT = re.compile(r"\d{8}-\d{6}"), "%Y%m%d-%H%M%S"  # what a run's name begins with


class RunError(ValueError):
    """A run's folder that cannot be made, found or read: one line."""


def runs_folder(given: str | None) -> Path:
    """Where runs are kept: as given, or DDPTUI_RUNS, or the user's data folder."""
    chosen = given or os.environ.get(RUNS_VARIABLE)
    return Path(os.path.expanduser(chosen)).absolute() if chosen else platformdirs.user_data_path("ddptui") / "runs"


class _Status(msgspec.Struct):
    """As much of results.json as a list of runs wants."""

    status: str


class Repeat:
    """One repeat's folder, while it is being written."""

    def __init__(self, folder: Path, number: int, journal: IO[bytes]) -> None:
        self.folder = folder
        self.number = number
        self._journal = journal
        self._flushed = time.monotonic()
        self._over = False

    def write(self, message: Message) -> None:
        """Add a message to the journal, at most a second before it is on its way to the disk."""
        self._journal.write(msgspec.json.encode(message) + b"\n")
        self._over = isinstance(message, Ended)
        if self._over or time.monotonic() - self._flushed > FLUSH_EVERY_S:
            self._journal.flush()
            self._flushed = time.monotonic()

    def write_command(self, command: list[str], environment: dict[str, str]) -> None:
        """The command as it can be typed again, with no console there."""
        variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
        (self.folder / "command.txt").write_text(" ".join([*variables, shlex.join(command)]) + "\n", encoding="utf-8")

    def log(self, name: str) -> str:
        """The end of one of the repeat's logs; empty where there is none."""
        path = self.folder / name
        if not path.is_file():
            return ""
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_TAIL))
            return log.read().decode("utf-8", "replace")

    def close(self) -> None:
        if not self._over:
            self.write(Ended(at_ns=time.monotonic_ns(), status="interrupted"))


class Run:
    """A run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @staticmethod
    def create(runs: Path, preset: Preset, environment: dict[str, Any]) -> "Run":
        """Make the folder of a new run. Raises RunError."""
        stamp = datetime.now().strftime(STAMP_FORMAT)
        try:
            runs.mkdir(parents=True, exist_ok=True)
            folder = _new_folder(runs, f"{stamp}-{preset.name}")
            (folder / "preset.toml").write_text(as_toml(preset), encoding="utf-8")
            about = {"preset": preset.name, "started": datetime.now().astimezone().isoformat("T", "seconds")}
            (folder / "environment.json").write_bytes(_pretty(about | environment))
        except OSError as error:
            raise RunError(f"{runs}: cannot keep runs here: {error.strerror}; name a folder with --runs") from None
        return Run(folder)

    @contextmanager
    def begin(self, trial: str, number: int) -> Iterator[Repeat]:
        folder = self.repeat_folder(trial, number)
        folder.mkdir(parents=True)
        with (folder / "messages.jsonl").open("wb") as journal:
            repeat = Repeat(folder, number, journal)
            try:
                yield repeat
            finally:
                repeat.close()

    def write_results(self, results: Results) -> None:
        """Replace results.json as a whole: a reader sees the old one or the new one."""
        new = self.folder / "results.json.new"
        new.write_bytes(_pretty(results))
        new.replace(self.folder / "results.json")

    def preset(self) -> Preset:
        """The preset as it was run. Raises RunError."""
        try:
            preset = load(str(self.folder / "preset.toml"))
        except PresetError as error:
            raise RunError(str(error)) from None
        return msgspec.structs.replace(preset, name=self.environment().get("preset", preset.name))

    def environment(self) -> dict[str, Any]:
        """What the run was made on. Raises RunError."""
        path = self.folder / "environment.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RunError(f"{path}: cannot be read: {error}") from None

    def status(self) -> str:
        """What results.json says; a run that has none was interrupted before its first repeat was over."""
        path = self.folder / "results.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=_Status).status
        except FileNotFoundError:
            return "interrupted"
        except (OSError, ValueError):
            return "results.json cannot be read"

    def messages(self, trial: str, number: int) -> Iterator[Message]:
        """A repeat's journal. A last line cut short (the console was killed) is left out."""
        path = self.repeat_folder(trial, number) / "messages.jsonl"
        if not path.is_file():
            return
        decoder = msgspec.json.Decoder(Message)
        for line in path.read_bytes().split(b"\n"):
            try:
                yield decoder.decode(line)
            except ValueError:
                return

    def checkpoints(self, trial: str, number: int) -> list[Path]:
        """What the ranks of a repeat have saved, by rank."""
        folder = self.repeat_folder(trial, number)
        ranks = {path.stem.removeprefix("model-rank-"): path for path in folder.glob("model-rank-*.pth")}
        return [ranks[rank] for rank in sorted((rank for rank in ranks if rank.isdecimal()), key=int)]

    def repeats(self, preset: Preset) -> dict[tuple[str, int], Iterator[Message]]:
        """The journals of the repeats that were launched, by trial and number."""
        return {
            (trial.name, number): self.messages(trial.name, number)
            for trial in preset.trials
            for number in range(1, preset.repeats + 1)
            if self.repeat_folder(trial.name, number).is_dir()
        }

    def replay(self, preset: Preset) -> Iterator[Message]:
        """All journals, in the order in which they were written."""
        journals = [
            list(self.messages(trial.name, number))
            for trial in preset.trials
            for number in range(1, preset.repeats + 1)
        ]
        for journal in sorted(filter(None, journals), key=_launched_at):
            yield from journal

    def repeat_folder(self, trial: str, number: int) -> Path:
        return self.folder / f"trial-{trial}" / f"repeat-{number}"


def all_runs(runs: Path) -> list[Run]:
    """The runs in a folder, newest first."""
    folders = [path for path in runs.iterdir() if (path / "preset.toml").is_file()] if runs.is_dir() else []
    return [Run(folder) for folder in sorted(folders, key=lambda path: path.name, reverse=True)]


def find_run(runs: Path, name: str) -> Run:
    """A run by its folder, its name, the start of its name, or `last`. Raises RunError."""
    if (Path(name) / "preset.toml").is_file():
        return Run(Path(name).absolute())
    known = all_runs(runs)
    fitting = known[:1] if name == "last" else [run for run in known if run.name == name]
    fitting = fitting or [run for run in known if run.name.startswith(name)]
    if len(fitting) == 1:
        return fitting[0]
    what = f"{len(fitting)} runs begin with {name!r}" if fitting else f"no run {name!r}"
    raise RunError(f"{what} in {runs}; `ddptui runs` lists them")


def delete(runs: Path, run: Run) -> None:
    """Remove a run's folder for good: only one that holds a preset and lies in the folder of runs itself, never what a
    symbolic link leads to. Raises RunError."""
    if run.folder.resolve() != runs.resolve() / run.name or not (run.folder / "preset.toml").is_file():
        raise RunError(f"{run.folder}: not deleted: it is no run's folder in {runs}")
    try:
        shutil.rmtree(run.folder)
    except OSError as error:
        raise RunError(f"{run.folder}: not deleted, or not all of it: {error.strerror}") from None


def started(name: str) -> datetime | None:
    """When a run began, by the stamp that its name begins with; None if it has none."""
    stamp = STAMP.match(name)
    try:
        return datetime.strptime(stamp[0], STAMP_FORMAT) if stamp else None
    except ValueError:
        return None


def _new_folder(runs: Path, name: str) -> Path:
    """Make a folder that was not there: two consoles that start in the same second get one each."""
    for suffix in ["", *(f".{number}" for number in range(2, 1000))]:
        try:
            folder = runs / (name + suffix)
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise FileExistsError(17, "too many runs of this name", name)


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _launched_at(journal: Iterable[Message]) -> int:
    return next((message.at_ns for message in journal if isinstance(message, Launched)), 0)
