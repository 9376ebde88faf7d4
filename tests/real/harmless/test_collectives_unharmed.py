"""Every collective comes to the same, bit for bit, whether a training is watched or not."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.watching import TORCHRUN, journal, only_trial, script, watched
from workers.instruments.hooks import group_takes_hooks


def found_in(folder: Path) -> list[dict[str, str]]:
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("plain")
    subprocess.run([*TORCHRUN, *script("collectives", str(folder))], check=True, capture_output=True)
    return found_in(folder)


def check(tmp_path: Path, plain: list[dict[str, str]], **variables: Any) -> None:
    done = watched(tmp_path / "runs", "--", *TORCHRUN, *script("collectives", str(tmp_path)), **variables)
    assert done.returncode == 0, done.stderr
    for with_it, without in zip(found_in(tmp_path), plain, strict=True):
        differ = {name: (with_it.get(name), value) for name, value in without.items() if with_it.get(name) != value}
        assert not differ
        assert with_it.keys() == without.keys()
    only_trial(tmp_path / "runs")
    last = [line for line in journal(tmp_path / "runs") if line["type"] == "Step"][-1]
    assert "all_reduce" in {each[0] for each in last["collectives"]}  # the tap has not failed


@pytest.mark.rare  # test_watch.py: what is learned is the same
def test_every_collective_comes_to_the_same(tmp_path: Path, plain: list[dict[str, str]]) -> None:
    check(tmp_path, plain)


@pytest.mark.rare
@pytest.mark.skipif(not group_takes_hooks(), reason="this torch has no other way")
def test_and_so_it_does_where_groups_take_no_hooks(tmp_path: Path, plain: list[dict[str, str]]) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import torch.distributed as dist\n"
        'for name in [name for name in vars(dist.ProcessGroup) if name.endswith(("_pre_hook", "_post_hook"))]:\n'
        "    delattr(dist.ProcessGroup, name)\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    check(tmp_path, plain, PYTHONPATH=path)
