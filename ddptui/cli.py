"""The command line. Whatever is slow to import is imported where it is used."""

import errno
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ddptui import __version__

if TYPE_CHECKING:
    from ddptui.preset import Preset
    from ddptui.projection.results import Scaling
    from ddptui.record import Run

USAGE_ERROR = 2
INTERRUPTED = 130
LONGEST_QUOTE = 200  # characters of a name that nobody can have meant
FORMATS = ("table", "markdown", "csv", "json", "trace")
PROJECTION_FORMATS = ("table", "markdown", "csv", "json")
SELFTEST_MODES = ("spawn", "process", "launch", "dp")


class Refusal(click.ClickException):
    """Bad input: one line, and nothing was started."""

    exit_code = USAGE_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


def start() -> None:
    """The program's entry: an interrupt ends it with 130 from the first moment on. What is closed leads nowhere."""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    try:
        main()
    except OSError as error:  # a name too long, a current folder that is gone, no room behind stdout
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (or Python complains once more when it ends)
        unnamed = "the current folder" if error.errno == errno.ENOENT else "stdout"
        what = str(error.filename or unnamed)[:LONGEST_QUOTE]
        Refusal(f"{what}: {error.strerror}; name another one, or go to another folder").show()
        sys.exit(USAGE_ERROR)


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--preset", "preset", metavar="NAME_OR_FILE", help="The preset to run.")
@click.option("--resume", metavar="RUN", help="Run what is missing in an interrupted run.")
@click.option("--no-ui", is_flag=True, help="Headless: progress on stderr, the comparison on stdout.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Override a field of every trial.")
@click.option("--repeats", type=click.IntRange(1, 1000), help="Launches of each trial.")
@click.option("--runs", metavar="DIR", help="Where runs are kept (else DDPTUI_RUNS, or your data folder).")
@click.option("--refresh", type=click.FloatRange(0.2, 30), help="The console: how often a second a run is redrawn.")
@click.option("--theme", help="The console: its theme (else as it was last time).")
@click.option("--json", "as_json", is_flag=True, help="results.json on stdout instead of the table.")
@click.version_option(__version__, prog_name="ddptui")
@click.pass_context
def main(
    context: click.Context,
    preset: str | None,
    resume: str | None,
    no_ui: bool,
    assignments: tuple[str, ...],
    repeats: int | None,
    runs: str | None,
    refresh: float | None,
    theme: str | None,
    as_json: bool,
) -> None:
    """A lab console for distributed data-parallel training."""
    context.obj = {"runs": runs, "assignments": assignments}
    if runs == "":
        raise Refusal("--runs names no folder: leave it out for the usual one")
    if context.invoked_subcommand:
        if preset or resume or no_ui or repeats or as_json or refresh or theme:
            raise Refusal("--preset and its options run a preset or the console; they mean nothing to a command")
        return
    if resume and (preset or assignments or repeats):
        raise Refusal("--resume goes on with a run as it was begun: --preset, --set and --repeats mean nothing to it")
    if not (no_ui or as_json or not sys.stdout.isatty()):
        sys.exit(_console(preset, resume, assignments, repeats, runs, refresh, theme))
    if theme or refresh:
        raise Refusal("--theme and --refresh are for the console's screens: leave them out where none is opened")
    if resume:
        sys.exit(_resume(resume, runs, as_json))
    if preset is None:
        raise Refusal("which preset? `ddptui presets` lists them; then `ddptui --preset NAME --no-ui`")
    sys.exit(_run(preset, assignments, repeats, runs, as_json))


def _run(name: str, assignments: tuple[str, ...], repeats: int | None, runs: str | None, as_json: bool) -> int:
    from ddptui import headless

    return _interruptible(lambda folder: headless.run(_load(name, assignments, repeats), folder, as_json=as_json), runs)


def _resume(name: str, runs: str | None, as_json: bool) -> int:
    from ddptui import headless

    def work(folder: Path) -> int:
        run, preset = _begun(name, folder)
        return headless.resume(preset, run, as_json=as_json)

    return _interruptible(work, runs)


def _begun(name: str, runs: Path) -> "tuple[Run, Preset]":
    """A run, and its preset, if it can go on here. Raises RunError, Refusal."""
    from ddptui.preflight import settle
    from ddptui.preset_file import PresetError
    from ddptui.record import find_run

    run = find_run(runs, name)
    try:
        return run, settle(run.preset())
    except PresetError as error:
        raise Refusal(str(error)) from None


def _console(
    name: str | None,
    resumed: str | None,
    assignments: tuple[str, ...],
    repeats: int | None,
    runs: str | None,
    drawn_a_second: float | None,
    theme: str | None,
) -> int:
    import gc

    gc.disable()  # until the first picture is there: to collect what is only being built takes a tenth of the start
    from textual.theme import BUILTIN_THEMES

    from ddptui.record import RunError, runs_folder

    if not sys.stdin.isatty():
        raise Refusal("the console wants a terminal to read keys from; without one, run headless: --no-ui")
    if theme is not None and theme not in BUILTIN_THEMES:
        raise Refusal(f"--theme {theme}: not one of {', '.join(sorted(BUILTIN_THEMES))}")
    if name is None and (assignments or repeats):
        raise Refusal("--set and --repeats change a preset: name it with --preset")
    folder = runs_folder(runs)
    preset = _load(name, assignments, repeats) if name is not None else None
    try:
        begun = _begun(resumed, folder) if resumed is not None else None
    except RunError as error:
        raise Refusal(str(error)) from None

    from ddptui.tui.start import start

    return start(folder, preset, begun, drawn_a_second=drawn_a_second, theme=theme)


def _interruptible(work: Callable[[Path], int], runs: str | None) -> int:
    """Do some work that starts ranks and keeps them in the folder of runs. Returns the exit code. Raises Refusal."""
    from ddptui.journal import RunLost
    from ddptui.record import RunError, runs_folder

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)  # even where a script started us with SIGINT ignored
    try:
        return work(runs_folder(runs))
    except (RunError, RunLost) as error:
        raise Refusal(str(error)) from None
    except KeyboardInterrupt:
        return INTERRUPTED


def _load(name: str, assignments: tuple[str, ...], repeats: int | None) -> Any:
    """The preset as it would run here. Raises Refusal."""
    import msgspec

    from ddptui.preflight import settle
    from ddptui.preset import TrialError, parse_assignment
    from ddptui.preset_file import PresetError, load

    try:
        overrides = [parse_assignment(text) for text in assignments]
        for key, times in Counter(key for key, _ in overrides).items():
            if times > 1:
                raise TrialError(key, f"is given {times} times: leave one")
        preset = load(name, dict(overrides))
        return settle(msgspec.structs.replace(preset, repeats=repeats or preset.repeats))
    except TrialError as error:
        raise Refusal(f"--set {error}") from None
    except PresetError as error:
        raise Refusal(str(error)) from None


@main.command()
@click.argument("name", required=False)
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Override a field of every trial.")
@click.pass_obj
def presets(obj: dict[str, Any], name: str | None, assignments: tuple[str, ...]) -> None:
    """List the presets; with a NAME, its trials and the exact commands. Nothing is started."""
    from ddptui import listing
    from ddptui.preset_file import PresetError

    try:
        shown = listing.one(_load(name, obj["assignments"] + assignments, None)) if name else listing.every_preset()
    except PresetError as error:
        raise Refusal(str(error)) from None
    click.echo(shown, nl=False)


@main.command()
@click.option("--runs", metavar="DIR", help="Where runs are kept.")
@click.pass_obj
def runs(obj: dict[str, Any], runs: str | None) -> None:
    """List the runs, newest first."""
    from ddptui import listing
    from ddptui.record import all_runs, runs_folder

    folder = runs_folder(runs or obj["runs"])
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder}: is no folder; name the folder of runs with --runs")
    click.echo(listing.every_run(all_runs(folder)), nl=False)


@main.command()
@click.argument("run")
@click.option("--format", "format", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--runs", metavar="DIR", help="Where runs are kept.")
@click.pass_obj
def show(obj: dict[str, Any], run: str, format: str, runs: str | None) -> None:
    """The table of a RUN (its name, the start of it, its folder, or `last`) again, from what is on disk; or its
    timeline (`--format trace`), for ui.perfetto.dev."""
    from ddptui import headless, report
    from ddptui.record import RunError, find_run, runs_folder
    from ddptui.replay import results_of
    from ddptui.trace import trace

    try:
        found = find_run(runs_folder(runs or obj["runs"]), run)
        preset = found.preset()
        if format == "trace":
            for piece in trace(found.repeats(preset)):
                click.echo(piece, nl=False)
            return
        results = results_of(found, preset)
    except RunError as error:
        raise Refusal(str(error)) from None
    shown = headless.as_table(results, preset) if format == "table" else report.FORMATS[format](results, preset)
    click.echo(shown, nl=False)


@main.command()
@click.argument("run")
@click.option("--trial", metavar="NAME", help="The measured trial (else the baseline).")
@click.option("--ranks", default="2..4096", show_default=True, help="2..4096 doubles; 2,4,8 is a list.")
@click.option("--network", metavar="RUN", help="A run of primitives that measured the network.")
@click.option("--alpha", type=float, metavar="US", help="State the network: µs a message.")
@click.option("--gbps", type=float, help="State the network: 1e9 bits a second.")
@click.option(
    "--scaling",
    type=click.Choice(("weak", "strong")),
    default="weak",
    show_default=True,
    help="Each rank keeps its batch, or all share it.",
)
@click.option("--cores", type=int, metavar="N", help="All ranks share one host of N cores.")
@click.option("--strategy", "strategies", metavar="NAME", multiple=True, help="Only this strategy.")
@click.option("--format", "format", type=click.Choice(PROJECTION_FORMATS), default="table", show_default=True)
@click.option("--runs", metavar="DIR", help="Where runs are kept.")
@click.pass_obj
def project(
    obj: dict[str, Any],
    run: str,
    trial: str | None,
    ranks: str,
    network: str | None,
    alpha: float | None,
    gbps: float | None,
    scaling: "Scaling",
    cores: int | None,
    strategies: tuple[str, ...],
    format: str,
    runs: str | None,
) -> None:
    """A measured trial of a RUN on other numbers of ranks: its step time under each strategy, from its own phases and
    their spread, and a model of the network."""
    from ddptui.projection import ProjectionError
    from ddptui.projection.command import Question
    from ddptui.projection.command import run as projected
    from ddptui.record import runs_folder

    question = Question(trial, ranks, network, alpha, gbps, scaling, cores, strategies)
    try:
        sys.exit(projected(runs_folder(runs or obj["runs"]), run, question, format))
    except ProjectionError as error:
        raise Refusal(str(error)) from None


@main.command()
@click.argument("a", metavar="A|RUN")
@click.argument("b", metavar="[B]", required=False)
@click.option("--runs", metavar="DIR", help="Where runs are kept.")
@click.pass_obj
def verify(obj: dict[str, Any], a: str, b: str | None, runs: str | None) -> None:
    """Compare two checkpoints A and B, or the ranks of every trial of a RUN: which tensors differ, parameters and
    buffers apart. Exit 1 if any does."""
    from ddptui import verify
    from ddptui.record import RunError, find_run, runs_folder

    try:
        if b is None:
            sys.exit(verify.ranks_of(find_run(runs_folder(runs or obj["runs"]), a)))
    except RunError as error:
        hint = "; to compare two checkpoints, name both" if os.path.isfile(a) else ""
        raise Refusal(f"{error}{hint}") from None
    for path in (a, b):
        if not os.path.isfile(path):
            raise Refusal(f"{path}: {'is a folder, not a checkpoint' if os.path.isdir(path) else 'no such file'}")
    sys.exit(verify.checkpoints(a, b))


@main.command()
@click.option("--launch", "modes", type=click.Choice(SELFTEST_MODES), multiple=True, help="Only this launch mode.")
@click.option("--strategy", "strategies", metavar="NAME", multiple=True, help="Only this strategy.")
@click.option("--runs", metavar="DIR", help="Where the run is kept.")
@click.pass_obj
def selftest(obj: dict[str, Any], modes: tuple[str, ...], strategies: tuple[str, ...], runs: str | None) -> None:
    """Put delays of known length in, at every site, under every strategy and launch mode, and set against them what is
    attributed. Takes some minutes. Exit 1 if anything is wrong."""
    from ddptui import selftest

    known = selftest.known_strategies()
    for name in strategies:
        if name not in known:
            raise Refusal(f"--strategy {name}: not one of {', '.join(known)}")
    sys.exit(
        _interruptible(
            lambda folder: selftest.run(modes or SELFTEST_MODES, strategies or known, folder), runs or obj["runs"]
        )
    )


@main.command()
@click.pass_obj
def doctor(obj: dict[str, Any]) -> None:
    """What this machine can do, what is missing, and the command that mends it."""
    from ddptui.doctor import examine

    sys.exit(examine(obj["runs"]))
