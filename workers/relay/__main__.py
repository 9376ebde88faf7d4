"""python -m workers.relay: relays the notes of the ranks on one host to the console.

Its first line of input is a RelayTask. When its input ends, it sends what it has received, and ends. If the last line
is not LET_GO, the process that started it has died: then the relay ends the training, if that is its task.
"""

import os
import select
import shutil
import socket
import sys
import time
from functools import partial
from pathlib import Path

from ddptui.host.keeper import end_watched
from ddptui.text.sanitize import as_argument
from ddptui.wire.relay_file import LET_GO, RelayTask
from workers.relay.rank import WatchedRank

LAST_WORDS_S = 15.0
STARTED_WITHIN_S = 0.2  # a command that has just started may still have the environment of the dead console


def main() -> None:
    """Accept ranks until the input ends, then send their last messages and end."""
    task = RelayTask.read(sys.stdin.buffer.readline())
    listener = socket.socket(fileno=task.listener)
    ranks: list[WatchedRank] = []
    note_why = partial(note, as_argument(task.notes))
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        # Accept all ranks that have connected before handling the end of input: on a busy machine, the command may
        # already be over.
        connection, _ = listener.accept()
        ranks.append(WatchedRank(connection, task.hub_environment, task.watching, note_why))
    if sys.stdin.buffer.read() != LET_GO:
        clear_up(task, Path(listener.getsockname()).parent)
    for rank in ranks:
        rank.end()
    for rank in ranks:
        rank.thread.join(LAST_WORDS_S)
    os._exit(0)  # a blocked thread must not keep this process alive


def clear_up(task: RelayTask, folder: Path) -> None:
    """Clean up in place of the process that has died: end the training, if that is the task, and remove its folder."""
    if task.ends is not None:
        time.sleep(STARTED_WITHIN_S)
        end_watched(as_argument(task.ends))
    shutil.rmtree(folder, ignore_errors=True)


def note(notes: str, why: str) -> None:
    """Note why a rank is no longer watched in the notes file, where ranks do so themselves."""
    with Path(notes).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(why.replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
