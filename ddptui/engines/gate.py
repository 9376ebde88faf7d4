"""Who may connect to a socket of the console: peers with the launch's keys, while file descriptors are left."""

import ctypes
import errno
import hmac
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, SOL_SOCKET, create_server, fromfd

import zmq

from ddptui.host.limits import allow_open_files
from ddptui.wire.connection import Keys

ENOUGH_FILES = 65_536
TRIES = 200  # ports, one after another
LAST_PORT = 65_535
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # classic BPF, one instruction: keep 0 bytes of each packet


class ConnectionGate:
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


def local_gate(socket: "zmq.Socket[bytes]", endpoint: str) -> ConnectionGate:
    """On this host: a socket with a name in a folder. It is shut by another name: who is inside does not notice. Raises
    OSError."""
    path = Path(endpoint.removeprefix("ipc://"))
    aside = path.with_name("shut")

    def move(here: Path, there: Path) -> None:
        with suppress(FileNotFoundError):  # the keeper has taken the folder away: the launch is over
            here.rename(there)

    _bind(socket, endpoint)
    return ConnectionGate(socket, lambda: move(path, aside), lambda: move(aside, path))


def network_gate(socket: "zmq.Socket[bytes]") -> ConnectionGate:
    """On the network: `socket` is what bind_near has bound. It is shut by a filter on the listening socket, which lets
    the kernel drop whatever comes for it; connections have none. libzmq's own way, unbind, ends these as well."""
    listener = socket.getsockopt(zmq.USE_FD)
    assert isinstance(listener, int)
    return ConnectionGate(socket, lambda: _drop_all(listener), lambda: _drop_none(listener))


def _drop_all(listener: int) -> None:
    instructions = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
    program = struct.pack("HP", 1, ctypes.addressof(instructions))  # struct sock_fprog
    _set_option(listener, SO_ATTACH_FILTER, program)


def _drop_none(listener: int) -> None:
    _set_option(listener, SO_DETACH_FILTER, bytes(4))


def _set_option(listener: int, option: int, value: bytes) -> None:
    if sys.platform == "linux":
        with fromfd(listener, AF_INET, SOCK_STREAM) as own, suppress(OSError):  # a kernel without filters
            own.setsockopt(SOL_SOCKET, option, value)


def bind_near(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Bind to the first port that is free, from `port` on. Returns the endpoint. Raises OSError."""
    last = min(port + TRIES - 1, LAST_PORT)
    for number in range(port, last + 1):
        try:
            return _listen(socket, address, number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"the ports from {port} to {last} are taken", address)


def _listen(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """A listening socket of our own making, so that the door can be shut; it is libzmq that closes it."""
    endpoint = f"tcp://{address}:{port}"
    try:
        listener = create_server((address, port), backlog=100)  # as libzmq has it
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), endpoint) from None
    with listener:
        listener.setblocking(False)
        endpoint = f"tcp://{address}:{listener.getsockname()[1]}"  # port 0 is any that is free
        socket.setsockopt(zmq.USE_FD, listener.fileno())
        _bind(socket, endpoint)
        listener.detach()
    return endpoint


def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise OSError(error.errno, error.strerror, endpoint) from None


class CurveServer:
    """On a socket of the console, before it is bound. `keys`: for those who may come in; there is one pair for all."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", socket: "zmq.Socket[bytes]") -> None:
        from zmq.auth.thread import ThreadAuthenticator  # it brings asyncio along

        server, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_publickey = server
        socket.curve_server = True
        public, secret = zmq.curve_keypair()
        self.keys = Keys(server.decode(), public.decode(), secret.decode())
        self._may_enter = public
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", self)  # without it libzmq lets in whoever knows `server`

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a peer with this public key, as Z85, may come in. The authenticator calls it."""
        return hmac.compare_digest(key, self._may_enter)

    def close(self) -> None:
        """Before the context is ended."""
        self._authenticator.stop()
