"""Runs a command as `ddptui watch` does, and takes what its processes send and write at their ends."""

import json
import marshal
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ddptui.wire.connection import EVENTS, WATCHED
from workers.watch import link
from workers.watch.link import HEAD_BYTES, JSON

INJECTED = Path(link.__file__).parent / "inject"
ENOUGH_S = 120


class Watched:
    """A command that was run to its end, with a relay of the test's own."""

    def __init__(self, folder: Path, *words: str, kill: Sequence[int] = ()) -> None:
        """kill: the signals that each rank gets once it has sent where it stands."""
        self.frames: dict[int, list[dict[str, Any]]] = {}  # by rank
        self.pages: dict[int, link.LastCall | None] = {}
        self._kill = kill
        console = folder / "console"
        path = str(folder / "relay")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            console.write_text(
                json.dumps({"socket": path, "steps": None, "bottleneck": [], "checks": True, "lines": False})
            )
            accepting = threading.Thread(target=self._accept, args=(listener,))
            accepting.start()
            paths = [str(INJECTED), *filter(None, [os.environ.get("PYTHONPATH")])]
            own = {**os.environ, WATCHED: str(console), "PYTHONPATH": os.pathsep.join(paths)}
            command = [sys.executable, *words]
            done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=ENOUGH_S)
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
        print(done.stdout[-9_000:], done.stderr[-9_000:], sep="\n")
        self.code, self.out, self.error = done.returncode, done.stdout, done.stderr
        lines = (folder / EVENTS).read_bytes().splitlines() if (folder / EVENTS).exists() else []
        assert all(len(line) < 4_000 for line in lines)
        self.events: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def _accept(self, listener: socket.socket) -> None:
        readers = []
        with suppress(OSError):  # the command has ended
            while True:
                connection, _ = listener.accept()
                readers.append(threading.Thread(target=self._read, args=(connection,)))
                readers[-1].start()
        for reader in readers:
            reader.join()

    def _read(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            frames = []
            hello: dict[str, Any] = {}
            with suppress(ConnectionError):
                while head := file.read(HEAD_BYTES):
                    body = file.read(length := int.from_bytes(head[1:], "big"))
                    if len(head) + len(body) < HEAD_BYTES + length:
                        break  # killed while it sent
                    frames.append(json.loads(body) if head[:1] == JSON else {"notes": marshal.loads(body)})
                    hello = frames[0]
                    if self._kill and frames[-1].get("stack") and "ended_ns" not in frames[-1]:
                        for number in self._kill:
                            os.kill(hello["hello"]["pid"], number)
            if hello:
                self.frames[hello["hello"]["rank"]] = frames
                self.pages[hello["hello"]["rank"]] = link.taken(hello["page"])

    def failed(self) -> list[dict[str, Any]]:
        """The events of processes that failed."""
        return [event for event in self.events if event["what"] == "failed"]

    def last(self, rank: int) -> dict[str, Any]:
        """The last frame of a rank; empty if it sent none."""
        last = self.frames[rank][-1]
        return last if "ended_ns" in last else {}
