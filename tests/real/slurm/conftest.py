"""A real cluster for the tests of this folder, and one of commands that say what a test wants."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_cluster import Cluster, lacking
from tests.support.slurm_fakes import Fakes


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Cluster]:
    if why := lacking():
        pytest.skip(f"no Slurm here: {why}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # pytest's own paths are too long for sockets
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, and this process's commands meant for it. Nothing is left in its queue."""
    monkeypatch.setenv("SLURM_CONF", _cluster.environment["SLURM_CONF"])
    yield _cluster
    assert _cluster.queue() == []


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Commands of Slurm's, and nothing else on PATH, that say what the test has told them to."""
    return Fakes(tmp_path / "bin", monkeypatch)
