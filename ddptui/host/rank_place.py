"""The place of a process among the ranks of a run, and the environment variables that hold it.

The ranks that a console starts must not inherit these variables from a platform or launcher around it: torch's
launcher, for example, would wait for PET_NNODES nodes.
"""

from collections.abc import Mapping

import msgspec

Environ = Mapping[str, str]
MOST = 2**20  # ranks or nodes: far more than any cluster has
LARGEST_ID = 2**32  # largest job id
LAST_PORT = 65535


class PlaceError(ValueError):
    """The environment does not define a place. The message is one line: the variable, what is wrong with it, and who
    sets it."""


class RankPlace(msgspec.Struct, frozen=True):
    """The rank or node that an environment defines. All indices count from 0."""

    rank: int  # rank of this process; if the environment defines a node, the first rank of that node
    world: int  # world size
    local_rank: int  # index among the ranks of this node
    local_world: int  # number of ranks on this node, as far as the environment tells
    node: int
    nodes: int
    address: str | None = None  # rendezvous address; None: the ranks meet in a file
    port: int | None = None  # rendezvous port
    file: str | None = None  # the file in which the ranks meet, if the environment names one
    is_node: bool = False  # a node, not a process: it has to start local_world ranks, numbered from `rank` on
    says: tuple[str, ...] = ()  # a line for each variable: its value and its meaning
    kind: str = ""  # the name of the launcher or platform

    def describe(self) -> str:
        """The place as one line, followed by a line for each variable."""
        node = f"node {self.node} of {self.nodes}"
        if self.is_node:
            last = self.rank + self.local_world - 1
            processes = "1 process" if self.local_world == 1 else f"{self.local_world} processes"
            block = f"rank {last}" if last == self.rank else f"ranks {self.rank} to {last}"
            position = f"{node}, with {processes}: {block} of {self.world}"
        else:
            local = f"local rank {self.local_rank} of {self.local_world}"
            position = f"rank {self.rank} of {self.world}, {local}, on {node}"
        if self.address is None:
            meeting = f"they meet in the file {self.file or 'that is passed to all of them'}"
        else:
            address = f"[{self.address}]" if ":" in self.address else self.address  # IPv6 has colons
            meeting = f"they meet at {address}:{self.port}"
        return "\n".join([f"{self.kind}: {position}; {meeting}", *(f"  {line}" for line in self.says)])


class Variables:
    """Reads a launcher's variables. An error names the variable, what is wrong with it, and who sets it."""

    def __init__(self, environ: Environ, setter: str) -> None:
        """`setter`: the sentence that says who sets these variables."""
        self.environ = environ
        self._setter = setter
        self._read: set[str] = set()  # variables

    def error(self, why: str) -> PlaceError:
        """A PlaceError that ends with who sets the variables."""
        return PlaceError(f"{why}: {self._setter}")

    def has(self, name: str) -> bool:
        """Whether a variable is set. Platforms leave unknown values empty, so an empty variable counts as not set."""
        return bool(self.environ.get(name))

    def text(self, name: str) -> str:
        """The value of a variable. Raises PlaceError if it is unset or empty."""
        self._read.add(name)
        if value := self.environ.get(name, "").strip():
            return value
        raise self.error(f"{name} is not set")

    def number(self, name: str, low: int = 0, high: int = MOST, unset: int | None = None) -> int:
        """A variable's value as an integer from low to high, both included; `unset` if the variable is not set. Raises
        PlaceError."""
        if unset is not None and not self.has(name):
            return unset
        value = self.text(name)
        # isdecimal alone would accept the digits of other scripts; Python refuses to convert thousands of digits
        if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20):
            raise self.error(f"{name}={value} is not a whole number")
        if not low <= int(value) <= high:
            raise self.error(f"{name}={value} is out of range ({low} to {high})")
        return int(value)

    def index(self, name: str, count: int, unset: int | None = None) -> int:
        """A variable's value as an integer from 0 to count - 1; otherwise like `number`. Raises PlaceError."""
        return self.number(name, 0, count - 1, unset)

    def meeting(self, prefix: str = "") -> tuple[str, int]:
        """The rendezvous address and port. Raises PlaceError."""
        return self.text(f"{prefix}MASTER_ADDR"), self.number(f"{prefix}MASTER_PORT", 1, LAST_PORT)

    def first_set(self, *names: str) -> str:
        """The name of the first of these variables that is set; if none is, the last one, to be named in an error."""
        return next((name for name in names if self.environ.get(name, "").strip()), names[-1])

    def meanings(self, meanings: Mapping[str, str]) -> tuple[str, ...]:
        """A line for each of these variables that was read: its value and its meaning."""
        read = [(name, means) for name, means in meanings.items() if name in self._read]
        return tuple(f"{name}={self.environ[name]}: {means}" for name, means in read)


# Torch's launchers read these variables or set them for ranks; torchrun reads the default of each option from PET_….
PREFIXES = ("PET_", "TORCHELASTIC_", "TORCH_ELASTIC_")
NAMES = (
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHON_EXEC", "TORCH_WORKER_SERVER_SOCKET",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE",
    "NODE_RANK", "NNODES", "INIT_METHOD",  # of workers/rank
)  # fmt: skip


def without_launchers(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of launchers. Those that a user sets for torch or its backends stay."""
    return {name: value for name, value in variables.items() if name not in NAMES and not name.startswith(PREFIXES)}
