"""What the doctor's ranks find out of their group."""

import pytest
import torch
import torch.distributed as dist

from workers.doctor.meeting import implementation, meet_over_nccl
from workers.rank.group import leave_group


def test_the_class_that_carries_out_collectives_is_named() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert implementation(torch.device("cpu")) == "ProcessGroupGloo"
    finally:
        leave_group()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_the_class_is_one_of_nccls() -> None:
    sum_s, name = meet_over_nccl()
    assert sum_s > 0
    assert name.startswith("ProcessGroupNCCL")
