"""The console as it is, in a process that leaves a mark (a file called STARTED) when it starts another one. It does not
see the packages named in HIDDEN."""

import os
import sys
from collections.abc import Sequence
from typing import Any

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


if __name__ == "__main__":
    sys.addaudithook(overhear)
    if hidden := os.environ.get("HIDDEN", "").split():
        sys.meta_path[:] = [Without(finder, hidden) for finder in sys.meta_path]
    from ddptui.cli import start

    start()
