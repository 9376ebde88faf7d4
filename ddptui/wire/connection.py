"""How a rank or node reaches the console: the environment of a rank, and the keys of an encrypted connection."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import zmq

# The environment variables by which a rank finds the console.
HUB = "DDPTUI_HUB"  # the endpoint to connect to
TOKEN = "DDPTUI_TOKEN"  # proves that a rank belongs to this launch
KEYS = "DDPTUI_KEYS"  # over a network: the keys that let a rank in
LOGS = "DDPTUI_LOGS"  # the folder for rank-R.log, and for rank-R.flight.json
LINKS = "DDPTUI_LINKS"  # the network of each rank, where ranks have links of their own: "PID FD FD …"
CONSOLE_PID = "DDPTUI_CONSOLE_PID"  # the process whose death ends the rank
WATCHED = "DDPTUI_WATCHED"  # of a training that is watched: the file that says where its relay is
NOTES = "notes"  # the file beside that one in which a process says why it is not watched, a line for each reason
SILENCE_S = "DDPTUI_SILENCE_S"  # if the console sends nothing for so long, the rank ends


def flight_record(rank: int) -> str:
    """The file, in the folder of its log, with what torch's flight recorder held when the launch stalled."""
    return f"rank-{rank}.flight.json"


class Keys(NamedTuple):
    """The keys of a peer: the console's public key, and a pair of its own. Z85 text of 40 characters each."""

    server: str
    public: str
    secret: str

    def spell(self) -> str:
        """The three keys as one line, which `read` takes."""
        return " ".join(self)  # Z85 has no space

    @classmethod
    def read(cls, text: str) -> "Keys":
        """The keys from one line. Raises ValueError."""
        server, public, secret = text.split(" ")
        return cls(server, public, secret)


def use_keys(socket: "zmq.Socket[bytes]", keys: Keys) -> None:
    """Set a peer's socket up for CURVE encryption, before it connects."""
    socket.curve_serverkey = keys.server.encode()
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()
