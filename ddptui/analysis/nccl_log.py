"""What NCCL's own log says of a launch: channels, transports, and the algorithms that it chose. Pure.

With NCCL_DEBUG=INFO, NCCL writes how ranks are connected. It writes the choice for each call with
NCCL_DEBUG_SUBSYS=INIT,TUNING, on rank 0 alone. These lines are read; the formats are those of its sources 2.18 to 2.30:

    init.cc        24 coll channels, 24 collnet channels, …      until 2.19 without "collnet channels"
    p2p.cc         Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read   or direct pointer, IPC, MNNVL, indirect/2[2]
    shm.cc         Channel 00 : 0[0] -> 1[1] via SHM/direct/direct  from 2.30.7 on SHM/direct; CE: copy engine
    net.cc         Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(3)/GDRDMA(PCI)/Shared
    coll_net.cc    CollNet 00/0 : 0 [send] via COLLNET/SHARP/0
    enqueue.cc     8388608 Bytes -> Algo 1 proto 2 time 123.4       from 2.20 on; from 2.23 on after "AllReduce: "
                   AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}  from 2.24 on
                   AllGather [Symmetric]: 4096 Bytes -> Kernel …    from 2.27 on; later in symmetric_sched.cc
                   AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpy…   from 2.29 on; later in ce_coll.cc

A log may hold any text, so no word of it is kept: each finding is one of the words in this file.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ddptui.wire.records import NcclLog

MARK = "NCCL INFO "  # after the host, process, thread and GPU, which are of no interest
LONGEST_LINE = 300  # characters after the mark
MOST_KINDS = 16  # of transports, or of algorithms
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")  # by their numbers
PROTOCOLS = ("LL", "LL128", "SIMPLE")  # likewise
SCHEDULERS = {"Symmetric": "SYMMETRIC", "Copy Engine": "COPY_ENGINE", "Hierarchical CE": "COPY_ENGINE"}
# NCCL's own networks, IB and Socket, and plugins that are widespread; another plugin may call itself anything.
NETWORK = re.compile(r"(?:AWS )?(IBext|IB|Socket|Libfabric)(?:_v\d{1,2})?")
PLUGIN = "plugin"

CHANNELS = re.compile(r"(\d{1,4}) coll channels, ")
PAIR = r"Channel \d{2,4}(?:/\d{1,3})? : \d{1,7}\[[0-9a-f]{1,8}\] -> \d{1,7}\[[0-9a-f]{1,8}\]"
P2P = re.compile(PAIR + r" via P2P/(direct pointer|CUMEM|MNNVL|IPC|indirect)")
SHM = re.compile(PAIR + r" via SHM/(direct|CE)(?:/(direct|CE))?$")
NET = re.compile(PAIR + r" \[(?:send|receive)\] via NET/([^/]{1,40})/\d{1,4}(?:\(\d{1,7}\))?(/GDRDMA)?")
COLLNET = re.compile(r"CollNet \d{2,4}/\d{1,3} : \d{1,7} \[(?:send|receive)\] via COLLNET/")
CHOICE = re.compile(r"(?:[A-Za-z]{2,20}: )?\d{1,20} Bytes -> Algo (\w{1,20}) proto (\w{1,10})\b")
SCHEDULED = re.compile(r"[A-Za-z]{2,20} \[([A-Za-z ]{2,20})\]: \d{1,20} Bytes -> ")


class Findings(NamedTuple):
    """What lines of a log say: the most channels of a communicator, and how often each transport and choice occurs."""

    channels: int | None
    transports: Counter[str]
    algorithms: Counter[str]


def read(lines: Iterable[str]) -> Findings:
    """The findings of these lines, which may be of several ranks. Lines that are not NCCL's are ignored."""
    channels: list[int] = []
    transports, algorithms = Counter[str](), Counter[str]()
    for line in lines:
        _, mark, rest = line.partition(MARK)
        if not mark:
            continue
        words = rest[:LONGEST_LINE].rstrip()
        if found := CHANNELS.match(words):
            channels.append(int(found[1]))
        elif way := _transport(words):
            transports[way] += 1
        elif choice := _choice(words):
            algorithms[choice] += 1
    return Findings(max(channels, default=None), transports, algorithms)


def nccl_log(lines: Iterable[str], at_ns: int) -> NcclLog | None:
    """The findings as a record of this moment, the most frequent first; None: the lines say nothing of NCCL."""
    found = read(lines)
    if found.channels is None and not found.transports and not found.algorithms:
        return None
    transports, algorithms = (
        tuple(word for word, _ in words.most_common(MOST_KINDS)) for words in (found.transports, found.algorithms)
    )
    return NcclLog(at_ns=at_ns, channels=found.channels, transports=transports, algorithms=algorithms)


def _transport(words: str) -> str:
    """How two ranks are connected, as in NET/IB/GDRDMA; empty if the line does not say."""
    if found := P2P.match(words):
        return f"P2P/{found[1]}"
    if found := SHM.match(words):
        return "/".join(["SHM", *filter(None, found.groups())])
    if found := NET.match(words):
        known = NETWORK.fullmatch(found[1])
        return f"NET/{known[1] if known else PLUGIN}{found[2] or ''}"
    return "COLLNET" if COLLNET.match(words) else ""


def _choice(words: str) -> str:
    """The algorithm and protocol of one call, as in RING/SIMPLE; empty if the line does not say."""
    if found := CHOICE.match(words):
        algorithm, protocol = _named(found[1], ALGORITHMS), _named(found[2], PROTOCOLS)
        return f"{algorithm}/{protocol}" if algorithm and protocol else ""
    found = SCHEDULED.match(words)
    return SCHEDULERS.get(found[1], "") if found else ""


def _named(word: str, names: tuple[str, ...]) -> str:
    """The name, which newer versions write, and older ones as a number; empty if it is not known."""
    if word in names:
        return word
    return names[int(word)] if word.isascii() and word.isdecimal() and int(word) < len(names) else ""
