"""python -m workers.relay: relays what the ranks of one host note. Its first line of input is a RelayTask; when its
input ends, so does it, after it has sent what has come. Without LET_GO as the last line, what started it has died: then
it ends the training, if that is its task."""

import os
import select
import shutil
import socket
import sys
import time
from functools import partial
from pathlib import Path

from ddptui.host.ending import end_watched
from ddptui.text.argv import as_argument
from ddptui.wire.watching import LET_GO, RelayTask
from workers.relay.rank import WatchedRank

LAST_WORDS_S = 15.0
STARTED_WITHIN_S = 0.2  # a command: until then it may have the environment of the console that has died


def main() -> None:
    task = RelayTask.read(sys.stdin.buffer.readline())
    listener = socket.socket(fileno=task.listener)
    ranks: list[WatchedRank] = []
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        # Those that have connected come before the end of the input: on a busy machine the command may be over by now.
        connection, _ = listener.accept()
        ranks.append(WatchedRank(connection, task.way, task.watching, partial(note, as_argument(task.notes))))
    if sys.stdin.buffer.read() != LET_GO:
        clear_up(task, Path(listener.getsockname()).parent)
    for rank in ranks:
        rank.end()
    for rank in ranks:
        rank.thread.join(LAST_WORDS_S)
    os._exit(0)  # a thread that is stuck must not keep it


def clear_up(task: RelayTask, folder: Path) -> None:
    """Do what the process that has died would have: end the training, if that is the task, and remove its folder."""
    if task.ends is not None:
        time.sleep(STARTED_WITHIN_S)
        end_watched(as_argument(task.ends))
    shutil.rmtree(folder, ignore_errors=True)


def note(notes: str, why: str) -> None:
    """Say why a rank is no longer watched, as a rank does itself."""
    with Path(notes).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(why.replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
