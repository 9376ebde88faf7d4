"""`ddptui place`: a place in words."""

import subprocess
import sys

import pytest

from ddptui.host.place import explanation
from ddptui.host.place.place import PlaceError
from tests.unit.host.test_place import ARRAY, DLC, ENV, FILE, FULL, SLURM, TORCHRUN


def test_a_node_is_said_to_be_one() -> None:
    assert explanation(DLC).splitlines() == [
        "dlc: node 1 of 2, with 4 processes: ranks 4 to 7 of 8; they meet at dlc1-master-0:23456",
        "  RANK=1: index of the node, not of the process",
        "  WORLD_SIZE=2: number of nodes, not of processes",
        "  NPROC_PER_NODE=4: processes per node (one per GPU)",
    ]


def test_a_process_is_said_to_be_one() -> None:
    first, *rest = explanation(TORCHRUN).splitlines()
    assert first == "torchrun: rank 5 of 8, local rank 1 of 4, on node 1 of 2; they meet at n1:29500"
    assert rest[0] == "  RANK=5: index of the process"


def test_a_file_is_named_where_it_is_known() -> None:
    assert "they meet in the file /shared/meet" in explanation(FILE)
    assert "slurm_array: node 2 of 3, with 1 process: rank 2 of 3; they meet in the file that" in explanation(ARRAY)


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


@pytest.mark.parametrize("kind", list(FULL))
def test_every_kind_has_a_line_a_variable(kind: str) -> None:
    lines = explanation(FULL[kind], kind).splitlines()[1:]
    assert all(line.startswith("  ") and ": " in line for line in lines)


def test_a_rank_imports_little_for_it() -> None:
    heavy = ["torch", "textual", "click", "rich", "zmq", "numpy"]
    code = f"import sys, ddptui.host.place; print(*sys.modules.keys() & set({heavy}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"
