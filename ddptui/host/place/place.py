"""A process's place among the ranks of a run, in words, too; and how an environment's variables are read for it."""

from collections.abc import Mapping

import msgspec

Environ = Mapping[str, str]
MOST = 2**20  # ranks or nodes: far more than any cluster has
LARGEST_ID = 2**32  # of a job
LAST_PORT = 65535
LONGEST_QUOTE = 60


class PlaceError(ValueError):
    """An environment that says no place. One line: the variable, what is wrong with it, and who sets it."""


class Place(msgspec.Struct, frozen=True):
    """What an environment says. Everything is counted from 0."""

    rank: int  # of this process; where the environment describes a node, the first rank of this node
    world: int
    local_rank: int  # among the ranks of this node
    local_world: int  # number of ranks on this node, as far as the environment says
    node: int
    nodes: int
    address: str | None = None  # where the ranks meet, with port; None: in a file
    port: int | None = None
    file: str | None = None  # the file that they meet in, where the environment names one
    is_node: bool = False  # a node, not a process: its reader has to start local_world ranks, from `rank` on
    says: tuple[str, ...] = ()  # a line for each variable: its value and its meaning
    kind: str = ""  # the name of the environment

    def describe(self) -> str:
        """One line that says the place, and a line for each variable."""
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
            meeting = f"they meet in the file {escaped(self.file or 'that all of them are given')}"
        else:
            address = escaped(self.address)
            meeting = f"they meet at {f'[{address}]' if ':' in address else address}:{self.port}"  # IPv6 has colons
        return "\n".join([f"{self.kind}: {position}; {meeting}", *(f"  {line}" for line in self.says)])


class Variables:
    """Reads an environment's variables. An error names the variable, what is wrong with it, and its setter."""

    def __init__(self, environ: Environ, setter: str) -> None:
        """`setter`: the sentence that says who sets these variables."""
        self.environ = environ
        self._setter = setter
        self._read: set[str] = set()  # variables

    def error(self, why: str) -> PlaceError:
        """An error that ends with who sets the variables."""
        return PlaceError(f"{why}: {self._setter}")

    def has(self, name: str) -> bool:
        """Whether a variable is set. Platforms leave unknown values empty, so an empty one is not set."""
        return bool(self.environ.get(name))

    def text(self, name: str) -> str:
        """The value of a variable. Raises PlaceError if it is unset, or empty."""
        self._read.add(name)
        if value := self.environ.get(name, "").strip():
            return value
        raise self.error(f"{name} is not set")

    def number(self, name: str, low: int = 0, high: int = MOST, unset: int | None = None) -> int:
        """A whole number from low to high, both included; `unset` for a variable that is not set. Raises PlaceError."""
        if unset is not None and not self.has(name):
            return unset
        value = self.text(name)
        # isdecimal alone would accept the digits of other scripts; Python refuses to convert thousands of digits
        if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < 20):
            raise self.error(f"{name}={quoted(value)} is no whole number")
        if not low <= int(value) <= high:
            raise self.error(f"{name}={value} is out of range ({low} to {high})")
        return int(value)

    def index(self, name: str, count: int, unset: int | None = None) -> int:
        """A whole number from 0 to count - 1, as `number`. Raises PlaceError."""
        return self.number(name, 0, count - 1, unset)

    def meeting(self, prefix: str = "") -> tuple[str, int]:
        """The address and port where the ranks meet. Raises PlaceError."""
        return self.text(f"{prefix}MASTER_ADDR"), self.number(f"{prefix}MASTER_PORT", 1, LAST_PORT)

    def first_set(self, *names: str) -> str:
        """The name of the first of these variables that is set; the last name if none is, for the error to name."""
        return next((name for name in names if self.environ.get(name, "").strip()), names[-1])

    def meanings(self, meanings: Mapping[str, str]) -> tuple[str, ...]:
        """A line for each of these variables that was read: its value and its meaning."""
        read = [(name, means) for name, means in meanings.items() if name in self._read]
        return tuple(f"{name}={quoted(self.environ[name])}: {means}" for name, means in read)


def escaped(value: str) -> str:
    """The value in printable ASCII, so that it cannot move a terminal's cursor."""
    return value.encode("unicode_escape").decode()


def quoted(value: str) -> str:
    """The beginning of a value, in printable ASCII."""
    return escaped(value)[:LONGEST_QUOTE]
