"""The model, optimizer, loader and DDP of a watched training are copied, saved and compiled as without `watch`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runner import environment
from tests.support.watching import only_trial, script, watched


@pytest.mark.rare  # test_watch.py: a model that is saved whole
@pytest.mark.parametrize("cells", [("copies",), ("compiled", "made")])
def test_what_is_made_of_a_model_is_as_without_us(tmp_path: Path, cells: tuple[str, ...]) -> None:
    command = [sys.executable, *script("carried")]
    folders = [tmp_path / "plain", tmp_path / "watched"]
    for folder in folders:
        folder.mkdir()
    with subprocess.Popen(
        [*command, str(folders[0]), *cells], env=environment(tmp_path), stdout=subprocess.PIPE, text=True
    ) as plain:
        done = watched(tmp_path / "runs", "--", *command, str(folders[1]), *cells)
        expected = plain.communicate()[0].splitlines()
    assert (plain.returncode, done.returncode) == (0, 0), done.stderr
    assert done.stdout.splitlines() == expected
    assert "not watched" not in done.stderr
    repeat = only_trial(tmp_path / "runs")["repeats"][0]
    assert (repeat["steps"] >= 9, repeat["phases_ms"]["forward"] > 0) == (True, True)
    if "copies" in cells:  # a Python without ddptui loads the pickles
        load = [*command, str(folders[1]), "load"]
        loaded = subprocess.run(load, env=environment(tmp_path), check=True, capture_output=True, text=True).stdout
        assert {"cloudpickle model", "dill model", "cloudpickle own optimizer"} <= {*loaded.split(" | ")}
        assert {*loaded.splitlines()} <= {*expected}
