"""Arguments, a script and a folder whose names are no UTF-8: the command gets them as they are."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ddptui.text.sanitize import as_text
from tests.support.watching import watched

BYTES = [b"a\xffb", "\U0010feff".encode(), b"caf\xc3\xa9"]
TRAINS = """
import os, sys, torch
weight = torch.ones(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(8):
    weight.square().backward()
    optimizer.step()
print([os.fsencode(word) for word in sys.argv])
"""


@pytest.mark.rare
def test_bytes_that_are_no_utf8_reach_the_command(tmp_path: Path) -> None:
    script = tmp_path / os.fsdecode(b"tr\xfe") / os.fsdecode(b"tr\xfein.py")
    script.parent.mkdir()
    script.write_text(TRAINS)
    command = [sys.executable, str(script), *map(os.fsdecode, BYTES)]
    plain = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)

    runs = script.with_name(os.fsdecode(b"r\xfdns"))
    done = watched(runs, "--", *command)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    [run] = runs.iterdir()
    kept = [*map(as_text, command)]
    assert tomllib.loads((run / "preset.toml").read_text(encoding="utf-8"))["trial"][0]["command"] == kept
    [trial] = json.loads((run / "results.json").read_text(encoding="utf-8"))["trials"]
    assert (trial["status"], trial["command"]) == ("ok", kept)
    [line] = run.glob("trial-*/repeat-1/command.txt")
    assert r"$'a\xffb'" in line.read_text(encoding="utf-8")
