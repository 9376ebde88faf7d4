"""python -m workers.relay: relays what the ranks of one host note. Its first line of input is a RelayTask; when its
input ends, so does it, after it has sent what has come."""

import os
import socket
import sys
import threading
from pathlib import Path

from ddptui.text.argv import as_argument
from ddptui.wire.watching import RelayTask
from workers.relay.rank import WatchedRank

NICENESS = 10  # the ranks, at 0, get the cores first
LAST_WORDS_S = 4.0


def main() -> None:
    os.nice(NICENESS)
    task = RelayTask.read(sys.stdin.buffer.readline())
    listener = socket.socket(fileno=task.listener)
    ranks: list[WatchedRank] = []
    threading.Thread(target=accept, args=(listener, task, ranks), name="accept", daemon=True).start()
    sys.stdin.buffer.read()  # until the console, or what has started this, lets go
    for rank in ranks:
        rank.end()
    for rank in ranks:
        rank.thread.join(LAST_WORDS_S)
    os._exit(0)  # a thread that is stuck must not keep it


def accept(listener: socket.socket, task: RelayTask, ranks: list[WatchedRank]) -> None:
    """Serve each rank that connects."""
    while True:
        connection, _ = listener.accept()
        ranks.append(WatchedRank(connection, task.way, task.watching, lambda why: note(as_argument(task.notes), why)))


def note(notes: str, why: str) -> None:
    """Say why a rank is no longer watched, as a rank does itself."""
    with Path(notes).open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(why.replace("\n", " ") + "\n")


if __name__ == "__main__":
    main()
