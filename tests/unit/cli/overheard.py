"""The console as it is, in a process that leaves a mark (a file called STARTED) when it starts another one. It does not
see the packages named in HIDDEN.

    python overheard.py WORDS…
    python overheard.py --serve

The latter forks a console for each line of its input (a Request, as JSON), and answers with its exit code.
"""

import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

STARTS = {
    "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system", "pty.spawn",
}  # fmt: skip


def overhear(event: str, arguments: Sequence[Any]) -> None:
    if event in STARTS:
        os.close(os.open(os.environ["STARTED"], os.O_CREAT | os.O_WRONLY))


class Without:
    """A finder that does not find some packages."""

    def __init__(self, finder: Any, hidden: Sequence[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name: str, *rest: Any) -> Any:
        return None if name in self._hidden else self._finder.find_spec(name, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


class Request(TypedDict):
    """A console: its words, its variables, the folder where it is started, the files that it writes to."""

    words: list[str]
    environment: dict[str, str]
    folder: str
    out: str
    error: str


def be_a_console(*words: str) -> None:
    sys.addaudithook(overhear)
    if hidden := os.environ.get("HIDDEN", "").split():
        sys.meta_path[:] = [Without(finder, hidden) for finder in sys.meta_path]
    sys.argv[:] = ["ddptui", *words]
    from ddptui.cli import start

    start()


def serve() -> None:
    # What most consoles import before they refuse.
    import ddptui.cli
    import ddptui.projection.command
    import ddptui.run.headless  # noqa: F401
    from workers.rank import forked

    for line in sys.stdin:
        if (pid := os.fork()) == 0:
            forked.run(partial(be_asked_for, json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def be_asked_for(request: Request) -> None:
    """What a new process would be given, this one takes."""
    written = os.O_WRONLY | os.O_CREAT
    for number, path, how in ((0, os.devnull, 0), (1, request["out"], written), (2, request["error"], written)):
        os.dup2(os.open(path, how), number)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    be_a_console(*request["words"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        be_a_console(*sys.argv[1:])
