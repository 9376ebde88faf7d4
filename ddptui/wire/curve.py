"""CURVE: what passes between hosts is encrypted, and only who has this launch's keys may speak or read."""

from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
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


def unlock(socket: "zmq.Socket[bytes]", keys: Keys) -> None:
    """On a peer's socket, before it connects."""
    socket.curve_serverkey = keys.server.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
