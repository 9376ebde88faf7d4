"""What NCCL's log says: excerpts as users have posted them (the number of the issue is at each), shortened; hosts and
process numbers are others. And lines as its sources write them, of which no log was at hand."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.analysis.nccl_log import (
    ALGORITHMS,
    LONGEST_LINE,
    MOST_KINDS,
    PROTOCOLS,
    SCHEDULERS,
    nccl_log,
    read,
)
from ddptui.analysis.nccl_use import NcclUse, with_log
from ddptui.analysis.repeat import outcome_of_messages
from ddptui.store.journal import LOG_HEAD, MOST_LOGS, RepeatJournal
from ddptui.wire.messages import Nccl, Ready
from ddptui.wire.records import NcclLog
from tests.support.builders import journal

TWO_HOSTS = """\
[0] a:11:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
[1] b:22:22 [0] NCCL INFO Channel 00/0 : 2[1] -> 1[0] [receive] via NET/Socket/0
[2] a:12:12 [1] NCCL INFO Connected all rings
[2] a:12:12 [1] NCCL INFO Channel 00 : 2[1] -> 0[0] via SHM/direct/direct
[3] b:23:23 [1] NCCL INFO threadThresholds 8/8/64 | 32/8/64 | 512 | 512
[3] b:23:23 [1] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
"""  # NVIDIA/nccl 690
ACROSS_IB = """\
a:11:12 [0] NCCL INFO Channel 07/0 : 0[0] -> 2[0] [receive] via NET/IB/3/GDRDMA
a:12:13 [1] NCCL INFO Channel 01/0 : 3[1] -> 1[1] [send] via NET/IB/2/GDRDMA
a:12:13 [1] NCCL INFO Channel 00/0 : 3[1] -> 2[0] via P2P/CUMEM
a:12:13 [1] NCCL INFO 8 coll channels, 0 collnet channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
"""  # NVIDIA/nccl 1189
PLUGIN_OF_A_VENDOR = """\
a:11:12 [0] NCCL INFO Channel 01/0 : 5[1] -> 6[0] [receive] via NET/IBext_v8/1/GDRDMA
a:12:13 [1] NCCL INFO Channel 00/0 : 3[1] -> 4[0] [send] via NET/IBext_v8/5(2)/GDRDMA
a:11:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
"""  # NVIDIA/nccl-tests 311
BUS_NUMBERS = """\
0967:62:66 [4] NCCL INFO Channel 15/0 : 4[901c0] -> 3[201d0] via P2P/IPC/read
0967:62:66 [2] NCCL INFO Channel 18/0 : 2[201c0] -> 1[101d0] via P2P/IPC/read
"""  # NVIDIA/Megatron-LM 516
ONE_PROCESS = "hw:798:813 [3] NCCL INFO Channel 02/0 : 3[3] -> 4[4] via P2P/direct pointer\n"  # nccl-tests 213
NUMBERED = """\
[0] h:48:48 [0] NCCL INFO 16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per \
peer
[0]     64.18    0.00    0.00      0[0] h:48:48 [0] NCCL INFO 8 Bytes -> Algo 0 proto 0 time 25.200924
[0] h:48:48 [0] NCCL INFO 262144 Bytes -> Algo 0 proto 1 time 54.707825
[0] h:48:48 [0] NCCL INFO 8589934592 Bytes -> Algo 1 proto 2 time 86069.968750
[0] h:48:48 [0] NCCL INFO 8589934592 Bytes -> Algo 1 proto 2 time 86069.968750
"""  # NVIDIA/nccl 1453
BY_SOURCE = """\
[2026-11-26 20:00:00] h:1:2 [0] NCCL INFO AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}
h:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}
h:1:2 [0] NCCL INFO AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}
h:1:2 [0] NCCL INFO AllGather: 1024 Bytes -> Algo 6 proto 2 time 12.5
h:1:2 [0] NCCL INFO AllGather [Symmetric]: 4096 Bytes -> Kernel AllGather_ST nchannels 8 nthreads 512 nWorks 1
h:1:2 [0] NCCL INFO AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpyBatchAsync
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]/read
h:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct
h:1:2 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/CE/direct
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0(3)/GDRDMA(PCI)/Shared
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 9[1] [send] via NET/AWS Libfabric/0/GDRDMA
h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 9[1] [send] via NET/rm -rf ~/0
h:1:2 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA
"""
RARE = ["P2P/MNNVL", "P2P/indirect", "SHM/direct", "SHM/CE/direct", "NET/IB/GDRDMA", "NET/Libfabric/GDRDMA"]
RARE += ["NET/plugin", "COLLNET"]
WORDS = {
    *(f"{algorithm}/{protocol}" for algorithm, protocol in product(ALGORITHMS, PROTOCOLS)),
    *SCHEDULERS.values(),
    *(f"P2P/{way}" for way in ("direct pointer", "CUMEM", "MNNVL", "IPC", "indirect")),
    *("SHM/direct", "SHM/CE", "SHM/direct/direct", "SHM/CE/direct", "SHM/direct/CE", "SHM/CE/CE", "COLLNET"),
    *(f"NET/{name}{way}" for name in ("IB", "IBext", "Socket", "Libfabric", "plugin") for way in ("", "/GDRDMA")),
}


@pytest.mark.parametrize(
    ("log", "channels", "transports", "algorithms"),
    [
        (TWO_HOSTS, 2, {"NET/Socket": 2, "SHM/direct/direct": 1}, {}),
        (ACROSS_IB, 8, {"NET/IB/GDRDMA": 2, "P2P/CUMEM": 1}, {}),
        (PLUGIN_OF_A_VENDOR, None, {"NET/IBext/GDRDMA": 2, "P2P/CUMEM": 1}, {}),
        (BUS_NUMBERS, None, {"P2P/IPC": 2}, {}),
        (ONE_PROCESS, None, {"P2P/direct pointer": 1}, {}),
        (NUMBERED, 16, {}, {"RING/SIMPLE": 2, "TREE/LL": 1, "TREE/LL128": 1}),
        (
            BY_SOURCE,
            None,
            dict.fromkeys(RARE, 1),
            {"RING/SIMPLE": 2, "NVLS_TREE/SIMPLE": 1, "PAT/SIMPLE": 1, "SYMMETRIC": 1, "COPY_ENGINE": 1},
        ),
    ],
    ids=["sockets", "ib", "plugin", "bus numbers", "one process", "numbers", "sources"],
)
def test_a_log_says(log: str, channels: int | None, transports: dict[str, int], algorithms: dict[str, int]) -> None:
    assert read(log.splitlines()) == (channels, Counter(transports), Counter(algorithms))


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3  loss 2.3  24 coll channels, 24 collnet channels",
        "h:1:2 [0] NCCL INFO Channel 00/24 : 0 1 2 3",
        "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/teleport",
        "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [lost] via NET/IB/0",
        "h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo Unknown proto Unknown channel{Lo..Hi}={0..0}",
        "h:1:2 [0] NCCL INFO 8 Bytes -> Algo 7 proto 2 time 1.0",
        "h:1:2 [0] NCCL INFO 8 Bytes -> Algo 1 proto ² time 1.0",
        "h:1:2 [0] NCCL INFO AllReduce [Wizardry]: 8 Bytes -> Kernel x",
        "h:1:2 [0] NCCL INFO 99999 coll channels, 0 nvls channels",
        "h:1:2 [0] NCCL INFO " + LONGEST_LINE * "x" + "24 coll channels, 0 nvls channels",
        "h:1:2 [0] NCCL INFO ",
    ],
)
def test_what_no_version_writes_is_ignored(line: str) -> None:
    assert read([line]) == (None, Counter(), Counter())
    assert nccl_log([line], 7) is None


junk = st.text(max_size=60)
CONNECTED = ["Channel 00/0 : 0[0] -> 1[1] ", "via P2P/", "via NET/", "[send] ", "CUMEM", "IB/0", "/GDRDMA"]
CHOSEN = ["8 Bytes -> Algo ", "RING", "1", " proto ", "SIMPLE", "2", "AllReduce", " [Symmetric]: "]
pieces = st.sampled_from(["NCCL INFO ", "24 coll channels, ", *CONNECTED, *CHOSEN])


@given(st.lists(st.lists(st.one_of(pieces, junk), max_size=8).map("".join), max_size=20))
def test_no_word_of_a_log_gets_through(lines: list[str]) -> None:
    found = read(lines)
    assert {*found.transports, *found.algorithms} <= WORDS
    assert found.channels is None or 0 <= found.channels < 10_000


def test_a_record_has_the_most_frequent_first_and_not_too_many() -> None:
    choices = [f"{algorithm} proto {protocol}" for algorithm, protocol in product(ALGORITHMS, PROTOCOLS)]
    lines = [f"NCCL INFO AllReduce: 8 Bytes -> Algo {choice} channel" for choice in [*choices, choices[4]]]
    record = nccl_log(lines, 7)
    assert record is not None
    assert record.at_ns == 7
    assert record.algorithms[0] == "RING/LL128"
    assert len(record.algorithms) == MOST_KINDS
    assert msgspec.json.decode(msgspec.json.encode(record), type=NcclLog) == record


USE = NcclUse(version="2.28.9", implementation="ProcessGroupNCCL")
SAID = NcclLog(at_ns=7, channels=24, transports=("P2P/CUMEM",), algorithms=("RING/SIMPLE", "TREE/LL"))


def test_what_ranks_told_is_completed_by_the_log() -> None:
    whole = with_log(USE, SAID)
    assert whole == msgspec.structs.replace(
        USE, channels=24, transports=["P2P/CUMEM"], algorithms=["RING/SIMPLE", "TREE/LL"]
    )
    assert with_log(USE, None) == USE
    assert with_log(None, SAID) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2" * 10_000},
        {"implementation": "P" * 65},
        {"implementation": "\x1b[2J"},
        {"channels": -1},
        {"transports": ["P" * 65]},
        {"transports": ["SHM"] * 17},
        {"algorithms": ["R" * 10_000]},
        {"algorithms": ["RING/LL"] * 17},
    ],
)
def test_what_a_file_says_of_nccl_has_bounds(changes: dict[str, object]) -> None:
    told = msgspec.to_builtins(with_log(USE, SAID))
    assert msgspec.convert(told, NcclUse) == with_log(USE, SAID)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(told | changes, NcclUse)


def test_results_made_from_a_journal_have_both() -> None:
    told = Nccl(version=USE.version, implementation=USE.implementation)
    messages = [msgspec.structs.replace(each, nccl=told) if isinstance(each, Ready) else each for each in journal()]
    for said in ([], [SAID]):
        found = outcome_of_messages([*messages[:-1], *said, messages[-1]])
        assert found is not None
        assert found.result is not None
        assert found.result.nccl == with_log(USE, SAID if said else None)


@pytest.fixture
def repeat(tmp_path: Path) -> Iterator[RepeatJournal]:
    with (tmp_path / "messages.jsonl").open("wb") as journal:
        yield RepeatJournal(tmp_path, 1, journal)


def test_the_logs_of_a_repeat_are_read_from_their_beginning(repeat: RepeatJournal) -> None:
    long = b"\xff\xfe" + LOG_HEAD * b"x" + b"\n"
    (repeat.folder / "rank-0.log").write_bytes(ACROSS_IB.encode() + long + NUMBERED.encode())
    (repeat.folder / "rank-1.log").write_text(ONE_PROCESS)
    [record] = repeat.nccl_log(["launcher.log", "rank-0.log", "rank-1.log"], 7)
    assert (record.channels, record.algorithms) == (8, ())
    assert record.transports == ("NET/IB/GDRDMA", "P2P/CUMEM", "P2P/direct pointer")
    assert [*repeat.nccl_log(["launcher.log"], 7)] == []


def test_of_many_ranks_only_some_logs_are_read(repeat: RepeatJournal) -> None:
    names = [f"rank-{rank}.log" for rank in range(MOST_LOGS + 1)]
    (repeat.folder / names[-1]).write_text(ONE_PROCESS)
    assert [*repeat.nccl_log(names, 7)] == []
    assert [*repeat.nccl_log(names[1:], 7)] != []


@pytest.mark.parametrize(("before", "is_read"), [(LOG_HEAD - len(ONE_PROCESS) - 1, True), (LOG_HEAD, False)])
def test_a_log_is_read_up_to_its_bound(before: int, is_read: bool, repeat: RepeatJournal) -> None:
    assert LOG_HEAD == 512 * 1024
    (repeat.folder / "rank-0.log").write_text("x" * before + "\n" + ONE_PROCESS)
    assert bool([*repeat.nccl_log(["rank-0.log"], 7)]) == is_read
