"""The console starts in a blink, and cannot be taken down by native code: it imports no torch and no textual,
and numpy only to judge a run."""

import subprocess
import sys

import pytest

from tests.support.runner import ENOUGH_S

HEAVY = ("torch", "torchvision", "textual", "numpy")
LIST = "print(*sorted({name.partition('.')[0] for name in sys.modules} & set(HEAVY)))"
# textual belongs to ddptui.tui alone; _lab holds the rank side in a wheel; __main__ would run the console.
EVERY_MODULE = """
import importlib, pkgutil
def below(package):
    for found in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if found.name not in ("ddptui.tui", "ddptui._lab", "ddptui.__main__"):
            module = importlib.import_module(found.name)
            print(found.name)
            if found.ispkg:
                below(module)
import ddptui
below(ddptui)
"""


def output_of(code: str) -> list[str]:
    preface = f"import sys; HEAVY = {HEAVY!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", preface + code], capture_output=True, text=True, check=True, timeout=ENOUGH_S
    )
    return done.stdout.split("\n")


@pytest.mark.parametrize(
    ("modules", "later"),
    [
        ("ddptui", HEAVY),
        ("ddptui.cli", (*HEAVY, "zmq", "msgspec", "rich")),  # it may only have to say no
        *((f"ddptui.{module}", ("numpy",)) for module in ("cli.run", "run.headless", "run.selftest", "report.table")),
        *((f"ddptui.tui.{module}", ("numpy",)) for module in ("app", "screens.run")),
        ("ddptui.cli.inspect, ddptui.run.output, ddptui.tui.screens.export", ("jinja2", "markdown_it", "ddptui.page")),
        *((f"ddptui.run.{module}", ("zmq", "psutil", "ddptui.engines.hub")) for module in ("listing", "output")),
    ],
)
def test_what_is_not_needed_yet_is_not_imported(modules: str, later: tuple[str, ...]) -> None:
    assert output_of(f"import {modules}; print(*sorted(sys.modules.keys() & set({later})))") == ["", ""]


def test_no_module_of_the_console_imports_anything_heavy_but_those_that_judge_do_numpy() -> None:
    *modules, heavy, _ = output_of(EVERY_MODULE + LIST)
    assert {"ddptui.cli", "ddptui.run.lab", "ddptui.report.table", "ddptui.engines.local.engine"} <= set(modules)
    assert heavy == "numpy"


@pytest.mark.parametrize(("wanted", "painted"), [(None, 120), ("30", 30)])
def test_the_console_paints_as_often_as_keys_want_it(
    wanted: str | None, painted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEXTUAL_FPS")
    if wanted is not None:
        monkeypatch.setenv("TEXTUAL_FPS", wanted)
    period = "from textual import screen; print(round(1 / screen.UPDATE_PERIOD))"
    assert output_of(f"import ddptui.tui.app; {period}") == [str(painted), ""]
