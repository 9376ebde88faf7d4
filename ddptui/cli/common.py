"""Helpers shared by the commands: options, loading a preset, reporting bad input, sanitized output, ending on an
interrupt."""

import codecs
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, TextIO

import click

from ddptui.cli.completion import assignments, folders, strategies, themes
from ddptui.host.machine import is_dumb
from ddptui.text.sanitize import at_the_door, brief

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.config.settings import Settings


USAGE_ERROR = 2
INTERRUPTED = 130  # the exit code that shells report for SIGINT: 128 + 2


class Refusal(click.ClickException):
    """A usage error: prints one line on stderr and exits with code 2. Nothing has been started."""

    exit_code = USAGE_ERROR

    def __init__(self, message: str) -> None:
        from ddptui.text.words import printable

        super().__init__(printable(message))


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Context manager that turns these errors into a Refusal with the same text."""
    try:
        yield
    except errors as error:
        raise Refusal(str(error)) from None


def os_error_line(error: OSError) -> str:
    """Returns one line for the user: which file or stream failed, why, and what to do."""
    from ddptui.text.words import remedy_of

    unnamed = "the current folder" if error.errno == errno.ENOENT else "stdout"
    what = str(error.filename or unnamed)
    remedy = remedy_of(str(error)) or "choose another path, or run ddptui in another folder"
    return f"{what}: {error.strerror or error}; {remedy}"


def load_settings() -> "Settings":
    """Returns the user's settings, after choosing their language. Raises Refusal if config.toml is invalid."""
    from ddptui.config.settings import SettingsError
    from ddptui.store.settings import load
    from ddptui.text import words

    with refusing(SettingsError):
        settings = load()
    words.choose_language(settings.lang)
    return settings


def load_preset(
    name: str,
    assignments: tuple[str, ...],
    engine: dict[str, Any],
    repeats: int | None = None,
    *,
    copies: tuple[str, ...] = (),
    removed: tuple[str, ...] = (),
    to_be_started: bool = True,
) -> "Preset":
    """Returns the preset of this name or file, with the changes of `--set`, `--duplicate` and `--remove` and of the
    engine options (`engine`, by key of [engine]) applied. Checks that its ranks can run where it sends them. Raises
    Refusal."""
    import msgspec

    from ddptui.config.parser import BOTTLENECK, PresetError, read_changes, skipped_overrides
    from ddptui.config.trial import TrialError
    from ddptui.engines.checks import prepare
    from ddptui.store.presets import load
    from ddptui.text.words import printable

    try:
        overrides, edits = read_changes(assignments, copies, removed)
        preset = load(name, overrides, engine, edits)
        if BOTTLENECK in overrides:
            for trial, why in skipped_overrides(preset.trials, overrides[BOTTLENECK]).items():
                click.echo(printable(f"trial {trial} does not get this bottleneck: {why}"), err=True)
        preset = msgspec.structs.replace(preset, repeats=repeats or preset.repeats)
        return prepare(preset, to_be_started=to_be_started)
    except (TrialError, PresetError) as error:
        raise Refusal(str(error)) from None


def check_terminal() -> None:
    """Raises Refusal if the console cannot draw its screens on this terminal or cannot read keys from it."""
    from ddptui.host.machine import is_dumb

    if not sys.stdin.isatty():
        raise Refusal("the console needs a terminal to read keys from; without one, run headless with --no-ui")
    if is_dumb():
        terminal = f"a terminal that can show screens, and TERM={os.environ['TERM']} cannot"
        raise Refusal(f"the console needs {terminal}; without one, run headless with --no-ui")


def handle(number: signal.Signals, handler: Callable[..., object]) -> None:
    """Set a signal handler, unless the signal is ignored, as under nohup or for a shell's background jobs."""
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, handler)


def interruptible(work: Callable[[], int]) -> int:
    """Call `work` and return its exit code, or 130 after SIGINT, SIGTERM or SIGHUP. Raises Refusal."""
    from ddptui.store.journal import RunLost
    from ddptui.store.runs import RunError

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # SIGTERM and SIGHUP too, so that ranks are stopped and results written before the program ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handle(number, interrupt)
    try:
        with refusing(RunError, RunLost):
            return work()
    except KeyboardInterrupt:
        return INTERRUPTED


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
ENGINE_KEYS = (
    "engine", "nodes", "interface", "port", "shared", "partition", "account", "gres", "time", "options",
)  # fmt: skip
ENGINES = ("local", "join", "slurm")  # EngineName in config/engine.py: importing it would slow down every command


def _named(context: click.Context, parameter: click.Parameter, folder: str | None) -> str | None:
    """Returns the folder as typed. Raises Refusal if it is empty."""
    if folder == "":
        raise Refusal("--runs is empty: give a folder, or leave the option out for the default folder")
    return folder


RUNS_OPTION = click.option(
    "--runs",
    metavar="DIR",
    callback=_named,
    help="Folder of runs (default: DDPTUI_RUNS, or your data folder).",
    shell_complete=folders,
)
SET_OPTION = click.option(
    "--set",
    "assignments",
    metavar="[TRIAL:]KEY=VALUE",
    multiple=True,
    help="Set a field of every trial, or of one.",
    shell_complete=assignments,
)
STRATEGY_OPTION = click.option(
    "--strategy", "strategies", metavar="NAME", multiple=True, help="Only this strategy.", shell_complete=strategies
)


def adding(*options: Decorator) -> Decorator:
    """Returns a decorator that adds these options to a command, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


# Where ranks run: fields of config.engine.EngineOptions.
engine_options = adding(
    click.option("--engine", type=click.Choice(ENGINES), help="Run here, on nodes that join, or under Slurm."),
    click.option("--nodes", type=int, help="Number of nodes."),
    click.option("--interface", metavar="NAME", help="Network interface through which nodes reach the console."),
    click.option("--port", type=int, help="Port on which the console listens for nodes."),
    click.option("--shared", metavar="DIR", help="Folder that all nodes share, for init_method=file."),
    click.option("--partition", help="Slurm: partition to submit to."),
    click.option("--account", help="Slurm: account to charge."),
    click.option("--gres", help="Slurm: generic resources per node, e.g. gpu:2."),
    click.option("--time", help="Slurm: time limit of the run's job."),
    click.option("--sbatch", "options", metavar="OPTION", multiple=True, help="Slurm: another option for sbatch."),
)


run_options = adding(
    click.option("--no-ui", is_flag=True, help="Run headless: progress on stderr, the comparison on stdout."),
    click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table."),
    SET_OPTION,
    click.option("--duplicate", "copies", metavar="TRIAL=NEW", multiple=True, help="Add a copy of a trial."),
    click.option("--remove", "removed", metavar="TRIAL", multiple=True, help="Leave a trial out."),
    click.option("--repeats", metavar="N", type=click.IntRange(1, 1000), help="Launches of each trial."),
    click.option(
        "--wait-quiet",
        metavar="S",
        type=click.FloatRange(0, 86_400),
        help="Headless: on a busy machine, wait up to S seconds before the start. Console: 0 starts at once.",
    ),
    RUNS_OPTION,
    click.option("--theme", metavar="NAME", help="Console: theme for this session.", shell_complete=themes),
    click.option(
        "--refresh", metavar="HZ", type=click.FloatRange(0.2, 30), help="Console: screen refreshes per second."
    ),
    engine_options,
)


def changes_of(options: dict[str, Any]) -> dict[str, Any]:
    """Returns those of the options of a run that change a preset, as `load_preset` takes them."""
    names = ("assignments", "copies", "removed", "repeats")
    return {name: options[name] for name in names} | {"engine": engine_of(options)}


def engine_of(options: dict[str, Any]) -> dict[str, Any]:
    """Returns the engine options that the user typed, by their key in a preset's [engine]."""
    typed = {key: value for key in ENGINE_KEYS if (value := options[key]) not in (None, ())}
    return {"name" if key == "engine" else key: value for key, value in typed.items()}


ERROR = "Error: "  # click's prefix of an error line


class SanitizedStream(io.TextIOWrapper):
    """A text stream that makes terminal control characters visible, replaces characters that its encoding lacks, and
    shortens long errors."""

    def __init__(self, stream: TextIO) -> None:
        self._behind = stream  # keep a reference: the stream closes the shared buffer when it is garbage-collected
        self._shows = codecs.lookup(stream.encoding).name
        # click bypasses a stream that claims to be ASCII and writes UTF-8; ASCII text is the same in both encodings
        encoding = "utf-8" if self._shows == "ascii" else self._shows
        super().__init__(stream.buffer, encoding, "replace", line_buffering=stream.isatty() or stream is sys.stderr)

    def write(self, text: str) -> int:
        """Write the sanitized text. Returns the number of characters given."""
        is_error = text.startswith(ERROR)
        # click indents its lists of choices with tabs
        shown = at_the_door(text.expandtabs(4) if is_error else text, is_terminal=self.isatty() and not is_dumb())
        shown = brief(shown) if is_error else shown
        super().write(shown.encode(self._shows, "replace").decode(self._shows))
        return len(text)


def install_sanitizer() -> None:
    """Wrap stdout and stderr in sanitizing streams."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # Textual writes to the original stream: it must not fail there
    sys.stdout, sys.stderr = SanitizedStream(sys.stdout), SanitizedStream(sys.stderr)
