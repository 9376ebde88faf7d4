"""What docs show of runs on a cluster is what a real one of two nodes prints."""

from pathlib import Path

import pytest

from tests.support.masks import difference
from tests.support.shown import PAGES, Shown, run, shown_on
from tests.support.slurm_cluster import Cluster

SHOWN = [each for page in PAGES for each in shown_on(page) if each.place == "slurm"]


@pytest.mark.rare
@pytest.mark.parametrize("shown", SHOWN, ids=[each.command for each in SHOWN])
def test_a_run_on_a_cluster_prints_what_is_shown(shown: Shown, cluster: Cluster, tmp_path: Path) -> None:
    printed = run(shown.command, tmp_path, {"SLURM_CONF": cluster.environment["SLURM_CONF"]})
    differs = difference(shown.output, printed.beside(shown.output))
    assert not differs, "\n".join([differs, *printed.stderr])
