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

ENOUGH_FILES = 65_536  # many times what 1,024 ranks need
TRIES = 200  # ports, one after another
LAST_PORT = 65_535
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # classic BPF, one instruction: keep 0 bytes of each packet


class ConnectionGate:
    """Accepts new connections on a socket only while half of this process's file descriptors are free.

    At the limit of open files libzmq aborts the process. Open connections stay. On other systems than Linux the gate to
    the network stays open. `connections` is readable when a peer has connected.
    """

    def __init__(self, socket: "zmq.Socket[bytes]", shut: Callable[[], None], reopen: Callable[[], None]) -> None:
        self._most = allow_open_files(ENOUGH_FILES) // 2
        self._shut, self._reopen = shut, reopen
        self._is_shut = False
        self.connections: zmq.Socket[bytes] = socket.get_monitor_socket(zmq.EVENT_ACCEPTED)

    def update(self) -> None:
        """Shuts or reopens the gate, by the number of open files. Cheap unless a peer has connected."""
        if not self._has_new_connection() and not self._is_shut:
            return
        crowded = len(os.listdir("/dev/fd")) > self._most
        if crowded and not self._is_shut:
            self._shut()
        elif self._is_shut and not crowded:
            self._reopen()
        self._is_shut = crowded

    def _has_new_connection(self) -> bool:
        connected = False
        while self.connections.poll(0):
            self.connections.recv_multipart()
            connected = True
        return connected


def local_gate(socket: "zmq.Socket[bytes]", endpoint: str) -> ConnectionGate:
    """Binds to a Unix socket, and returns its gate, which shuts by renaming the socket's file. Raises OSError."""
    path = Path(endpoint.removeprefix("ipc://"))
    hidden = path.with_name("shut")

    def move(source: Path, target: Path) -> None:
        with suppress(FileNotFoundError):  # the keeper has removed the folder: the launch is over
            source.rename(target)

    _bind(socket, endpoint)
    return ConnectionGate(socket, lambda: move(path, hidden), lambda: move(hidden, path))


def network_gate(socket: "zmq.Socket[bytes]") -> ConnectionGate:
    """The gate of a socket that bind_near has bound. It shuts by a filter that has the kernel drop all packets to the
    listening socket; connections have no filter. libzmq's own way, unbind, would end the connections, too."""
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
        with fromfd(listener, AF_INET, SOCK_STREAM) as listener_socket, suppress(OSError):  # no filters in this kernel
            listener_socket.setsockopt(SOL_SOCKET, option, value)


def bind_near(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Binds to the first free port from `port` on. Returns the endpoint. Raises OSError."""
    last = min(port + TRIES - 1, LAST_PORT)
    for number in range(port, last + 1):
        try:
            return _listen(socket, address, number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"the ports from {port} to {last} are taken", address)


def _listen(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Binds to a listening socket that is made here, so that the gate knows its descriptor. libzmq closes it."""
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
    """Encrypts a socket of the console with CURVE, and accepts only peers with `keys`. All peers share one pair."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", socket: "zmq.Socket[bytes]") -> None:
        """To be called before the socket is bound."""
        from zmq.auth.thread import ThreadAuthenticator  # here: it imports asyncio, and most launches are local

        server, socket.curve_secretkey = zmq.curve_keypair()
        socket.curve_publickey = server
        socket.curve_server = True
        public, secret = zmq.curve_keypair()
        self.keys = Keys(server.decode(), public.decode(), secret.decode())
        self._public_key = public
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", self)  # without it, knowing `server` would suffice

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a peer with this public key, as Z85, may connect. The authenticator calls it from its thread."""
        return hmac.compare_digest(key, self._public_key)

    def close(self) -> None:
        """Stops the authenticator. To be called before the context is terminated."""
        self._authenticator.stop()
