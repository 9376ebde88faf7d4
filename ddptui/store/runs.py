"""A run's folder: written while the run goes on, opened again later. Nothing about a run is stored anywhere else."""

import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from ddptui.analysis.outline import ResultsOutline
from ddptui.analysis.results import Results
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.host.folders import expanded, user_data
from ddptui.store.journal import RepeatJournal, raising_run_lost, read_messages
from ddptui.store.presets import as_toml, load
from ddptui.wire.records import Message

RUNS_VARIABLE = "DDPTUI_RUNS"
# Keys of the environment whose change may change figures; the versions of packages count, too.
MATTERS_TO_FIGURES = ("ddptui", "python", "host", "cpu", "cores", "gpus", "gpu_driver", "gpus_visible", "watched")
JOURNAL = "messages.jsonl"  # in a repeat's folder
DISTURBED = "disturbed"  # ends the name of a repeat's folder that was set aside
STAMP_FORMAT = "%Y%m%d-%H%M%S"  # what a run's name begins with: the local time of its start


class RunError(ValueError):
    """A run's folder cannot be made, found or read; the message has one line."""


def runs_folder(given: str | None) -> Path:
    """The folder of runs: as given, or DDPTUI_RUNS, or in the user's data folder. Raises OSError: there is no home."""
    chosen = given or os.environ.get(RUNS_VARIABLE)
    return expanded(chosen) if chosen else user_data("runs")


class Run:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @staticmethod
    def create(runs: Path, preset: Preset, environment: dict[str, Any]) -> "Run":
        """Make the folder of a new run. Raises RunError."""
        now = datetime.now().astimezone()
        about = {"preset": preset.name, "started": now.isoformat("T", "seconds")}
        try:
            runs.mkdir(parents=True, exist_ok=True)
            folder = _new_folder(runs, f"{now.strftime(STAMP_FORMAT)}-{preset.name}")
            try:
                (folder / "environment.json").write_bytes(_pretty(about | environment))
                (folder / "preset.toml").write_text(as_toml(preset), encoding="utf-8")  # last: now it is a run
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise RunError(f"{runs}: cannot keep runs here: {error.strerror}; name a folder with --runs") from None
        return Run(folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the run for this console while the context is open. Raises RunError if another console has it."""
        try:
            preset = (self.folder / "preset.toml").open("r+b")
        except OSError as error:
            raise RunError(f"{self.folder}: nothing can be added to this run: {error.strerror}") from None
        with preset:
            if not _lock(preset):
                raise RunError(f"{self.folder}: another console has this run under way: stop it there first")
            yield

    def is_held(self) -> bool:
        """Whether a console has this run under way."""
        try:
            with (self.folder / "preset.toml").open("r+b") as preset:
                return not _lock(preset)
        except OSError:
            return False

    @contextmanager
    def begin(self, trial: str, number: int) -> Iterator[RepeatJournal]:
        """Make the folder of a repeat with its journal. Raises RunLost."""
        folder = self.repeat_folder(trial, number)
        with raising_run_lost(self.folder):
            if not (self.folder / "preset.toml").is_file():
                raise FileNotFoundError(errno.ENOENT, "it has been deleted")
            _put_aside(folder)
            folder.mkdir(parents=True)
            journal = (folder / JOURNAL).open("wb")
        repeat = RepeatJournal(folder, number, journal)
        try:
            yield repeat
        finally:
            try:
                repeat.close()
            finally:
                with raising_run_lost(folder):
                    journal.close()

    def set_aside(self, trial: str, number: int) -> None:
        """Rename the folder of a repeat that other programs disturbed, since it is launched again. Raises RunLost."""
        folder = self.repeat_folder(trial, number)
        with raising_run_lost(self.folder):
            folder.rename(_free_name(folder, DISTURBED))

    def write_results(self, results: Results) -> None:
        """Replace results.json. Raises RunLost."""
        self._replace("results.json", _pretty(results))

    def note_resumption(self, environment: dict[str, Any]) -> dict[str, Any]:
        """Add to environment.json that the run was resumed. Returns what has changed in the environment since it was
        started, with its new values. Raises RunError, RunLost."""
        begun = self.environment()
        before, now_here = _what_matters(begun), _what_matters(environment)
        changed = {key: value for key, value in now_here.items() if before.get(key) != value}
        now = datetime.now().astimezone().isoformat("T", "seconds")
        resumed = [*begun.get("resumed", []), {"at": now, "changed": changed}]
        self._replace("environment.json", _pretty(begun | {"resumed": resumed}))
        return changed

    def _replace(self, name: str, content: bytes) -> None:
        """Write the file as a whole: a reader sees the old one or the new one, also after a crash. Raises RunLost."""
        new = self.folder / f"{name}.new"
        with raising_run_lost(self.folder):
            try:
                with new.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())  # or a crash could leave the new name with no content
                new.replace(self.folder / name)
            except OSError:
                with suppress(OSError):
                    new.unlink()
                raise

    def preset(self) -> Preset:
        """The preset as it was run. Raises RunError."""
        try:
            preset = load(str(self.folder / "preset.toml"))
        except PresetError as error:
            raise RunError(str(error)) from None
        return msgspec.structs.replace(preset, name=self.environment().get("preset", preset.name))

    def environment(self) -> dict[str, Any]:
        """The environment that the run was started in; empty if it is not known. Raises RunError."""
        path = self.folder / "environment.json"
        try:
            return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise RunError(f"{path}: cannot be read: {error}") from None

    def status(self) -> str:
        """The status in results.json; a run that has none was interrupted before its first repeat had ended."""
        try:
            return self.results_outline().status
        except FileNotFoundError:
            return "interrupted"
        except (OSError, ValueError):
            return "results.json cannot be read"

    def results_outline(self) -> ResultsOutline:
        """The statuses and times in results.json. Raises OSError, or ValueError if it is damaged."""
        return msgspec.json.decode((self.folder / "results.json").read_bytes(), type=ResultsOutline)

    def messages(self, trial: str, number: int, unread: list[str] | None = None) -> Iterator[Message]:
        """The messages of a repeat's journal, up to a line that cannot be read; a note about that goes to `unread`."""
        path = self.repeat_folder(trial, number) / JOURNAL
        if path.is_file():
            yield from read_messages(path, unread if unread is not None else [])

    def disturbed(self, trial: str, number: int) -> list[Path]:
        """The journals of a repeat's launches that were set aside, in order."""
        folder = self.repeat_folder(trial, number)
        aside = folder.parent.glob(f"{folder.name}.{DISTURBED}-[0-9]*")
        numbers = (int(path.name.rpartition("-")[2]) for path in aside)
        paths = [folder.with_name(f"{folder.name}.{DISTURBED}-{number}") / JOURNAL for number in sorted(numbers)]
        return [path for path in paths if path.is_file()]

    def checkpoints(self, trial: str, number: int) -> list[Path]:
        """The checkpoints of a repeat, by rank."""
        folder = self.repeat_folder(trial, number)
        ranks = {path.stem.removeprefix("model-rank-"): path for path in folder.glob("model-rank-*.pth")}
        return [ranks[rank] for rank in sorted((rank for rank in ranks if rank.isdecimal()), key=int)]

    def repeats(self, preset: Preset) -> dict[tuple[str, int], Iterator[Message]]:
        """The journals of the launched repeats, by trial and number."""
        return {
            (trial.name, number): self.messages(trial.name, number)
            for trial in preset.trials
            for number in range(1, preset.repeats + 1)
            if self.repeat_folder(trial.name, number).is_dir()
        }

    def replay(self, preset: Preset, unread: list[str] | None = None) -> Iterator[Message]:
        """The messages of all journals."""
        for journal in self.journals(preset):
            yield from read_messages(journal, unread if unread is not None else [])

    def journals(self, preset: Preset) -> list[Path]:
        """All journals in the order in which they were written, in which repeats of trials are interleaved."""
        repeats = [(trial.name, number) for number in range(1, preset.repeats + 1) for trial in preset.trials]
        paths = [
            path for repeat in repeats for path in (*self.disturbed(*repeat), self.repeat_folder(*repeat) / JOURNAL)
        ]
        return [path for path in paths if path.is_file()]

    def repeat_folder(self, trial: str, number: int) -> Path:
        """The folder of a repeat, with its journal, command and logs."""
        return self.folder / f"trial-{trial}" / f"repeat-{number}"


def all_runs(runs: Path) -> list[Run]:
    """The runs in a folder, newest first. Raises OSError."""
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


def _what_matters(environment: dict[str, Any]) -> dict[str, Any]:
    packages: dict[str, Any] = environment.get("packages", {})
    return {key: environment.get(key) for key in MATTERS_TO_FIGURES} | packages


def _new_folder(runs: Path, name: str) -> Path:
    for suffix in ["", *(f".{number}" for number in range(2, 1000))]:
        with suppress(FileExistsError):  # of another console that started in the same second
            folder = runs / (name + suffix)
            folder.mkdir()
            return folder
    raise FileExistsError(errno.EEXIST, "too many runs of this name", name)


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _lock(file: IO[bytes]) -> bool:
    """Whether the lock was acquired. The kernel releases it when the file is closed, also for a console that died."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # files cannot be locked here, as on some network file systems: nothing can be known
        return True
    return True


def _put_aside(folder: Path) -> None:
    """Rename what an interrupted repeat left: no figure uses it, and nothing is lost."""
    if folder.exists():
        folder.rename(_free_name(folder, "interrupted"))


def _free_name(folder: Path, why: str) -> Path:
    """As in repeat-2.disturbed-1: the first one that is free."""
    names = (folder.with_name(f"{folder.name}.{why}-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
