"""A run's folder: written during the run, read again later. Nothing about a run is stored elsewhere."""

import errno
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ddptui.analysis.repeats import ResultsOutline
from ddptui.analysis.results import Results
from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.host.folders import check_plain, expanded, read_plain, user_data
from ddptui.host.source import sources_of
from ddptui.store.journal import (
    LOCK,
    MOST_JOURNAL,
    TOO_DEEP,
    RepeatJournal,
    is_locked,
    lock,
    opened,
    problem_of,
    raising_run_lost,
    read_messages,
    what_matters,
)
from ddptui.store.presets import as_toml, load, preset_paths
from ddptui.store.settings import replace_file
from ddptui.text.words import MB
from ddptui.wire.records import Message

RUNS_VARIABLE = "DDPTUI_RUNS"
JOURNAL = "messages.jsonl"  # in a repeat's folder
ANSWERS = "answers.json"
CODE = "code"  # the folder of the user's own files
STAMP_FORMAT = "%Y%m%d-%H%M%S"  # a run's name begins with the local time of its start in this format
LISTS = "`ddptui runs` lists them"
MOST_BYTES = 64 * 2**20  # limit for results.json and environment.json: enough for 90,000 ranks

Read = TypeVar("Read")


class RunError(ValueError):
    """A run's folder cannot be created, found or read. The message is one line."""


def runs_folder(given: str | None) -> Path:
    """The folder of runs: the given one, else DDPTUI_RUNS, else one in the user's data folder. Raises OSError if the
    user has no home."""
    chosen = given or os.environ.get(RUNS_VARIABLE)
    return expanded(chosen) if chosen else user_data("runs")


class Run:
    """One run's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @staticmethod
    def create(runs: Path, preset: Preset, environment: dict[str, Any]) -> "Run":
        """Create the folder of a new run. Raises RunError."""
        now = datetime.now().astimezone()
        about = {"preset": preset.name, "started": now.isoformat("T", "seconds")}
        try:
            runs.mkdir(parents=True, exist_ok=True)
            folder = _new_folder(runs, f"{now.strftime(STAMP_FORMAT)}-{preset.name}")
            try:
                (folder / "environment.json").write_bytes(_pretty(about | environment))
                for name, source in sources_of(preset.trials).items():
                    (folder / CODE).mkdir(exist_ok=True)
                    (folder / CODE / name).write_bytes(source)
                if preset.questions:  # a form for those who answer with an editor
                    (folder / ANSWERS).write_bytes(_answers(preset, [""] * len(preset.questions)))
                (folder / "preset.toml").write_text(as_toml(preset), encoding="utf-8")  # last: makes it a run
            except OSError:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        except OSError as error:
            raise RunError(f"{runs}: cannot save runs here: {error.strerror}; name a folder with --runs") from None
        return Run(folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Locks the run for this console while the context is open. Raises RunError if another console holds it."""
        try:
            file = opened(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise RunError(f"{self.folder}: this run cannot be continued: {error.strerror}") from None
        with file:
            if not lock(file):
                raise RunError(f"{self.folder}: another console is running this run: stop it there first")
            yield

    def is_held(self) -> bool:
        """Whether a console is running this run."""
        try:
            with opened(self.folder / LOCK, os.O_RDONLY) as file:
                return is_locked(file)
        except OSError:
            return False

    def remove(self) -> None:
        """Delete the folder, for a run that has recorded nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_there(self) -> bool:
        """Whether the folder still exists."""
        return self.folder.is_dir()

    @contextmanager
    def begin(self, trial: str, number: int) -> Iterator[RepeatJournal]:
        """Create the folder of a repeat with its journal. Raises RunLost."""
        folder = self.repeat_folder(trial, number)
        with raising_run_lost(self.folder):
            if not self.is_there():  # otherwise mkdir below would create it again
                raise FileNotFoundError(errno.ENOENT, "it has been moved or deleted")
            if folder.exists():  # the remains of an interrupted repeat: kept, but no longer used
                folder.rename(_free_name(folder))
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

    def write_results(self, results: Results) -> None:
        """Replace results.json. Raises RunLost."""
        self._replace("results.json", _pretty(results))

    def note_resumption(self, environment: dict[str, Any]) -> dict[str, Any]:
        """Record in environment.json that the run was resumed. Returns the entries of the environment that have changed
        since the run started, with their new values, and the user's files that were edited; their new text is kept,
        too. Raises RunError, RunLost."""
        begun = self.environment()
        before, now_here = what_matters(begun), what_matters(environment)
        changed = {key: value for key, value in now_here.items() if before.get(key) != value}
        now = datetime.now().astimezone().isoformat("T", "seconds")
        resumed = [*begun.get("resumed", []), {"at": now, "changed": changed}]
        kept = self.code()
        for name, source in sources_of(self.preset().trials).items():
            if name in kept and kept[name] != source.decode(errors="replace"):
                changed[name] = "(edited)"
                self._replace(f"{CODE}/{name.removesuffix('.py')}-resumed-{len(resumed)}.py", source)
        self._replace("environment.json", _pretty(begun | {"resumed": resumed}))
        return changed

    def answers(self, preset: Preset) -> list[str]:
        """The student's answers to the preset's questions; empty for one without an answer. Raises RunError."""
        known: dict[str, str] = {}
        if preset.questions:
            with suppress(FileNotFoundError):
                known = _decoded(self.folder / ANSWERS, dict[str, str])
        return [known.get(question.text, "") for question in preset.questions]

    def write_answers(self, preset: Preset, answers: Iterable[str]) -> None:
        """Replace the answers to the preset's questions, one for each. Raises RunLost."""
        self._replace(ANSWERS, _answers(preset, answers))

    def code(self) -> dict[str, str]:
        """The user's own files that the run's trials named, as they were when it started: their text by name. Raises
        RunError."""
        texts = {}
        for path in sorted((self.folder / CODE).glob("*.py")):
            with raising_run_error(path):
                texts[path.name] = read_plain(path, MB).decode(errors="replace")
        return texts

    def _replace(self, name: str, content: bytes) -> None:
        """Replace one of the run's files as a whole. Raises RunLost."""
        with raising_run_lost(self.folder):
            replace_file(self.folder / name, content)

    def preset(self) -> Preset:
        """The preset with which the run was started. Raises RunError."""
        try:
            preset = load(str(self.folder / "preset.toml"))
        except PresetError as error:
            raise RunError(str(error)) from None
        return msgspec.structs.replace(preset, name=self.environment().get("preset", preset.name))

    def environment(self) -> dict[str, Any]:
        """The contents of environment.json; empty if the file is missing. Raises RunError."""
        path = self.folder / "environment.json"
        try:
            environment = _decoded(path, dict[str, Any])
        except FileNotFoundError:
            return {}
        if problem := problem_of(environment):
            raise RunError(f"{path}: cannot be read: {problem}")
        return environment

    def outline(self) -> tuple[ResultsOutline | None, str, str | None]:
        """The outline of the results, the run's status, and an error if results.json cannot be read. A run without
        results.json was interrupted before its first repeat ended."""
        try:
            results = self.results(ResultsOutline)
        except FileNotFoundError:
            return None, "interrupted", None
        except RunError as error:
            return None, "results.json cannot be read", str(error)
        return results, results.status, None

    def results(self, kind: type[Read]) -> Read:
        """The contents of results.json, decoded as `kind`, which may cover a part only. Raises FileNotFoundError if it
        is missing, RunError if it is damaged."""
        return _decoded(self.folder / "results.json", kind)

    def messages(self, trial: str, number: int, unread: list[str] | None = None) -> Iterator[Message]:
        """Yields the messages of a repeat's journal, up to a damaged line; a note about it is added to `unread`. Yields
        nothing if there is no journal. Raises RunError if the journal cannot be opened."""
        path = self.repeat_folder(trial, number) / JOURNAL
        with raising_run_error(path), suppress(FileNotFoundError):
            yield from read_messages(path, unread)

    def checkpoints(self, trial: str, number: int) -> list[Path]:
        """The checkpoints of a repeat, ordered by rank."""
        folder = self.repeat_folder(trial, number)
        ranks = {path.stem.removeprefix("model-rank-"): path for path in folder.glob("model-rank-*.pth")}
        return [ranks[rank] for rank in sorted((rank for rank in ranks if rank.isdecimal()), key=int)]

    def repeats(self, preset: Preset, unread: list[str] | None = None) -> dict[tuple[str, int], Iterator[Message]]:
        """The messages of the launched repeats, keyed by trial and number of the repeat. unread: see `messages`."""
        return {
            (trial.name, number): self.messages(trial.name, number, unread)
            for trial in preset.trials
            for number in range(1, preset.repeats + 1)
            if self.repeat_folder(trial.name, number).is_dir()
        }

    def check_journals(self, preset: Preset) -> None:
        """Raises RunError if a journal is too large or not a regular file."""
        for repeat in self.repeats(preset):
            path = self.repeat_folder(*repeat) / JOURNAL
            with raising_run_error(path), suppress(FileNotFoundError):
                check_plain(path, MOST_JOURNAL)

    def own(self, trial: str | None) -> tuple["Run", str | None]:
        """The run that has a trial, and the trial's name there: of two runs in one, one of them."""
        return self, trial

    def repeat_folder(self, trial: str, number: int) -> Path:
        """The folder of a repeat, with its journal, command and logs."""
        return self.folder / f"trial-{trial}" / f"repeat-{number}"


class TwoRuns(Run):
    """Two runs as one, to be read: trial `ddp` of the first is A:ddp, that of the second B:ddp."""

    def __init__(self, a: Run, b: Run) -> None:
        super().__init__(b.folder)
        self._both, self.name = {"A": a, "B": b}, f"{a.name}-and-{b.name}"

    def own(self, trial: str | None) -> tuple[Run, str | None]:
        run, _, name = (trial or "A:").partition(":")
        return self._both[run], name or None

    def repeat_folder(self, trial: str, number: int) -> Path:
        run, _, name = trial.partition(":")
        return self._both[run].repeat_folder(name, number)


def all_runs(runs: Path) -> list[Run]:
    """The runs in a folder, newest first. Raises OSError."""
    folders = [path for path in runs.iterdir() if _is_run(path)] if runs.is_dir() else []
    return [Run(folder) for folder in sorted(folders, key=lambda path: path.name, reverse=True)]


def _is_run(folder: Path) -> bool:
    """Whether the folder contains a preset, readable or not. A folder without read permission counts: lists show the
    error. Raises OSError for a name that no folder can have."""
    try:
        (folder / "preset.toml").lstat()
    except PermissionError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def find_run(runs: Path, name: str) -> Run:
    """Find a run by its folder, its name, the start of its name, or `last`; or the last run of a preset, by the name of
    the preset. Raises RunError."""
    if _is_run(Path(name)):
        return Run(Path(name).absolute())
    known = all_runs(runs)
    fitting = known[:1] if name == "last" else [run for run in known if run.name == name]
    fitting = fitting or [run for run in known if run.name.startswith(name)]
    fitting = fitting or list(itertools.islice((run for run in known if _is_of(run, name)), 1))
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise RunError(f"{len(fitting)} runs begin with {name!r} in {runs}; {LISTS}")
    why = f"no run's name begins with it, and no preset of that name was run; {LISTS}"
    if not known:
        why = "there are no runs yet; start one with `ddptui run quickstart`"
    with suppress(OSError):  # the user has no home, so there are no presets
        if name in preset_paths():
            why = f"this preset was never run; start it with `ddptui run {name}`"
    raise RunError(f"no run {name!r} in {runs}: {why}")


def _is_of(run: Run, preset: str) -> bool:
    """Whether this is a run of the preset. False if environment.json cannot be read."""
    try:
        return bool(run.environment().get("preset") == preset)
    except RunError:
        return False


@contextmanager
def raising_run_error(path: Path) -> Iterator[None]:
    """Turns an OSError within the context into a RunError about this file."""
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror or error}") from None


def _decoded(path: Path, kind: type[Read]) -> Read:
    """The contents of a JSON file. Raises FileNotFoundError if there is none, RunError if it cannot be read."""
    try:
        return msgspec.json.decode(read_plain(path, MOST_BYTES), type=kind)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else getattr(error, "strerror", None) or error
        raise RunError(f"{path}: cannot be read: {why}") from None


def _new_folder(runs: Path, name: str) -> Path:
    for folder in (runs / name, *(runs / f"{name}.{number}" for number in range(2, 1000))):
        with suppress(FileExistsError):  # another console started in the same second
            folder.mkdir()
            return folder
    raise FileExistsError(errno.EEXIST, "too many runs of this name", name)


def _answers(preset: Preset, answers: Iterable[str]) -> bytes:
    """The contents of answers.json: each question with its answer."""
    return _pretty(dict(zip((question.text for question in preset.questions), answers, strict=True)))


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _free_name(folder: Path) -> Path:
    """The first unused name for an interrupted repeat, e.g. repeat-2.interrupted-1."""
    names = (folder.with_name(f"{folder.name}.interrupted-{number}") for number in itertools.count(1))
    return next(name for name in names if not name.exists())
