"""The command that joins runs into one document: report."""

import click

from ddptui.cli.common import load_settings, refusing
from ddptui.cli.completion import run_names
from ddptui.cli.options import RUNS_OPTION

FORMATS = ("html", "markdown")


@click.command()
@click.argument("names", metavar="RUN…", nargs=-1, required=True, shell_complete=run_names)
@click.option("--format", "format", type=click.Choice(FORMATS), default="html", show_default=True)
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
