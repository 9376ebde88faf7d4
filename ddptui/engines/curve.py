"""The console's side of CURVE: only peers that hold the keys of this launch may connect."""

import hmac

import zmq

from ddptui.wire.connection import Keys


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
