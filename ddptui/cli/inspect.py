"""Commands that only read presets and runs: presets, columns, runs, show, compare, report, project, verify."""

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from ddptui.cli.common import (
    RUNS_OPTION,
    SET_OPTION,
    STRATEGY_OPTION,
    Refusal,
    engine_of,
    engine_options,
    load_preset,
    load_settings,
    refusing,
)
from ddptui.cli.completion import column_keys, files, presets_and_files, run_names

if TYPE_CHECKING:
    from ddptui.analysis.results import Results
    from ddptui.config.preset import Preset
    from ddptui.config.settings import Settings
    from ddptui.store.runs import Run


DOCUMENT_FORMATS = ("html", "markdown")


@click.command()
@click.argument("names", metavar="RUN…", nargs=-1, required=True, shell_complete=run_names)
@click.option("--format", "format", type=click.Choice(DOCUMENT_FORMATS), default="html", show_default=True)
@click.option("--title", metavar="TEXT", default="Lab report", show_default=True, help="The heading.")
@click.option("--author", metavar="NAME", default="", help="Your name, below the heading.")
@RUNS_OPTION
def report(names: tuple[str, ...], format: str, title: str, author: str, runs: str | None) -> None:
    """Join runs into one document, to hand in.

    For each run, in the order given: the question, the finding, a table, charts, your answers and the cautions; then
    the environment and your own code, once. Each RUN is named as in `ddptui show`. Redirect it to a file: `ddptui
    report quickstart who-waits > report.html`. Markdown has no charts.
    """
    from ddptui.page.pages import chapters_of, document
    from ddptui.store.runs import RunError, find_run, runs_folder
    from ddptui.text.words import count

    load_settings()  # its language
    folder = runs_folder(runs)
    with refusing(RunError):
        named = (find_run(folder, name) for name in names)
        found = [*{run.folder.resolve(): run for run in named}.values()]  # a run named twice counts once
        chapters = chapters_of(found)
        click.echo(document(title, author, found, chapters, format), nl=False)
    answers = [question.answer.strip() for chapter in chapters for question in chapter.questions]
    if missing := answers.count(""):
        click.echo(f"not answered: {missing} of {count(len(answers), 'question')}", err=True)


# Spelled out: to import the rooms that know them would slow down every command. A test compares them.
FORMATS = ("table", "markdown", "csv", "steps", "json", "trace", "html", "svg")
PANES_OF_TRIAL = ("matrix", "arrivals", "timeline")
PANES = ("times", "differences", "curves", *PANES_OF_TRIAL)
PROJECTION_FORMATS = ("table", "markdown", "json", "html")
SCALINGS = ("weak", "strong")
SCALING_HELP = "weak: each rank keeps its batch; strong: all ranks share it."


@click.command()
@click.argument("name", required=False, shell_complete=presets_and_files)
@click.option("--fields", is_flag=True, help="List the fields of a trial instead.")
@SET_OPTION
@engine_options
def presets(name: str | None, fields: bool, assignments: tuple[str, ...], **options: Any) -> None:
    """List the presets; with a NAME, its trials and commands.

    Nothing is started. With --nodes, prints the commands to type on each node; with --engine slurm, the job scripts.
    """
    if fields:
        if name:
            raise Refusal(f"--fields lists the fields that all presets have: leave out {name}")
        from ddptui.config.fields import listing as list_fields

        return click.echo(list_fields(), nl=False)
    engine = engine_of(options)
    load_settings()  # for the language
    if not name:
        from ddptui.run.listing import every_preset

        if engine:
            raise Refusal("--engine and its options need the name of a preset: `ddptui presets NAME --engine …`")
        return click.echo(every_preset(), nl=False)
    from ddptui.config.parser import PresetError
    from ddptui.engines.slurm.keeper import SlurmError
    from ddptui.run.by_hand import one

    if engine.get("nodes", 1) > 1:
        engine = {"name": "join"} | engine
    typed = shlex.join([name, *(word for text in assignments for word in ("--set", text))])
    with refusing(PresetError, SlurmError):
        click.echo(one(load_preset(name, assignments, engine, to_be_started=False), typed), nl=False)


@click.command()
@click.argument("name", metavar="[KEY]", required=False, shell_complete=column_keys)
def columns(name: str | None) -> None:
    """Explain the columns of the tables, or one of them.

    A preset chooses the columns of its table by their keys: columns = ["startup"].
    """
    from ddptui.cli import explained  # imported here: only this command needs it

    with refusing(LookupError):
        click.echo(explained.entries(name) if name else explained.listing(), nl=False)


@click.command()
@click.option("--trash", is_flag=True, help="List the deleted runs instead, last deleted first.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@RUNS_OPTION
def runs(trash: bool, as_json: bool, runs: str | None) -> None:
    """List the runs, newest first."""
    from ddptui.run import listing
    from ddptui.store.runs import all_runs, runs_folder
    from ddptui.store.trash import deleted

    folder = runs_folder(runs)
    if folder.exists() and not folder.is_dir():
        raise Refusal(f"{folder}: not a folder; give the folder of runs with --runs DIR")
    if trash:
        return click.echo(listing.every_deleted(deleted(folder), as_json=as_json), nl=False)
    click.echo(listing.every_run(all_runs(folder), as_json=as_json), nl=False)


@click.command()
@click.argument("run", shell_complete=run_names)
@click.option("--format", "format", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--pane", type=click.Choice(PANES), help="With --format svg: the pane to draw (default: times).")
@click.option("--trial", metavar="NAME", help="The trial of that pane (default: the one that the answer is about).")
@RUNS_OPTION
def show(run: str, format: str, pane: str | None, trial: str | None, runs: str | None) -> None:
    """Print a run's table, its page, or its timeline.

    RUN is a run's name, the start of its name, its folder, the name of a preset (its last run), or `last`. `--format
    html` prints one file for a browser, `svg` a picture, `trace` the timeline, for ui.perfetto.dev, and `steps` a CSV
    line for each step, rank and operation.
    """
    if pane and format != "svg":
        raise Refusal("--pane chooses what a picture shows: add `--format svg`")
    if trial is not None and pane not in PANES_OF_TRIAL:
        raise Refusal(f"--trial needs `--format svg --pane` with one of {', '.join(PANES_OF_TRIAL)}")
    from ddptui.store.overview import results_of
    from ddptui.store.runs import RunError, find_run, runs_folder

    settings = load_settings()
    with refusing(RunError):
        recorded = find_run(runs_folder(runs), run)
        preset = recorded.preset()
        form = f"{pane}.svg" if pane else format
        _print((recorded, preset, results_of(recorded, preset)), form, settings, trial or "")


def _print(shown: "tuple[Run, Preset, Results]", form: str, settings: "Settings", trial: str = "") -> None:
    """Print a run, or two in one. form: table, or see `pieces`. Raises RunError."""
    if form == "table":
        from ddptui.run.listing import as_table

        run, preset, results = shown
        return click.echo(as_table(results, preset, settings.columns, run.answers(preset)), nl=False)
    from ddptui.page.formats import PictureError, pieces

    with refusing(PictureError):
        for piece in pieces(*shown, form, trial):
            click.echo(piece, nl=False)


@click.command()
@click.argument("a", shell_complete=run_names)
@click.argument("b", shell_complete=run_names)
@click.option("--match", metavar="A=B", multiple=True, help="Compare trial A with trial B; A=: with none.")
@click.option("--format", "format", type=click.Choice(FORMATS), default="table", show_default=True)
@RUNS_OPTION
def compare(a: str, b: str, match: tuple[str, ...], format: str, runs: str | None) -> None:
    """Compare two runs.

    Prints whether trials of B took longer than those of A, the trials of both in one table, as A:NAME and B:NAME, and
    what else differs. A and B are named as in `ddptui show`. Trials are compared by name; --match pairs others.
    """
    from ddptui.run.compare import compare_on_disk, matches_of
    from ddptui.store.runs import RunError, find_run, runs_folder

    settings = load_settings()
    with refusing(RunError):
        matches = matches_of(match)
        first, second = (find_run(runs_folder(runs), name) for name in (a, b))
        if first.folder == second.folder:
            raise Refusal(f"A and B are the same run, {first.name}: name two (`ddptui runs` lists them)")
        _print(compare_on_disk(first, second, matches), format, settings)


@click.command()
@click.argument("run", shell_complete=run_names)
@click.option("--trial", metavar="NAME", help="The measured trial (default: the baseline).")
@click.option("--ranks", default="2..4096", show_default=True, help="2..4096: each power of two; 2,4,8: a list.")
@click.option(
    "--network", metavar="RUN", help="A run of primitives that measured the network.", shell_complete=run_names
)
@click.option("--alpha", type=float, metavar="US", help="Network latency per message, in µs.")
@click.option("--gbps", type=float, help="Network bandwidth, in Gbit/s.")
@click.option("--scaling", type=click.Choice(SCALINGS), default="weak", show_default=True, help=SCALING_HELP)
@click.option("--cores", type=click.IntRange(min=1), metavar="N", help="All ranks share one host of N cores.")
@STRATEGY_OPTION
@click.option("--format", "format", type=click.Choice(PROJECTION_FORMATS), default="table", show_default=True)
@RUNS_OPTION
def project(run: str, format: str, runs: str | None, **options: Any) -> None:
    """Predict a measured trial's step time on other numbers of ranks.

    Prints the step time under each strategy, computed from the measured steps and a model of the network.
    """
    from ddptui.projection import ProjectionError, command
    from ddptui.store.runs import runs_folder

    folder, asked = runs_folder(runs), command.ProjectOptions(**options)
    with refusing(ProjectionError):
        if format != "html":
            sys.exit(command.run(folder, run, asked, format))
        projection = command.projection(folder, run, asked)
    from ddptui.page.pages import projection_page

    click.echo(projection_page(projection), nl=False)


@click.command()
@click.argument("a", metavar="A|RUN", shell_complete=run_names)
@click.argument("b", metavar="[B]", required=False, shell_complete=files)
@RUNS_OPTION
def verify(a: str, b: str | None, runs: str | None) -> None:
    """Compare two checkpoints, or the ranks of a run.

    Prints which parameters and which buffers differ, between checkpoints A and B or between the ranks of each trial of
    RUN. Exit code 1 if any do.
    """
    from ddptui.run import verify
    from ddptui.store.runs import RunError, find_run, runs_folder

    if b is None:
        try:
            sys.exit(verify.ranks_of(find_run(runs_folder(runs), a)))
        except RunError as error:
            hint = "; to compare two checkpoints, give both files" if os.path.isfile(a) else ""
            raise Refusal(f"{error}{hint}") from None
    for path in (a, b):
        if not os.path.isfile(path):
            raise Refusal(f"{path}: {'is a folder, not a checkpoint' if os.path.isdir(path) else 'no such file'}")
    sys.exit(verify.checkpoints(a, b))
