"""CURVE: what passes between hosts is encrypted, and only who has this launch's keys may speak or read."""

import hmac
from typing import NamedTuple, Self

import zmq


class Keys(NamedTuple):
    """What a peer needs: the public key of the console, and a pair of its own. Z85 text, 40 characters each."""

    server: str
    public: str
    secret: str

    def spell(self) -> str:
        return " ".join(self)

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ValueError."""
        server, public, secret = text.split(" ")
        return cls(server, public, secret)


class Lock:
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


def unlock(socket: "zmq.Socket[bytes]", keys: Keys) -> None:
    """On a peer's socket, before it connects."""
    socket.curve_serverkey = keys.server.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
