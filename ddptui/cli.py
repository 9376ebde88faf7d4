"""The command line. Whatever is slow to import is imported where it is used."""

import errno
import os
import shlex
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ddptui import __version__

if TYPE_CHECKING:
    from ddptui.config.preset import Preset
    from ddptui.projection.results import Scaling
    from ddptui.store.runs import Run

USAGE_ERROR = 2
INTERRUPTED = 130
LONGEST_QUOTE = 200  # characters of a name that nobody can have meant
FORMATS = ("table", "markdown", "csv", "json", "trace")
PROJECTION_FORMATS = ("table", "markdown", "csv", "json")
ENGINES = ("local", "join", "slurm")
SELFTEST_MODES = ("spawn", "process", "launch", "dp")


class Asked(NamedTuple):
    """A preset as the command line wants it. engine: what it says of that, by key."""

    name: str | None
    assignments: tuple[str, ...] = ()
    repeats: int | None = None
    engine: dict[str, Any] | None = None


def of_the_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where ranks run, besides --engine; see Engine in engine.py."""
    for option in (
        click.option("--sbatch", "options", metavar="OPTION", multiple=True, help="Slurm: a further option, as typed."),
        click.option("--time", help="Slurm: the longest that a job may take."),
        click.option("--gres", help="Slurm: generic resources a node, as gpu:2."),
        click.option("--account", help="Slurm: who pays."),
        click.option("--partition", help="Slurm: where jobs queue."),
        click.option("--tasks", type=click.Choice(("rank", "node", "array")), help="Slurm: what a task is."),
        click.option("--shared", metavar="DIR", help="A folder that all nodes see, for init_method=file."),
        click.option("--port", type=int, help="Where the console listens for nodes."),
        click.option("--interface", metavar="NAME", help="By which the nodes reach the console."),
        click.option("--nodes", type=int, help="How many nodes."),
    ):
        command = option(command)
    return command


def _said(where: dict[str, Any]) -> dict[str, Any]:
    """Of the engine's options, those that were given, by the key that [engine] has for them."""
    said = {key: value for key, value in where.items() if value not in (None, ())}
    return {"name" if key == "engine" else key: value for key, value in said.items()}


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
@click.option("--engine", type=click.Choice(ENGINES), help="Where ranks run: here, on nodes that join, by Slurm.")
@of_the_engine
@click.option("--runs", metavar="DIR", help="Where runs are kept (else DDPTUI_RUNS, or your data folder).")
@click.option("--refresh", type=click.FloatRange(0.2, 30), help="The console: how often a second a run is redrawn.")
@click.option("--theme", help="The console: its theme (else as it was last time).")
@click.option("--json", "as_json", is_flag=True, help="results.json on stdout instead of the table.")
@click.version_option(__version__, prog_name="ddptui")
@click.pass_context
def main(
    context: click.Context,
    /,
    preset: str | None,
    resume: str | None,
    no_ui: bool,
    assignments: tuple[str, ...],
    repeats: int | None,
    runs: str | None,
    refresh: float | None,
    theme: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """A lab console for distributed data-parallel training."""
    engine = _said(where)
    context.obj = {"runs": runs, "assignments": assignments, "engine": engine}
    if runs == "":
        raise Refusal("--runs names no folder: leave it out for the usual one")
    if context.invoked_subcommand:
        if engine and context.invoked_subcommand != "presets":
            raise Refusal("--engine and its options say where a preset runs; they mean nothing to this command")
        if preset or resume or no_ui or repeats or as_json or refresh or theme:
            raise Refusal("--preset and its options run a preset or the console; they mean nothing to a command")
        return
    if resume and (preset or assignments or repeats or engine):
        raise Refusal(
            "--resume goes on with a run as it was begun: --preset, --set, --repeats and --engine mean nothing to it"
        )
    asked = Asked(preset, assignments, repeats, engine)
    if not (no_ui or as_json or not sys.stdout.isatty()):
        sys.exit(_console(asked, resume, runs, refresh, theme))
    if theme or refresh:
        raise Refusal("--theme and --refresh are for the console's screens: leave them out where none is opened")
    if resume:
        sys.exit(_resume(resume, runs, as_json))
    if preset is None:
        raise Refusal("which preset? `ddptui presets` lists them; then `ddptui --preset NAME --no-ui`")
    sys.exit(_run(asked, runs, as_json))


def _run(asked: Asked, runs: str | None, as_json: bool) -> int:
    from ddptui.run import headless

    return _interruptible(lambda folder: headless.run(_load(asked), folder, as_json=as_json), runs)


def _resume(name: str, runs: str | None, as_json: bool) -> int:
    from ddptui.run import headless

    def work(folder: Path) -> int:
        run, preset = _begun(name, folder)
        return headless.resume(preset, run, as_json=as_json)

    return _interruptible(work, runs)


def _begun(name: str, runs: Path) -> "tuple[Run, Preset]":
    """A run, and its preset, if it can go on here. Raises RunError, Refusal."""
    from ddptui.config.parser import PresetError
    from ddptui.engines.preflight import prepare
    from ddptui.store.runs import find_run

    run = find_run(runs, name)
    try:
        return run, prepare(run.preset())
    except PresetError as error:
        raise Refusal(str(error)) from None


def _console(
    asked: Asked,
    resumed: str | None,
    runs: str | None,
    drawn_a_second: float | None,
    theme: str | None,
) -> int:
    import gc

    gc.disable()  # until the first picture is there: to collect what is only being built takes a tenth of the start
    from textual.theme import BUILTIN_THEMES

    from ddptui.store.runs import RunError, runs_folder

    if not sys.stdin.isatty():
        raise Refusal("the console wants a terminal to read keys from; without one, run headless: --no-ui")
    if theme is not None and theme not in BUILTIN_THEMES:
        raise Refusal(f"--theme {theme}: not one of {', '.join(sorted(BUILTIN_THEMES))}")
    if asked.name is None and (asked.assignments or asked.repeats or asked.engine):
        raise Refusal("--set, --repeats and --engine change a preset: name it with --preset")
    folder = runs_folder(runs)
    preset = _load(asked) if asked.name is not None else None
    try:
        begun = _begun(resumed, folder) if resumed is not None else None
    except RunError as error:
        raise Refusal(str(error)) from None

    from ddptui.tui.start import start

    return start(folder, preset, begun, drawn_a_second=drawn_a_second, theme=theme)


def _interruptible(work: Callable[[Path], int], runs: str | None) -> int:
    """Do some work that starts ranks and keeps them in the folder of runs. Returns the exit code. Raises Refusal."""
    from ddptui.store.journal import RunLost
    from ddptui.store.runs import RunError, runs_folder

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


def _load(asked: Asked, *, to_be_started: bool = True) -> Any:
    """The preset as it would run here, or wherever its engine is. Raises Refusal."""
    import msgspec

    from ddptui.config.arguments import parse_assignment
    from ddptui.config.parser import PresetError
    from ddptui.config.trial import TrialError
    from ddptui.engines.preflight import prepare
    from ddptui.store.presets import load

    try:
        overrides = [parse_assignment(text) for text in asked.assignments]
        for key, times in Counter(key for key, _ in overrides).items():
            if times > 1:
                raise TrialError(key, f"is given {times} times: leave one")
        preset = load(asked.name or "", dict(overrides), asked.engine)
        preset = msgspec.structs.replace(preset, repeats=asked.repeats or preset.repeats)
        return prepare(preset, to_be_started=to_be_started)
    except TrialError as error:
        raise Refusal(f"--set {error}") from None
    except PresetError as error:
        raise Refusal(str(error)) from None


@main.command()
@click.argument("name", required=False)
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="Override a field of every trial.")
@click.option("--engine", type=click.Choice(ENGINES), help="Where ranks run.")
@of_the_engine
@click.pass_obj
def presets(obj: dict[str, Any], /, name: str | None, assignments: tuple[str, ...], **where: Any) -> None:
    """List the presets; with a NAME, its trials and the exact commands. Nothing is started. With --nodes, the lines to
    type on each node; with --engine slurm, the scripts."""
    from ddptui.config.parser import PresetError
    from ddptui.engines.slurm.script import ScriptError
    from ddptui.run import listing

    engine = obj["engine"] | _said(where)
    if engine.get("nodes", 1) > 1:
        engine = {"name": "join"} | engine
    if engine and not name:
        raise Refusal("--engine and its options say how one preset is started: name it")
    asked = Asked(name, obj["assignments"] + assignments, None, engine)
    typed = shlex.join([str(name), *(word for text in asked.assignments for word in ("--set", text))])
    try:
        shown = listing.one(_load(asked, to_be_started=False), typed) if name else listing.every_preset()
    except (PresetError, ScriptError) as error:
        raise Refusal(str(error)) from None
    click.echo(shown, nl=False)


@main.command()
@click.option("--runs", metavar="DIR", help="Where runs are kept.")
@click.pass_obj
def runs(obj: dict[str, Any], runs: str | None) -> None:
    """List the runs, newest first."""
    from ddptui.run import listing
    from ddptui.store.runs import all_runs, runs_folder

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
    from ddptui.report import table
    from ddptui.report.trace import trace
    from ddptui.run import headless
    from ddptui.store.replay import results_of
    from ddptui.store.runs import RunError, find_run, runs_folder

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
    shown = headless.as_table(results, preset) if format == "table" else table.FORMATS[format](results, preset)
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
    from ddptui.store.runs import runs_folder

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
    from ddptui.run import verify
    from ddptui.store.runs import RunError, find_run, runs_folder

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
    from ddptui.run import selftest

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
@click.argument("ticket", envvar="DDPTUI_TICKET")
@click.option("--node", type=click.IntRange(0, 1023), help="This node's number (else as its platform says, or any).")
@click.option("--as", "kind", metavar="KIND", help="Read the environment as that of env, torchrun, slurm, dlc, …")
def join(ticket: str, node: int | None, kind: str | None) -> None:
    """Take part, with this host, in a run whose console waits elsewhere (--engine join). TICKET: the line that it gave,
    or better the file that holds it: what is typed here, others on this host can read. Else DDPTUI_TICKET has it."""
    from ddptui.engines.join.agent import JoinError, node_here
    from ddptui.engines.join.agent import join as joined
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.host.place.place import PlaceError

    def say(text: str) -> None:
        click.echo(text, err=True)

    try:
        sys.exit(_interruptible(lambda _: joined(read_ticket(ticket), node_here(node, kind, say), say), None))
    except (JoinError, PlaceError, TicketError) as error:
        raise Refusal(str(error)) from None


@main.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(("trainjob", "pytorchjob", "dlc")), required=True, help="Whose job it is.")
@click.option("--nodes", type=int, default=2, show_default=True, help="How many pods join.")
@click.option("--image", required=True, help="The container's image; ddptui is installed in it.")
@click.option("--gpus", type=int, default=0, help="A node.")
@click.option("--cpus", type=int, help="A node.")
@click.option("--memory", help="A node, as 8Gi.")
@click.option("--ticket", metavar="TICKET", help="The ticket, or its file (else the job takes it from a Secret).")
@click.option("--workspace", help="dlc: where the job belongs.")
@click.option("--quota", help="dlc: what its nodes are taken from.")
@click.option("--ecs", help="dlc: or the type of machine.")
@click.pass_obj
def manifest(obj: dict[str, Any], /, name: str, ticket: str | None, **asked: Any) -> None:
    """The job that starts `ddptui join` on the nodes of a platform, for a run of the preset NAME: Kubeflow's TrainJob
    or PyTorchJob, or PAI-DLC's."""
    from ddptui.engines.join.ticket import TicketError, read_ticket
    from ddptui.engines.manifest.command import render
    from ddptui.engines.manifest.options import ManifestError, Options

    engine = {"name": "join", "nodes": asked["nodes"]}
    _load(Asked(name, obj["assignments"], None, engine), to_be_started=False)
    try:
        spelled = read_ticket(ticket).spell() if ticket is not None else None
        click.echo(render(name, Options(ticket=spelled, **asked)), nl=False)
    except (ManifestError, TicketError) as error:
        raise Refusal(str(error)) from None


@main.command()
@click.option("--as", "kind", metavar="KIND", help="Read it as that of env, torchrun, slurm, slurm_array, dlc, …")
def place(kind: str | None) -> None:
    """What this process's environment says of its place among all ranks, and how it is read."""
    from ddptui.host.place.command import text
    from ddptui.host.place.place import PlaceError

    try:
        click.echo(text(os.environ, kind))
    except PlaceError as error:
        raise Refusal(str(error)) from None


@main.command()
@click.pass_obj
def doctor(obj: dict[str, Any]) -> None:
    """What this machine can do, what is missing, and the command that mends it."""
    from ddptui.doctor import examine

    sys.exit(examine(obj["runs"]))
