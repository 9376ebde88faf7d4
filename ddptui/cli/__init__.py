"""The command line. `start` is the program's entry point; `main` is the click group: without a command it opens the
console.

Each command imports what it needs when it is called, so `ddptui --help` and usage errors load no zmq, msgspec or rich.
"""

import os
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import click

from ddptui import __version__
from ddptui.cli import common
from ddptui.cli.common import INTERRUPTED, USAGE_ERROR, Refusal, changes_of, handle, os_error_line, run_options
from ddptui.cli.completion import VARIABLE, complete, completion, presets_and_files, run_names
from ddptui.cli.files import config, delete, init, new, restore
from ddptui.cli.inspect import columns, compare, presets, project, report, runs, show, verify
from ddptui.cli.machine import doctor, join, manifest, place, selftest
from ddptui.cli.run import begin, run
from ddptui.cli.watch import attach, watch
from ddptui.text.words import did_you_mean

# color=True: click would otherwise strip escape sequences, which ddptui.cli.common makes visible instead
SETTINGS = {"help_option_names": ["-h", "--help"], "color": True}
# Module name -> package, for packages that every command needs; commands that need torch check for it.
SAME_NAME = ("jinja2", "msgspec", "numpy", "platformdirs", "psutil", "rich", "textual", "tomlkit")
OTHER_NAME = {"markdown_it": "markdown-it-py", "pynvml": "nvidia-ml-py", "tomli_w": "tomli-w", "zmq": "pyzmq"}
NEEDED = dict(zip(SAME_NAME, SAME_NAME, strict=True)) | OTHER_NAME
OWN_OPTIONS = ("preset", "resume", "version")  # those of `ddptui` alone, not also of `ddptui run`
COMMANDS = (
    run, watch, attach, show, runs, delete, restore, compare, report, presets, init, new, columns, project, verify,
    doctor, selftest, config, completion, join, manifest, place,
)  # fmt: skip


def start() -> None:
    """Run the command line as a program. An interrupt at any moment ends it with exit code 130."""
    handle(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed the stream (`ddptui >&-`); print and click need an object
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if instruction := os.environ.get(VARIABLE):
        sys.exit(complete(main, instruction))
    common.install_sanitizer()
    if missing := [package for module, package in NEEDED.items() if find_spec(module) is None]:
        # Check before any run folder is created: some packages are imported only after that.
        lacks = f"ddptui's environment, {sys.prefix}, lacks {', '.join(missing)}"
        Refusal(f"{lacks}; install with `{sys.executable} -m pip install {' '.join(missing)}`").show()
        sys.exit(USAGE_ERROR)
    try:
        main()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (else Python reports the same error again at exit)
        Refusal(os_error_line(error)).show()
        sys.exit(USAGE_ERROR)


class Commands(click.Group):
    """The commands, listed in sections. For an unknown command it suggests a command or a preset."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Returns the command of this name. Raises Refusal if there is none."""
        found = super().get_command(context, name)
        if found is None and not name.startswith("-") and not context.resilient_parsing:
            raise Refusal(f"no command {name!r}; {self._instead_of(name)}")
        return found

    def _instead_of(self, name: str) -> str:
        """Returns a hint: what to type instead of this unknown command."""
        from ddptui.store.presets import preset_paths

        known: list[str] = []
        with suppress(OSError):  # without a home folder there are no user presets to look for
            known = [*preset_paths()]
        if name in known or name.endswith(".toml"):
            return f"to run this preset: `ddptui run {name}`"
        if hint := did_you_mean(name, self.commands):
            return hint
        if hint := did_you_mean(name, known):
            return f"{hint} `ddptui run NAME` runs a preset"
        return "`ddptui --help` lists the commands; `ddptui run NAME` runs a preset"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that only `ddptui` has. Its docstring names the commands."""
        with formatter.section("Options"):
            own = [option for option in self.get_params(ctx) if option.name in OWN_OPTIONS]
            formatter.write_dl([line for option in own if (line := option.get_help_record(ctx))])


@click.group(cls=Commands, invoke_without_command=True, context_settings=SETTINGS)
@click.option(
    "--preset", metavar="NAME_OR_FILE", help="Run this preset, as `ddptui run` does.", shell_complete=presets_and_files
)
@click.option(
    "--resume", metavar="RUN", help="Finish an interrupted run: launch what is missing.", shell_complete=run_names
)
@run_options
@click.version_option(__version__, prog_name="ddptui")
@click.pass_context
def main(context: click.Context, /, preset: str | None, resume: str | None, **options: Any) -> None:
    """A lab console for distributed training; without a command, it opens. `ddptui COMMAND --help` says more; the
    options of `ddptui run` also follow --preset.

    \b
    Every day:
      run                    Run a preset, in the console or headless.
      watch, attach          Watch your own training, unchanged; watch it again.
      show                   Print a run's table, its page, or its timeline.
      runs, delete, restore  List the runs; move them to the trash, or back.
      compare, report        Compare two runs; join runs into a report to hand in.

    \b
    The lab:
      presets                List the presets; or one's trials and commands.
      init, new              Write a preset for your training; a strategy.
      columns                Explain the columns of the tables, or one of them.
      project                Predict the step time on other numbers of ranks.
      verify                 Compare two checkpoints, or the ranks of a run.

    \b
    Machines:
      doctor                 Check what it can run, and how to fix the rest.
      selftest               Check that ddptui finds delays of known length.
      config, completion     Show your settings; complete commands in a shell.
      join, manifest, place  Several hosts, Slurm, Kubernetes: docs/machines.md.
    """
    if command := context.invoked_subcommand:
        if preset or resume:
            raise Refusal(f"--preset and --resume cannot be combined with a command: leave out `{command}`")
        if any(value not in (None, (), False) for value in options.values()):
            raise Refusal(f"options come after the command: `ddptui {command} --help` lists its options")
        return
    if resume and (preset or any(changes_of(options).values())):
        raise Refusal("--resume keeps the run's own settings: leave out --preset, and what changes it, e.g. --set")
    sys.exit(begin(preset, resume, options))


for each in COMMANDS:
    main.add_command(each)
