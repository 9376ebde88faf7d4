"""Errors that torch really raises here, as the console tells them: the words that it is known by are still its own."""

from pathlib import Path

import pytest

from ddptui.config.trial import Trial
from ddptui.diagnosis.known_errors import known_error
from ddptui.engines.local.warm import WarmParent
from ddptui.host.gpus import surely_none
from tests.support.here import run_here
from tests.support.runner import QUICK, write_preset

ONE_RANK = '[[trial]]\nlaunch = "single"\n'
SHORT = "steps = 4\nwarmup_steps = 1\nthreads = 1\n"


def test_a_model_that_makes_a_tensor_on_another_device_is_told_where_to_make_it(
    warm: WarmParent, tmp_path: Path
) -> None:
    preset = write_preset(tmp_path, f'{ONE_RANK}{SHORT}model = "tests.support.elsewhere:Net"\n')
    results = run_here(warm, tmp_path / "runs", preset)
    assert results["status"] == "failed"
    first, *log = results["trials"][0]["error"].splitlines()
    assert first.startswith("rank 0 failed in add, elsewhere.py:16: tensors on two devices, meta and cpu, met")
    assert first.endswith(
        "create tensors with device=inputs.device, or with register_buffer, which moves with the model"
    )
    assert any("is not on the expected device" in line for line in log)


def test_of_a_killed_rank_with_workers_the_log_shows_its_own_words_alone(warm: WarmParent, tmp_path: Path) -> None:
    """Python's tracker of shared things cleans up after it, and says so in the same log."""
    # Without instruments it prints no progress, to which its thread may come before the kill, or not.
    killed = QUICK + 'instruments = "off"\nnum_workers = 1\n[[trial.fault]]\nkind = "kill"\nrank = 0\nstep = 3\n'
    results = run_here(warm, tmp_path / "runs", write_preset(tmp_path, ONE_RANK + killed))
    assert results["trials"][0]["error"].splitlines() == ["rank 0 was killed by SIGKILL", "fault, step 3: kill"]


@pytest.mark.skipif(not surely_none(), reason="this machine has a GPU, which torch finds")
def test_a_torch_that_finds_no_driver_or_has_no_cuda_is_told() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises((RuntimeError, AssertionError)) as error:
        torch.zeros(1).cuda()
    told = known_error(f"{error.type.__name__}: {error.value}", Trial())
    assert told is not None
    assert "NVIDIA driver" in told or "built without CUDA" in told
