"""Helpers shared by the commands: loading a preset, reporting bad input, and ending cleanly on an interrupt."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

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
