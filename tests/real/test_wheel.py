"""The wheel, installed apart from the checkout, runs a preset from another folder."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.rare
ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_runs_apart_from_the_checkout(tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT),
        cwd=tmp_path)  # fmt: skip
    [wheel] = tmp_path.glob("ddptui-*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv"), cwd=tmp_path)
    python = str(tmp_path / "venv" / "bin" / "python")
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel), cwd=tmp_path)
    # torch and the rest come from this environment; its own ddptui, an editable one, is reached by no .pth from here.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where = run(python, "-c", "from ddptui.host.folders import lab_root; print(lab_root())", cwd=tmp_path).strip()
    assert where == str(site / "ddptui" / "_lab")
    assert not (site / "workers").exists()
    assert not (site / "presets").exists()
    output = run(
        python, "-m", "ddptui", "--preset", "quickstart", "--json", "--runs", str(tmp_path / "runs"),
        "--set", "steps=5", "--set", "threads=1", cwd=tmp_path,
    )  # fmt: skip
    assert [trial["status"] for trial in json.loads(output)["trials"]] == ["ok", "ok", "ok"]
    shown = ("show", "last", "--format", "html", "--runs", str(tmp_path / "runs"))
    page = run(python, "-m", "ddptui", *shown, cwd=tmp_path)
    assert page.endswith("</html>\n")
    manifest = ("manifest", "quickstart", "--kind", "pytorchjob", "--image", "ddptui:1")
    assert "kind: PyTorchJob\n" in run(python, "-m", "ddptui", *manifest, cwd=tmp_path)
