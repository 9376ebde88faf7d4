"""Slow links: which a trial may have, what is typed to make them, and what is said where they cannot be made."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.parser import PresetError
from ddptui.config.preset import Links, links_of
from ddptui.config.trial import Trial, TrialError
from ddptui.config.values import describe_bottleneck, from_arguments, make_trial, to_arguments
from ddptui.engines import base as launch
from ddptui.engines import checks
from ddptui.engines.local import links
from ddptui.store.presets import load
from tests.support.builders import preset_of
from workers.rank.process import CLONE_NEWNET, enter_network

SLOW = {"at": "link", "ranks": [1], "mbit": 100}


def trial(*bottlenecks: dict[str, Any], **fields: Any) -> Trial:
    return make_trial({"name": "a", "bottleneck": bottlenecks, **fields})


@pytest.fixture
def untried() -> Any:
    """What was found out of this machine is forgotten before and after."""
    links._tried.cache_clear()
    yield
    links._tried.cache_clear()


# Which links a trial may have


def test_a_link_has_a_rate_and_comes_back_from_its_spelling() -> None:
    slow = trial(SLOW, {"at": "link", "ranks": [0], "mbit": 0.5}, {"at": "data", "ranks": [1], "sleep_ms": 2})
    assert from_arguments(to_arguments(slow)).bottleneck == slow.bottleneck
    assert describe_bottleneck(slow.bottleneck) == "link 100 Mbit/s on 1, link 0.5 Mbit/s on 0, data 2 ms on 1"
    assert links_of(slow) == Links(2, {1: 100.0, 0: 0.5})


@pytest.mark.parametrize(
    ("bottlenecks", "fields", "key", "why"),
    [
        ([{"at": "link", "ranks": [1]}], {}, "[0].mbit", "at = 'link' needs its rate"),
        ([SLOW | {"mbit": float("nan")}], {}, "[0].mbit", "expected a number above 0"),
        ([SLOW | {"sleep_ms": 1}], {}, "[0].sleep_ms", "has no effect with at = 'link'"),
        ([SLOW | {"to_step": 2}], {}, "[0].to_step", "has no effect with at = 'link'"),
        ([SLOW | {"jitter": "uniform"}], {}, "[0].jitter", "has no effect with at = 'link'"),
        ([SLOW | {"ranks": []}], {}, "[0].ranks", "lists no rank"),
        ([SLOW | {"ranks": [2]}], {}, "[0].ranks", "no rank 2"),
        ([SLOW, SLOW | {"ranks": [0, 1]}], {}, "[0].ranks", "limits the link of a rank twice"),
        ([SLOW | {"ranks": [0]}], {"launch": "single"}, "[0].at", "one process, which has no links"),
        ([SLOW], {"download": True, "dataset": "mnist"}, "[0].at", "cannot reach the internet"),
        ([SLOW], {"world_size": 251, "batch_size": 251}, "[0].at", "at most 250"),
        ([{"at": "data", "ranks": [1], "sleep_ms": 1, "mbit": 1}], {}, "[0].mbit", "is only for at = 'link'"),
        ([{"at": "data", "ranks": [1]}], {}, "[0].sleep_ms", "a delay needs its length"),
    ],
)
def test_what_cannot_be_is_refused(bottlenecks: list[Any], fields: dict[str, Any], key: str, why: str) -> None:
    with pytest.raises(TrialError) as refused:
        trial(*bottlenecks, **fields)
    assert refused.value.key == f"bottleneck{key}"
    assert why in refused.value.why


# What is typed


def test_the_command_goes_on_behind_what_makes_the_links() -> None:
    command = links.wrapped(["python", "-m", "workers.spawn"], links_of(trial(SLOW)))
    assert command == ["python", "-P", links.__file__, '{"world_size":2,"mbit":{"1":100.0}}', "python", "-m",
                       "workers.spawn"]  # fmt: skip
    late = trial({"at": "data", "ranks": [1], "sleep_ms": 2})
    assert (links_of(late), links.part(late)) == (None, None)
    assert links.wrapped(["python", "-m", "workers.spawn"], None) == ["python", "-m", "workers.spawn"]


def test_ranks_meet_where_the_launcher_is() -> None:
    part = links.part(trial(SLOW, world_size=3))
    assert (part.node, part.nodes, part.ranks) == (0, 1, range(3))
    told = links.environment(7, [4, 5, 6])
    assert told[links.LINKS] == "7 4 5 6"
    assert part.environment().items() <= told.items()
    assert (told["MASTER_ADDR"], told["GLOO_SOCKET_IFNAME"], told["NCCL_SOCKET_IFNAME"]) == (
        "10.77.0.254", "eth0", "=eth0",
    )  # fmt: skip
    assert {told[f"NCCL_{way}_DISABLE"] for way in ("P2P", "SHM", "IB")} == {"1"}  # all ranks are on one host
    command = launch.rank_command(trial(SLOW, launch="launch"), "python", part)
    assert {"--nnodes=1", "--node_rank=0", "--master_addr=10.77.0.254", "--master_port=29500"} <= set(command)


def test_the_preset_that_shows_them_is_of_the_cpu() -> None:
    """What it says of backward and cores is not so on GPUs."""
    assert {each.device for each in load("slow-link").trials} == {"cpu"}


def test_the_switch_has_a_port_a_rank_and_a_rank_an_address_a_window_and_knows_the_others() -> None:
    assert links.rank_commands(1, 3) == [
        "link set lo up",
        "link set eth0 addrgenmode none up",
        "addr add 10.77.0.2/24 dev eth0 noprefixroute",
        "route add 10.77.0.0/24 dev eth0 window 65536",
        "neigh add 10.77.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent",
        "neigh add 10.77.0.3 lladdr 02:00:00:00:00:03 dev eth0 nud permanent",
    ]
    assert "addr add 10.77.0.250/24 dev eth0 noprefixroute" in links.rank_commands(249, 250)
    assert links.switch_commands(["/proc/7/fd/4", "/proc/7/fd/5"]) == [
        "link set lo up",
        "link add switch type bridge",
        "addr add 10.77.0.254/24 dev switch",
        "link add rank0 type veth peer name eth0 address 02:00:00:00:00:01 netns /proc/7/fd/4",
        "link set rank0 master switch addrgenmode none up",
        "link add rank1 type veth peer name eth0 address 02:00:00:00:00:02 netns /proc/7/fd/5",
        "link set rank1 master switch addrgenmode none up",
        "link set switch addrgenmode none up",
    ]


@pytest.mark.parametrize(
    ("mbit", "rate", "burst"),
    [(100, 100_000_000, 32_768), (0.5, 500_000, 32_768), (1000, 1_000_000_000, 125_000), (1e-9, 8, 32_768)],
)
def test_the_limit_is_the_rate_and_what_may_go_at_once_grows_with_it(mbit: float, rate: int, burst: int) -> None:
    limit = burst + 16 * 2**20
    wanted = f"qdisc add dev eth0 root tbf rate {rate}bit burst {burst} limit {limit}"
    assert links.limit_command("eth0", mbit) == wanted


def test_a_rank_whose_network_is_no_network_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert CLONE_NEWNET == links.CLONE_NEWNET
    monkeypatch.delenv(links.LINKS, raising=False)
    enter_network(0)  # without links it stays where it is
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setenv(links.LINKS, f"self {file.fileno()}")
        with pytest.raises(OSError, match="rank 0 cannot enter its network"):
            enter_network(0)


# Where they cannot be made


def refusal() -> str:
    with pytest.raises(PresetError) as refused:
        checks.prepare(preset_of({"trial": [{"name": "a", "bottleneck": [SLOW]}]}))
    return str(refused.value)


def test_without_iproute2_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(links, "TOOL_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal().endswith("trial a: bottleneck: a slow link needs `ip` and `tc`: `apt install iproute2`")
    (tmp_path / "ip").touch(mode=0o755)
    assert links.problem() == "a slow link needs `tc`: `apt install iproute2`"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert links.problem() == f"a slow link needs {links.RIGHTS}"


def test_what_the_attempt_says_is_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, untried: None) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for tool in ("ip", "tc"):
        (tmp_path / tool).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    failed = subprocess.CompletedProcess([], 1, "", f"a slow link needs {links.RIGHTS}\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    assert refusal().endswith(f"trial a: bottleneck: a slow link needs {links.RIGHTS}")


def test_of_a_kernel_without_what_it_takes_the_tool_tells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tc").write_text(
        "#!/bin/sh\ncat > /dev/null\necho 'Error: Specified qdisc kind is unknown.' >&2\nexit 1\n"
    )
    (tmp_path / "tc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(SystemExit) as ended:
        links._run("tc", [links.limit_command("eth0", 1)])
    said = str(ended.value)
    assert said.startswith("a slow link cannot be made here (tc: Error: Specified qdisc kind is unknown.)")
    assert "modprobe -a veth bridge sch_tbf" in said


def test_without_rights_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "CLONE_NEWNET", -1)  # which the kernel refuses to anybody, as it refuses others
    with pytest.raises(SystemExit, match="a slow link needs root on Linux"):
        links._new_network()
