"""What srun says of tasks that went wrong."""

import pytest

from ddptui.engines.slurm.states import first_failed_rank

VICTIM = "srun: error: n2: task 1: Exited with exit code 1"
ENDED = "srun: error: n2: task 1: Terminated"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        (["srun: error: n1: task 0: Killed", VICTIM], "rank 0 killed by SIGKILL"),
        (["srun: error: n1: task 0: Killed", ENDED], "rank 0 killed by SIGKILL"),
        (["srun: error: n2: task 3: Exited with exit code 7", ENDED], "rank 3 ended with exit code 7"),
        (["srun: error: n1: tasks 2,4-5: Killed"], "rank 2 killed by SIGKILL"),
        (["srun: error: n1: tasks 0-1: Exited with exit code 3"], "rank 0 ended with exit code 3"),
        (["srun: error: n1: task 0: Segmentation fault (core dumped)"], "rank 0 killed by SIGSEGV"),
        (["srun: error: n1: task 0: Aborted"], "rank 0 killed by SIGABRT"),
        (["a warning", "", "srun: error: n1: task 0: Killed"], "rank 0 killed by SIGKILL"),
    ],
)
def test_the_first_is_named(said: list[str], named: str) -> None:
    assert first_failed_rank("\n".join(said)) == named


@pytest.mark.parametrize(
    "said",
    [
        [],
        [VICTIM, "srun: error: n1: task 0: Killed"],  # an exception, and who did not end when the others were to
        [ENDED, "srun: error: n1: task 0: Killed"],  # the console has cancelled it, in vain at first
        ["srun: error: n1: task 0: Out Of Memory"],  # of which the job's state tells
        ["srun: error: Unable to create step for job 3: Invalid account"],
        ["a rank prints: srun: error: n1: task 0: Killed"],
    ],
)
def test_nobody_is_named_where_the_ranks_know_more(said: list[str]) -> None:
    assert first_failed_rank("\n".join(said)) is None
