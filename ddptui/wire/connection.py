"""How a rank or node reaches the console: environment variables, and the keys of an encrypted connection."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import zmq


# The environment variables by which a rank finds the console.
HUB = "DDPTUI_HUB"  # the endpoint to connect to
TOKEN = "DDPTUI_TOKEN"  # the secret that proves that a rank belongs to this launch
KEYS_VARIABLE = "DDPTUI_KEYS"  # over a network: the keys of the encrypted connection
LOGS = "DDPTUI_LOGS"  # the folder for rank-R.log, and for rank-R.flight.json
LINKS = "DDPTUI_LINKS"  # the network namespace of each rank, for trials with simulated links: "PID FD FD …"
CONSOLE_PID = "DDPTUI_CONSOLE_PID"  # the process whose death ends the rank
WATCHED = "DDPTUI_WATCHED"  # under `ddptui watch`: the file that names the socket of the relay
EVENTS = "events"  # beside that file: how processes end and join their group (workers/watch/ending.py)
NOTES = "notes"  # beside that file: a process that cannot be watched writes each reason here, on a line of its own
SILENCE_S = "DDPTUI_SILENCE_S"  # the rank ends if it receives nothing from the console for this many seconds


def flight_record(rank: int) -> str:
    """The name of the file with the contents of torch's flight recorder when the launch stalled. It lies beside the
    rank's log."""
    return f"rank-{rank}.flight.json"


class PeerKeys(NamedTuple):
    """The keys of a peer: the console's public key, and the peer's own key pair. Each is 40 characters of Z85 text."""

    server: str
    public: str
    secret: str

    def spell(self) -> str:
        """The three keys as one line, which `read` parses."""
        return " ".join(self)  # Z85 has no space

    @classmethod
    def read(cls, text: str) -> "PeerKeys":
        """Parse a line that `spell` has written. Raises ValueError unless it holds three keys."""
        server, public, secret = text.split(" ")
        return cls(server, public, secret)


def use_keys(socket: "zmq.Socket[bytes]", keys: PeerKeys) -> None:
    """Set up a peer's socket for CURVE encryption. Call this before the socket connects."""
    socket.curve_serverkey = keys.server.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
