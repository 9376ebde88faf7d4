"""How the GPU report judges what the probe answers: as expected, and each part of it once not."""

from typing import Any

import pytest

from ddptui.doctor.gpu_report import probes

FACTS = {
    "torch": "2.14.1", "cuda": "13.0", "cudnn": 91200, "nccl": "2.28.9", "nccl_implementations": ["ProcessGroupNCCL"],
    "group_hooks": True, "gpus": ["H100"], "capabilities": ["9.0"],
}  # fmt: skip


def test_versions() -> None:
    ok, text = probes.versions_known(FACTS)
    assert ok
    assert text == (
        "torch 2.14.1, CUDA 13.0, cuDNN 91200, NCCL 2.28.9 (ProcessGroupNCCL); 1 GPU of compute capability 9.0; "
        "process groups take hooks"
    )
    without = probes.versions_known(FACTS | {"nccl": None, "nccl_implementations": [], "group_hooks": False})
    assert not without.ok
    assert "no NCCL" in without.text
    assert "no group hooks" in without.text


MARKS = {"marks": 800, "outside": 0, "farthest_ns": 0, "error_ns": 11_000}


def test_marks_within_their_error() -> None:
    ok, text = probes.marks_inside({"idle": MARKS, "busy": MARKS})
    assert ok
    assert text.startswith("idle: 0 of 800 marks outside; error reported ±11.0 µs; busy:")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"outside": 1, "farthest_ns": 2_500}, "✗ busy: 1 of 800 marks outside; error reported ±11.0 µs, the"),
        ({"error_ns": 61_000}, "✗ busy: 0 of 800 marks outside; error reported ±61.0 µs"),
        ({"marks": 99}, "✗ busy: 0 of 99 marks"),
    ],
)  # fmt: skip
def test_marks_outside_it(changes: dict[str, Any], said: str) -> None:
    ok, text = probes.marks_inside({"idle": MARKS, "busy": MARKS | changes})
    assert not ok
    assert said in text


def test_a_call_that_waits_is_named() -> None:
    assert probes.nothing_waits({"refused": {"ddp, bf16": "", "flat, bf16": ""}}) == (
        True,
        "2 combinations tried: nothing waited",
    )
    ok, text = probes.nothing_waits({"refused": {"ddp, bf16": "", "flat, fp16": "RuntimeError: called item()"}})
    assert (ok, text) == (False, "flat, fp16: RuntimeError: called item()")
    assert not probes.nothing_waits({"refused": {}}).ok


PAIR = {
    "sums_right": True, "late_ns": 20.3e6, "wait_ns": 19.1e6, "exchanged_right": True, "exchange_ns": 80_000_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sums_right": False}, "✗ a sum is wrong"),
        ({"late_ns": 17.9e6}, "✗ rank 1 came 17.9 ms late, of 20 put in"),
        ({"wait_ns": 22.1e6}, "✗ rank 0 waited 22.1 ms"),
        ({"exchanged_right": False}, "✗ isend/irecv of 64 MB wrong"),
    ],
)
def test_two_ranks_on_one_gpu(changes: dict[str, Any], said: str) -> None:
    ok, text = probes.pair_right(PAIR)
    assert ok
    assert "rank 0 waited 19.1 ms; isend/irecv of 64 MB right, in 80.0 ms" in text
    ok, text = probes.pair_right(PAIR | changes)
    assert not ok
    assert said in text
