"""What an environment says of a place: the same names mean a process here and a node there."""

import subprocess
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.host.platforms import LAUNCHERS, counts, explanation, first_node, kinds_here, place_here
from ddptui.host.rank_place import PlaceError, RankPlace

ENV = {"RANK": "5", "WORLD_SIZE": "8", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "15001"}
FILE = {"RANK": "1", "WORLD_SIZE": "3", "INIT_METHOD": "file:///shared/meet"}
TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_NODEID": "1",
    "SLURM_NTASKS": "3", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "gpu[08-09]",
    "SLURM_TASKS_PER_NODE": "2,1", "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9",
}  # fmt: skip
ARRAY = {
    "SLURM_JOB_ID": "18", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1",
    "SLURM_ARRAY_TASK_MAX": "3", "SLURM_PROCID": "0", "SLURM_NTASKS": "1",
}  # fmt: skip
TRAINJOB = {
    "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "4", "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29400",
}  # fmt: skip
PYTORCHJOB = {
    "RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PET_NNODES": "2",
    "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "4",
}  # fmt: skip
DLC = {
    "RANK": "1", "WORLD_SIZE": "2", "NPROC_PER_NODE": "4", "MASTER_ADDR": "dlc1-master-0", "MASTER_PORT": "23456",
}  # fmt: skip
FULL = {
    "env": ENV, "file": FILE, "torchrun": TORCHRUN, "slurm": SLURM, "slurm_array": ARRAY, "trainjob": TRAINJOB,
    "pytorchjob": PYTORCHJOB, "dlc": DLC,
}  # fmt: skip


def seen(environ: dict[str, str], name: str | None = None) -> RankPlace:
    place = place_here(environ, name)
    assert place is not None
    return place


def numbers(place: RankPlace) -> tuple[int, ...]:
    return (place.rank, place.world, place.local_rank, place.local_world, place.node, place.nodes)


MEETS = {
    "env": ((5, 8, 0, 1, 5, 8), "10.0.0.1", 15001),
    "file": ((1, 3, 0, 1, 1, 3), None, None),
    "torchrun": ((5, 8, 1, 4, 1, 2), "n1", 29500),
    "slurm": ((2, 3, 0, 1, 1, 2), "gpu08", 15017),
    "slurm_array": ((2, 3, 0, 1, 2, 3), None, None),
    "trainjob": ((4, 8, 0, 4, 1, 2), "job-node-0-0.job", 29400),
    "pytorchjob": ((4, 8, 0, 4, 1, 2), "job-master-0", 23456),
    "dlc": ((4, 8, 0, 4, 1, 2), "dlc1-master-0", 23456),
}


@pytest.mark.parametrize("kind", LAUNCHERS)
def test_a_full_environment_is_detected_and_read(kind: str) -> None:
    place = seen(FULL[kind])
    assert (place.kind, numbers(place), place.address, place.port) == (kind, *MEETS[kind])
    assert place.file == ("/shared/meet" if kind == "file" else None)
    assert place == seen(FULL[kind], kind)
    assert place.says
    assert place.is_node == (kind in ("trainjob", "pytorchjob", "dlc", "slurm_array"))


SAME = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}  # a process's or a node's
OLD_PODS = SAME | {"PET_NPROC_PER_NODE": "4", "PET_NNODES": "2"}
STEP = SLURM | {  # srun -N1 -n2 in a job of four nodes
    "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "gpu09",
    "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0", "SLURM_PROCID": "1", "SLURM_LOCALID": "1",
    "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_NODELIST": "gpu[08-11]", "SLURM_TASKS_PER_NODE": "8(x4)",
}  # fmt: skip
NO_SRUN = SLURM | {
    "SLURM_NTASKS": "1", "SLURM_STEP_ID": "", "SLURM_TASKS_PER_NODE": "1", "SLURM_JOB_NUM_NODES": "1",
    "SLURM_PROCID": "0", "SLURM_NODEID": "0",
}  # fmt: skip
BY_TORCHRUN = PYTORCHJOB | {"PET_NPROC_PER_NODE": "auto"}


@pytest.mark.parametrize(
    ("environ", "kind", "expected"),
    [
        (SAME, None, (1, 2, 0, 1, 1, 2)),
        (SAME | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, None, (1, 2, 1, 2, 0, 1)),
        (SAME | {"NPROC_PER_NODE": "4"}, None, (4, 8, 0, 4, 1, 2)),
        (OLD_PODS, None, (4, 8, 0, 4, 1, 2)),
        (SAME, "pytorchjob", (1, 2, 0, 1, 1, 2)),
        (ENV | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, None, (5, 8, 1, 4, 1, 2)),
        (ENV | {"LOCAL_WORLD_SIZE": "4"}, None, (5, 8, 1, 4, 1, 2)),
        (ENV | {"NNODES": "2"}, None, (5, 8, 1, 4, 1, 2)),
        (ENV | {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "3", "NODE_RANK": "1", "NNODES": "3"}, None, (5, 8, 2, 3, 1, 3)),
        (ENV | {"LOCAL_WORLD_SIZE": "3"}, None, (5, 8, 2, 3, 1, 3)),
        (STEP, None, (1, 2, 1, 2, 0, 1)),
        (NO_SRUN, None, (0, 1, 0, 1, 0, 1)),
        *((DLC | {"NPROC_PER_NODE": gpus}, "dlc", (1, 2, 0, 1, 1, 2)) for gpus in ("0", "")),  # without GPUs
        *((BY_TORCHRUN | {"WORLD_SIZE": str(2 * each)}, None, (each, 2 * each, 0, each, 1, 2)) for each in (1, 4)),
    ],
)
def test_the_same_rank_and_world_mean_a_process_or_a_node_and_there_are_as_many_as_was_said(
    environ: dict[str, str], kind: str | None, expected: tuple[int, ...]
) -> None:
    place = seen(environ, kind)
    assert numbers(place) == expected
    assert any("a node of its own" in line for line in place.says) == (environ == SAME and kind is None)


def test_of_a_step_and_a_job_the_address_and_the_port_are_known() -> None:
    assert seen(STEP).address == "gpu09"
    assert "one process per node" in seen(DLC | {"NPROC_PER_NODE": "0"}, "dlc").says[-1]
    for job in (0, 1, 14_999, 15_000, 2**31):
        port = seen(SLURM | {"SLURM_JOB_ID": str(job)}).port
        assert port is not None
        assert 15_000 <= port < 32_768  # below those that systems hand out


OPTIONAL = ("NPROC_PER_NODE", "PET_NPROC_PER_NODE", "PET_NNODES")


@pytest.mark.parametrize("kind", list(FULL))
def test_whatever_is_missing_is_named_with_who_sets_it(kind: str) -> None:
    """Each variable of each kind, taken away, is missed by name or made no difference to the numbers."""
    whole, missed = numbers(seen(FULL[kind])), []
    for name in FULL[kind]:
        less = {key: value for key, value in FULL[kind].items() if key != name}
        try:
            assert numbers(seen(less, kind)) == whole or name in OPTIONAL
        except PlaceError as missing:
            missed.append(str(missing))
            assert missed[-1].startswith(f"{name} is not set: ")
    assert all(" sets it" in missing or "srun" in missing for missing in missed)
    assert len(missed) >= 3


@pytest.mark.parametrize(
    ("kind", "changes", "why"),
    [
        ("env", {"RANK": "8"}, r"^RANK=8 is out of range \(0 to 7\): the script that starts"),
        ("env", {"RANK": "one"}, r"^RANK=one is not a whole number"),
        ("env", {"RANK": "٣"}, r"^RANK=\\u0663 is not a whole number"),
        ("env", {"RANK": "1\x1b[2J"}, r"^RANK=1\\x1b\[2J is not a whole number"),
        ("env", {"RANK": "9" * 5000}, r"^RANK=9{60} is not a whole number"),
        ("env", {"RANK": " "}, r"^RANK is not set"),
        ("env", {"WORLD_SIZE": "0"}, r"^WORLD_SIZE=0 is out of range"),
        ("file", {"INIT_METHOD": "tcp://x:1"}, r"^INIT_METHOD=tcp://x:1 names no shared file: set file:///"),
        ("torchrun", {"LOCAL_RANK": "4"}, r"^LOCAL_RANK=4 is out of range \(0 to 3\): torchrun sets it"),
        ("slurm", {"SLURM_PROCID": "3"}, r"^SLURM_PROCID=3 is out of range \(0 to 2\): srun sets it"),
        ("slurm", {"SLURM_TASKS_PER_NODE": "3"}, r"^SLURM_TASKS_PER_NODE=3 lists no tasks for node 1"),
        ("slurm", {"SLURM_JOB_NODELIST": "gpu[08"}, r"^'gpu\[08' is not a list of nodes"),
        ("slurm", {"SLURM_STEP_ID": ""}, r"^SLURM_STEP_ID is not set: this is the batch script; .* srun"),
        ("slurm_array", {"SLURM_ARRAY_TASK_ID": "4"}, r"^SLURM_ARRAY_TASK_ID=4 is out of range \(1 to 3\): Slurm sets"),
        ("slurm_array", {"SLURM_ARRAY_TASK_MAX": "9"}, r"^the job array has gaps: 3 .* from 1 to 9; use --array=0-N"),
        ("trainjob", {"PET_NPROC_PER_NODE": "auto"}, r"^PET_NPROC_PER_NODE=auto is not a number: .*numProcPerNode"),
        ("trainjob", {"PET_NNODES": "1:4"}, r"^PET_NNODES=1:4 is not a whole number"),
        ("pytorchjob", {"RANK": "2"}, r"^RANK=2 is out of range \(0 to 1\)"),
        ("pytorchjob", {"WORLD_SIZE": "6"}, r"^WORLD_SIZE=6 is neither 2 pods nor 2 × 4 processes"),
        ("env", {"LOCAL_RANK": "1"}, "LOCAL_WORLD_SIZE is not set, but LOCAL_RANK is"),
        ("env", {"NNODES": "3"}, "LOCAL_WORLD_SIZE is not set, and 8 ranks do not divide evenly by NNODES=3"),
        ("env", {"LOCAL_WORLD_SIZE": "1", "NNODES": "2"}, "rank 5, with 1 per node, is beyond the last of NNODES=2"),
        ("env", {"LOCAL_WORLD_SIZE": "4", "LOCAL_RANK": "4"}, "LOCAL_RANK=4 is out of range"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_variable(kind: str, changes: dict[str, str], why: str) -> None:
    with pytest.raises(PlaceError, match=why) as raised:
        place_here(FULL[kind] | changes, kind)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("inner", "outer", "kind"),
    [
        (TORCHRUN, SLURM, "torchrun"),
        (TORCHRUN, DLC, "torchrun"),
        (TORCHRUN, ARRAY, "torchrun"),
        (ENV, SLURM, "env"),
        (FILE, ARRAY, "file"),
        (ENV | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, DLC, "env"),
        (SLURM, {"MASTER_ADDR": "n1", "MASTER_PORT": "1"}, "slurm"),
        (ARRAY, {"INIT_METHOD": "file:///shared/meet"}, "slurm_array"),
        (SLURM, {"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "2"}, "slurm"),
        (DLC | {"DLC_JOB_ID": "dlc1"}, {}, "dlc"),
        ({**{key: DLC[key] for key in ENV}, "DLC_JOB_ID": "dlc1"}, {}, "dlc"),
    ],
)
def test_the_innermost_wins(inner: dict[str, str], outer: dict[str, str], kind: str) -> None:
    place = seen(outer | inner)
    assert place.kind == kind
    assert msgspec.structs.replace(place, says=()) == msgspec.structs.replace(seen(inner, kind), says=())


def test_nothing_is_nothing() -> None:
    assert place_here({}) is None
    assert kinds_here({"PATH": "/bin", "RANK": "", "WORLD_SIZE": "2", "SLURM_PROCID": ""}) == []


def test_an_unknown_kind_is_answered_with_the_nearest() -> None:
    with pytest.raises(PlaceError, match=r"^'trainjobs' is not a known environment: did you mean 'trainjob'\?$"):
        place_here(ENV, "trainjobs")
    with pytest.raises(PlaceError, match=r"^'\\x1b' is not a known environment: there are torchrun, dlc"):
        place_here(ENV, "\x1b")


# In words: `ddptui place`


def test_a_node_and_a_process_are_said_to_be_one_and_a_file_is_named_where_it_is_known() -> None:
    assert explanation(DLC).splitlines() == [
        "dlc: node 1 of 2, with 4 processes: ranks 4 to 7 of 8; they meet at dlc1-master-0:23456",
        "  RANK=1: index of the node, not of the process",
        "  WORLD_SIZE=2: number of nodes, not of processes",
        "  NPROC_PER_NODE=4: processes per node (one per GPU)",
    ]
    first, *rest = explanation(TORCHRUN).splitlines()
    assert first == "torchrun: rank 5 of 8, local rank 1 of 4, on node 1 of 2; they meet at n1:29500"
    assert rest[0] == "  RANK=5: index of the process"
    assert "they meet in the file /shared/meet" in explanation(FILE)
    assert "slurm_array: node 2 of 3, with 1 process: rank 2 of 3; they meet in the file that" in explanation(ARRAY)
    for kind in FULL:  # each has a line a variable
        lines = explanation(FULL[kind], kind).splitlines()[1:]
        assert all(line.startswith("  ") and ": " in line for line in lines)


def test_what_no_variable_says_is_said_to_be_worked_out() -> None:
    words = explanation(SLURM)
    assert "they meet at gpu08:15017" in words
    assert "  SLURM_JOB_NODELIST=gpu[08-09]: the ranks meet at the first of these nodes (rank 0)" in words
    assert "  SLURM_JOB_ID=17: determines the port: 15000 + id % 15000" in words
    assert "\x1b" not in explanation(SLURM | {"SLURM_JOB_NODELIST": "n\x1b1,n2"})
    assert "they meet at [fd00::1]:15001" in explanation(ENV | {"MASTER_ADDR": "fd00::1"})
    with pytest.raises(PlaceError, match=r"^no launcher has set variables here; --as NAME .*: torchrun, dlc"):
        explanation({})


def test_an_outer_environment_is_named() -> None:
    assert explanation(SLURM | TORCHRUN).splitlines()[-1] == "  variables of slurm are set, too: --as slurm"
    assert "are set, too" not in explanation(TORCHRUN)
    assert explanation(SLURM | TORCHRUN, "slurm").startswith("slurm: rank 2 of 3")


def test_a_rank_imports_little_for_it() -> None:
    heavy = ["torch", "textual", "click", "rich", "zmq", "numpy"]
    code = f"import sys, ddptui.host.platforms; print(*sys.modules.keys() & set({heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"


# Slurm's lists of nodes and counts, read without Slurm


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("n1", "n1"),
        ("a[1-3,07-09,x]b,c", "a1b"),
        ("a[07-09,1-3]b,c", "a07b"),
        ("a[x,1-3]b,c", "axb"),
        ("n[08-11]", "n08"),
        ("r[0-1]n[0-1]", "r0n0"),
        ("gpu-a.site[1,3],login-2", "gpu-a.site1"),
        ("n[1-999999999],m[0-60000]", "n1"),
    ],
)
def test_the_first_name_is_spelt_out(text: str, first: str) -> None:
    assert first_node(text) == first


@pytest.mark.parametrize(
    "text",
    ["", ",", "n1,", ",n1", "n1,,n2", "n[1-2", "n1-2]", "n[]", "n[1,]", "n[2-1]", "n[1-]", "n[a-b]", "n[[1]]", "n 1",
     "n,m[2-1]", "n[1-2]\n"],
)  # fmt: skip
def test_what_is_no_list_is_refused_at_once(text: str) -> None:
    with pytest.raises(PlaceError, match="not a list of nodes in Slurm"):
        first_node(text)


@given(st.lists(st.tuples(st.sampled_from(["n", "gpu-", "a.b"]), st.integers(0, 200), st.integers(0, 9)), min_size=1))
def test_a_list_that_was_folded_begins_with_its_first_node(ranges: list[tuple[str, int, int]]) -> None:
    folded = ",".join(f"{prefix}[{first:04}-{first + more:04}]" for prefix, first, more in ranges)
    prefix, first, _ = ranges[0]
    assert first_node(folded) == f"{prefix}{first:04}"


@pytest.mark.parametrize("text", ["", "2(x3", "(x3)", "2(3)", "2,", "a", "-1", "2(x999999)", "1 "])
def test_what_are_no_counts_is_refused(text: str) -> None:
    with pytest.raises(PlaceError, match="not a list of task counts in Slurm"):
        counts(text)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 20)), min_size=1))
def test_counts_that_were_folded_unfold_again(runs: list[tuple[int, int]]) -> None:
    folded = ",".join(f"{each}(x{times})" if times > 1 else str(each) for each, times in runs)
    assert counts(folded) == [each for each, times in runs for _ in range(times)]
