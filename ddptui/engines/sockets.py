"""The console's sockets. Only peers with the launch's keys may connect, and only while file descriptors are free."""

import ctypes
import errno
import hmac
import os
import secrets
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, SOCK_STREAM, SOL_SOCKET, create_server, fromfd

import msgspec
import zmq

from ddptui.host.machine import allow_open_files
from ddptui.wire.connection import PeerKeys
from ddptui.wire.records import Alive

ENOUGH_FILES = 65_536  # far more than 1,024 ranks need
TRIES = 200  # number of consecutive ports to try
LAST_PORT = 65_535
HANDSHAKE_MS = 5_000  # a peer that has not shown its key by then is disconnected
MOST_FRAMES_AT_ONCE = 256  # so that a flood of frames does not keep the caller from its other work
MOST_BYTES_AT_ONCE = 8 * 2**20  # the same for bytes; decoded messages take up to ten times as much memory
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27  # asm-generic/socket.h
DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)  # classic BPF, one instruction: keep 0 bytes of each packet


class ConsoleSocket:
    """A ROUTER socket of the console that can stop accepting connections. On the network it is encrypted, and peers
    need `keys`."""

    def __init__(self, at: tuple[str, int] | str, options: Mapping[zmq.SocketOption, int]) -> None:
        """at: an address of this host and the first port to try, or the endpoint of a Unix socket. Raises OSError."""
        self.token = secrets.token_hex(16)  # the first message of each peer must contain it
        self.keys: PeerKeys | None = None
        self._most = allow_open_files(ENOUGH_FILES) // 2  # at the limit of open files, libzmq aborts the process
        self._is_shut = False
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        for option, value in {zmq.HANDSHAKE_IVL: HANDSHAKE_MS, **options}.items():
            self._socket.setsockopt(option, value)  # before bind: options only apply to later connections
        try:
            if isinstance(at, str):
                self.endpoint = at
                _bind(self._socket, at)
            else:
                self.keys = self._encrypt()
                self.endpoint = bind_near(self._socket, *at)
        except OSError:
            self._close()
            raise
        self._poller = zmq.Poller()
        # readable when a peer has connected
        self._connections: zmq.Socket[bytes] = self._socket.get_monitor_socket(zmq.EVENT_ACCEPTED)
        for socket in (self._socket, self._connections):
            self._poller.register(socket, zmq.POLLIN)

    def _encrypt(self) -> PeerKeys:
        """Sets up CURVE encryption, before the socket is bound. Returns the keys; all peers share one key pair."""
        from zmq.auth.thread import ThreadAuthenticator  # imported late: it imports asyncio

        server, self._socket.curve_secretkey = zmq.curve_keypair()
        self._socket.curve_publickey = server
        self._socket.curve_server = True
        self._public_key, secret = zmq.curve_keypair()
        self._authenticator = ThreadAuthenticator(self._context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback("*", self)  # otherwise any peer that knows `server` could connect
        return PeerKeys(server.decode(), self._public_key.decode(), secret.decode())

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a peer with this public key (Z85) may connect. The authenticator calls this from its thread."""
        return hmac.compare_digest(key, self._public_key)

    def has_token(self, token: str) -> bool:
        """Whether a peer's token is right. The comparison takes the same time for any wrong token."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def send(self, identity: bytes, message: msgspec.Struct) -> None:
        """Sends a message to one peer. ZeroMQ drops it if the peer has disconnected or does not read."""
        self._socket.send_multipart([identity, msgspec.msgpack.encode(message)])

    def is_connected(self, identity: bytes) -> bool:
        """Whether a peer's connection is open, as far as this host can know. Sends it an Alive."""
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        try:
            self._socket.send_multipart([identity, msgspec.msgpack.encode(Alive())], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            return error.errno == zmq.EAGAIN  # connected, but not reading
        finally:
            self._socket.setsockopt(zmq.ROUTER_MANDATORY, 0)
        return True

    def receive(self, timeout_ms: int = 0) -> Iterator[tuple[bytes, list[bytes]]]:
        """Yields (identity of the peer, frames) for each message that has arrived. Waits at most timeout_ms for the
        first."""
        if not self._wait(timeout_ms):
            return
        count = size = 0
        while count < MOST_FRAMES_AT_ONCE and size < MOST_BYTES_AT_ONCE:
            try:
                identity, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            yield identity, frames
            count, size = count + 1, size + sum(map(len, frames))

    def _wait(self, timeout_ms: int) -> bool:
        """Waits for a message, and calls `update_gate` meanwhile. Returns False if none arrived in time."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            self.update_gate()
            left_ms = max(0, round(1000 * (deadline - time.monotonic())))
            if self._socket in dict(self._poller.poll(left_ms)):
                return True
            if not left_ms:
                return False

    def update_gate(self) -> None:
        """Stops or resumes accepting connections: they are accepted only while half of this process's file descriptors
        are free. Fast unless a peer has connected."""
        if not self._has_new_connection() and not self._is_shut:
            return
        crowded = len(os.listdir("/dev/fd")) > self._most
        if crowded != self._is_shut:
            shut = self._shut_port if self.keys else self._shut_file
            shut(crowded)
        self._is_shut = crowded

    def _has_new_connection(self) -> bool:
        connected = False
        while self._connections.poll(0):  # empty the queue, or the next poll would return at once
            self._connections.recv_multipart()
            connected = True
        return connected

    def _shut_file(self, is_shut: bool) -> None:
        """Closes or reopens a Unix socket for new connections by renaming its file. Open connections stay."""
        path = Path(self.endpoint.removeprefix("ipc://"))
        hidden = path.with_name("shut")
        source, target = (path, hidden) if is_shut else (hidden, path)
        with suppress(FileNotFoundError):  # the keeper has removed the folder: the launch is over
            source.rename(target)

    def _shut_port(self, is_shut: bool) -> None:
        """Closes or reopens a port for new connections by a filter that makes the kernel drop all packets to the
        listening socket. Open connections stay; libzmq's unbind would close them, too."""
        listener = self._socket.getsockopt(zmq.USE_FD)
        assert isinstance(listener, int)
        if sys.platform != "linux":  # on other systems the port stays open
            return
        instructions = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
        program = struct.pack("HP", 1, ctypes.addressof(instructions))  # struct sock_fprog
        option, value = (SO_ATTACH_FILTER, program) if is_shut else (SO_DETACH_FILTER, bytes(4))
        with fromfd(listener, AF_INET, SOCK_STREAM) as listener_socket, suppress(OSError):  # this kernel has no filters
            listener_socket.setsockopt(SOL_SOCKET, option, value)

    def close(self) -> None:
        """Closes the socket and its helpers. Waits for unsent messages, at most its LINGER."""
        if self._socket.closed:
            return
        self._socket.disable_monitor()  # first, because it needs the open socket
        self._connections.close()
        self._close()

    def _close(self) -> None:
        self._socket.close()
        if self.keys:
            self._authenticator.stop()  # before the context: term() waits until all sockets are closed
        self._context.term()


def bind_near(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Binds a socket to the first free port from `port` on. Returns the endpoint. Raises OSError."""
    last = min(port + TRIES - 1, LAST_PORT)
    for number in range(port, last + 1):
        try:
            return _listen(socket, address, number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"the ports from {port} to {last} are taken", address)


def _listen(socket: "zmq.Socket[bytes]", address: str, port: int) -> str:
    """Creates a listening socket and binds to it, so that its file descriptor is known to ConsoleSocket."""
    endpoint = f"tcp://{address}:{port}"
    try:
        listener = create_server((address, port), backlog=100)  # libzmq's default
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), endpoint) from None
    with listener:
        listener.setblocking(False)  # libzmq accepts in its event loop, which must not block
        endpoint = f"tcp://{address}:{listener.getsockname()[1]}"  # port 0 means any free port
        socket.setsockopt(zmq.USE_FD, listener.fileno())
        _bind(socket, endpoint)
        listener.detach()  # from here on libzmq closes the descriptor
    return endpoint


def _bind(socket: "zmq.Socket[bytes]", endpoint: str) -> None:
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        raise OSError(error.errno, error.strerror, endpoint) from None
