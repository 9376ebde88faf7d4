"""Where peers connect to a socket of the console: shut while half of the files that this process may have open are.
Those inside stay."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import zmq

from ddptui.limits import allow_open_files

ENOUGH_FILES = 65_536
TRIES = 200  # ports, one after another


class Door:
    """`shut` and `reopen` are called when it gets crowded, and when that is over."""

    def __init__(self, socket: "zmq.Socket[bytes]", shut: Callable[[], None], reopen: Callable[[], None]) -> None:
        self._most = allow_open_files(ENOUGH_FILES) // 2
        self._shut, self._reopen = shut, reopen
        self._is_shut = False
        self.knocks: zmq.Socket[bytes] = socket.get_monitor_socket(zmq.EVENT_ACCEPTED)

    def look(self) -> None:
        """Shut it, or open it again, if somebody has knocked."""
        if not self._has_knocked() and not self._is_shut:
            return
        crowded = len(os.listdir("/dev/fd")) > self._most
        if crowded and not self._is_shut:
            self._shut()
        elif self._is_shut and not crowded:
            self._reopen()
        self._is_shut = crowded

    def _has_knocked(self) -> bool:
        knocked = False
        while self.knocks.poll(0):
            self.knocks.recv_multipart()
            knocked = True
        return knocked


def local_door(socket: "zmq.Socket[bytes]", endpoint: str) -> Door:
    """On this host: a socket with a name in a folder. It is shut by another name: who is inside does not notice."""
    path = Path(endpoint.removeprefix("ipc://"))
    aside = path.with_name("shut")

    def move(here: Path, there: Path) -> None:
        with suppress(FileNotFoundError):  # the keeper has taken the folder away: the launch is over
            here.rename(there)

    door = Door(socket, lambda: move(path, aside), lambda: move(aside, path))
    socket.bind(endpoint)
    return door


def network_door(socket: "zmq.Socket[bytes]", endpoint: str) -> Door:
    """On the network: `endpoint` is what bind_near returned."""

    def reopen() -> None:
        with suppress(zmq.ZMQError):  # somebody has taken the port meanwhile: nobody new can come in any more
            socket.bind(endpoint)

    return Door(socket, lambda: socket.unbind(endpoint), reopen)


def bind_near(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Bind to the first port that is free, from `port` on. Returns the endpoint. Raises OSError."""
    for number in range(port, port + TRIES):
        endpoint = f"tcp://{address}:{number}"
        try:
            socket.bind(endpoint)
            return endpoint
        except zmq.ZMQError as error:
            if error.errno != errno.EADDRINUSE:
                raise OSError(error.errno, error.strerror, endpoint) from None
    raise OSError(errno.EADDRINUSE, f"the ports from {port} to {port + TRIES - 1} are taken", address)
