"""What is said before anything is submitted."""

from pathlib import Path
from typing import Any

import pytest

from ddptui.config.preset import EngineOptions
from ddptui.engines.slurm.job import refusal
from tests.support.slurm_cluster import Cluster
from tests.support.slurm_fakes import Fakes


def refused(**said: Any) -> str:
    return str(refusal(EngineOptions(name="slurm", **said)))


def test_a_real_cluster_takes_what_fits_and_says_what_does_not(cluster: Cluster) -> None:
    assert refusal(EngineOptions(name="slurm", nodes=2, time="5", partition="debug", options=("--exclusive",))) is None
    assert refused(partition="x").startswith("sbatch: invalid partition specified: x; ")
    assert refused(time="soon") == "sbatch: Invalid --time specification"
    assert "Invalid generic resource (gres)" in refused(gres="gpu:2")
    assert "unrecognized option '--bogus'" in refused(options=("--bogus",))


def test_without_slurm_it_is_said_where_to_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sbatch is not on PATH: run this on a host that submits jobs" in refused()


def test_a_controller_that_does_not_answer_is_said_in_slurms_words(fakes: Fakes) -> None:
    fakes.set(broken={"sbatch": "allocation failure: Unable to contact slurm controller (connect failure)"})
    assert refused() == ("sbatch: allocation failure: Unable to contact slurm controller (connect failure)")


def test_nodes_that_are_down_for_now_are_no_reason_to_refuse(fakes: Fakes) -> None:
    fakes.set(broken={"sbatch": "allocation failure: Requested node configuration is not available"})
    assert refusal(EngineOptions(name="slurm", nodes=2)) is None
    fakes.set(broken={"sbatch": "sbatch: error: Invalid account"})
    assert refused() == "sbatch: Invalid account"


def test_options_are_looked_at_before_anybody_is_asked(fakes: Fakes) -> None:
    assert "ddptui sets --array itself" in refused(options=("--array=0-3",))
    assert fakes.calls("sbatch") == []
