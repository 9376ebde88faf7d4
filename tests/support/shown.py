"""Commands that README and docs show: read from the ```console blocks of a page, and run as a reader would."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ddptui.engines.local import links
from ddptui.host import gpus
from tests.support.masks import masked
from tests.support.runner import ENOUGH_S

REPO = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(REPO)) for path in (REPO / "docs").glob("*.md")))
PROMPT = re.compile(r"(?:(?P<host>[\w-]+) )?\$ (?P<command>.+)")
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS = "120"  # of the terminal that the pages show
# These start no ranks, need no run, and end within two seconds.
QUICK = re.compile(r"ddptui (presets|columns|manifest|place|config)\b|ddptui place$|(--preset|run) gpu-")
NO_RUN = re.compile(r"ddptui (presets|columns|manifest|place|config|doctor|selftest)\b")
LAUNCHES = re.compile(r"--preset|ddptui run\b")
# Variables that change what is printed
SET_FOR_SOMETHING = ("DDPTUI_", "XDG_", "OMP_", "PYTHON", "SSH_CONNECTION", "TEXTUAL_", "COLORFGBG")
# An address of this machine, but none of a page's own hosts, and none that every machine has.
ADDRESS = re.compile(r"\b(?!127\.|10\.97\.|0\.)\d{1,3}(?:\.\d{1,3}){3}\b")


class Shown(NamedTuple):
    """A command, and the lines that a page shows below it. line: the command's, from 1 on; host: "" for this one."""

    page: str
    line: int
    host: str
    command: str
    output: tuple[str, ...]

    @property
    def place(self) -> str:
        """What runs it: this machine alone, hosts that are joined, a cluster of Slurm, or a reader's own machine."""
        if "--engine slurm" in self.command:
            return "slurm"
        return "hosts" if self.host.startswith("host-") else "reader" if self.host else "here"

    @property
    def is_quick(self) -> bool:
        return QUICK.search(self.command) is not None

    @property
    def needs_run(self) -> bool:
        """Whether it reads a run that a command before it has left."""
        return NO_RUN.search(self.command) is None and LAUNCHES.search(self.command) is None


class Printed(NamedTuple):
    """What a command has printed, as lines."""

    stdout: list[str]
    stderr: list[str]

    def beside(self, output: Sequence[str]) -> list[str]:
        """The lines to hold against those that a page shows. It shows stdout; or all that a terminal does, if its first
        line is the first of stderr."""
        both = output and self.stderr and masked(output[:1]) == masked(self.stderr[:1])
        return self.stderr + self.stdout if both else self.stdout


def shown_on(page: str) -> list[Shown]:
    """The commands of a page, from the top."""
    content = (REPO / page).read_text(encoding="utf-8")
    return [command for block in BLOCK.finditer(content) for command in _commands(page, content, block)]


def _commands(page: str, content: str, block: re.Match[str]) -> list[Shown]:
    lines = block[1].splitlines()
    first = content[: block.start(1)].count("\n") + 1
    starts = [number for number, line in enumerate(lines) if PROMPT.fullmatch(line)]
    assert starts[:1] == [0], f"{page}:{first}: a console block begins with a command: $ ddptui …"
    found = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        prompt = PROMPT.fullmatch(lines[start])
        assert prompt is not None
        output = "\n".join(lines[start + 1 : end]).strip("\n")
        found.append(Shown(page, first + start, prompt["host"] or "", prompt["command"], tuple(output.splitlines())))
    return found


def environment(home: Path) -> dict[str, str]:
    """A new user's: nothing is set for ddptui, and its runs and settings are below `home`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(SET_FOR_SOMETHING)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"HOME": str(home), "PATH": path, "COLUMNS": COLUMNS, "LC_ALL": "C.UTF-8"}


def run(command: str, home: Path, variables: Mapping[str, str] | None = None) -> Printed:
    """Run a command in an empty folder below `home`. Raises subprocess.TimeoutExpired."""
    folder = home / "here"
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(home) | dict(variables or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )
    return Printed(*(without_machine(text, home).splitlines() for text in (done.stdout, done.stderr)))


def without_machine(text: str, home: Path) -> str:
    """The text without this machine's folders and addresses."""
    for folder, name in ((home / "here", "."), (home, "~"), (REPO, "~/ddptui"), (sys.base_prefix, "/usr")):
        text = text.replace(str(folder), name)
    return ADDRESS.sub("192.0.2.2", text).rstrip()


def lacking(shown: Shown) -> str | None:
    """What this machine lacks to print what is shown, or has too much; None: nothing."""
    if re.search(r"(--preset|run) gpu-", shown.command) and not gpus.surely_none():
        return "this machine may have a GPU, and the page shows what one without says"
    if "jq " in shown.command and shutil.which("jq") is None:
        return "this machine has no jq"
    return links.problem() if re.search(r"(--preset|run) slow-link", shown.command) else None


class Reader:
    """Runs the commands of one page after another. A page has a home of its own, so that `last` is its own last run. A
    command that several pages show runs once, unless its page goes on to read the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._printed: dict[str, Printed] = {}

    def read(self, page: str, commands: Sequence[Shown]) -> list[tuple[Shown, Printed]]:
        """Each command with what it has printed."""
        home = self._folder / page.replace("/", "-")
        own = any(each.needs_run for each in commands)
        return [(each, self._run(each.command, home, anew=own)) for each in commands]

    def _run(self, command: str, home: Path, *, anew: bool) -> Printed:
        if anew or command not in self._printed:
            self._printed[command] = run(command, home)
        return self._printed[command]
