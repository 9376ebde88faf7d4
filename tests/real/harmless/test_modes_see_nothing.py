"""Modes of torch's, and classes of tensors, that a training brings along see its own calls and none of ours."""

import subprocess
import sys
from pathlib import Path

from tests.support.watching import only_trial, script, watched


def test_a_trainings_own_modes_see_what_they_would(tmp_path: Path) -> None:
    command = [sys.executable, *script("modes")]
    alone = subprocess.run(command, capture_output=True, text=True)
    assert (alone.returncode, len(alone.stdout.splitlines())) == (0, 5), alone.stderr
    seen = watched(tmp_path, "--", *command)
    assert seen.stdout == alone.stdout, seen.stderr
    assert "not watched" not in seen.stderr
    [repeat] = only_trial(tmp_path)["repeats"]
    assert repeat["steps"] > 70  # two optimizers, one after the other, may make one step
    assert repeat["loss"]["first"] is None  # the first ones are fake, or on no device
    assert repeat["loss"]["last"] > 0
