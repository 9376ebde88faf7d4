"""What several commands share: the request for a preset, refusals, and work that an interrupt may end."""

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.config.settings import Settings

USAGE_ERROR = 2
INTERRUPTED = 130  # as a shell reports SIGINT: 128 + 2


class Refusal(click.ClickException):
    """Bad input: one line on stderr, exit code 2. Nothing was started."""

    exit_code = USAGE_ERROR

    def __init__(self, message: str) -> None:
        from ddptui.text.words import printable

        super().__init__(printable(message))


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into a Refusal with the same text."""
    try:
        yield
    except errors as error:
        raise Refusal(str(error)) from None


def os_error_line(error: OSError) -> str:
    """What failed, why, and what to do: a name that is too long and a full disk need different remedies."""
    from ddptui.text.words import remedy_of

    unnamed = "the current folder" if error.errno == errno.ENOENT else "stdout"
    what = str(error.filename or unnamed)
    remedy = remedy_of(str(error)) or "name another one, or go to another folder"
    return f"{what}: {error.strerror or error}; {remedy}"


def overrides_of(assignments: tuple[str, ...]) -> dict[str, Any]:
    """The fields that --set overrides. Raises TrialError."""
    from ddptui.config.trial import TrialError
    from ddptui.config.trial_text import parse_assignment

    overrides = [parse_assignment(text) for text in assignments]
    for key, times in Counter(key for key, _ in overrides).items():
        if times > 1:
            raise TrialError(key, f"is given {times} times: leave one")
    return dict(overrides)


def load_settings() -> "Settings":
    """The user's settings. Raises Refusal."""
    from ddptui.config.settings import SettingsError
    from ddptui.store.settings import load

    with refusing(SettingsError):
        return load()


def load_preset(
    name: str,
    assignments: tuple[str, ...],
    engine: dict[str, Any],
    repeats: int | None = None,
    *,
    to_be_started: bool = True,
) -> "Preset":
    """The preset of this name or file, with what `--set` and the options of its engine (by key of [engine]) override,
    checked for the place where its ranks will run. Raises Refusal."""
    import msgspec

    from ddptui.config.parser import BOTTLENECK, PresetError, left_as_it_is
    from ddptui.config.trial import TrialError
    from ddptui.engines.preflight import prepare
    from ddptui.store.presets import load
    from ddptui.text.words import printable

    try:
        overrides = overrides_of(assignments)
        preset = load(name, overrides, engine)
        if BOTTLENECK in overrides:
            for trial, why in left_as_it_is(preset.trials, overrides[BOTTLENECK]).items():
                click.echo(printable(f"trial {trial} is left without that bottleneck: {why}"), err=True)
        preset = msgspec.structs.replace(preset, repeats=repeats or preset.repeats)
        return prepare(preset, to_be_started=to_be_started)
    except TrialError as error:
        raise Refusal(f"--set {error}") from None
    except PresetError as error:
        raise Refusal(str(error)) from None


def check_terminal() -> None:
    """Raises Refusal if the console's screens cannot be drawn on this terminal, or no key can reach them."""
    from ddptui.host.terminal import is_dumb

    if not sys.stdin.isatty():
        raise Refusal("the console wants a terminal to read keys from; without one, run headless: --no-ui")
    if is_dumb():
        terminal = f"a terminal that can show screens, which TERM={os.environ['TERM']} is not"
        raise Refusal(f"the console wants {terminal}; without one, run headless: --no-ui")


def handle(number: signal.Signals, handler: Callable[..., object]) -> None:
    """Sets a handler, unless the signal is ignored: by nohup, or by a shell for what it starts in the background."""
    if signal.getsignal(number) != signal.SIG_IGN:
        signal.signal(number, handler)


def interruptible(work: Callable[[], int]) -> int:
    """Call `work`; returns its exit code, or 130 after a signal to end. Raises Refusal."""
    from ddptui.store.journal import RunLost
    from ddptui.store.runs import RunError

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    # SIGTERM and SIGHUP, too: ranks and checks are stopped and results written on the way out
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handle(number, interrupt)
    try:
        with refusing(RunError, RunLost):
            return work()
    except KeyboardInterrupt:
        return INTERRUPTED
