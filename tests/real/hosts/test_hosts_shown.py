"""What docs show of several hosts is what a console and its nodes print, each on a host of its own."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.hosts.conftest import Host
from tests.support.masks import difference
from tests.support.runner import ENOUGH_S
from tests.support.shown import PAGES, Printed, Shown, environment, shown_on, without_machine
from tests.support.waiting import until

SHOWN = {page: found for page in PAGES if (found := [each for each in shown_on(page) if each.place == "hosts"])}


@pytest.mark.rare
@pytest.mark.parametrize("page", SHOWN)
def test_hosts_print_what_is_shown(page: str, hosts: list[Host], tmp_path: Path) -> None:
    """The first command is the console's; the others start once it has written its ticket. All see /shared."""
    (tmp_path / "shared").mkdir()
    by_name = {host.name: host for host in hosts}
    console, *nodes = SHOWN[page]
    with ExitStack() as stack:
        processes = [_start(stack, by_name[console.host], _command(console, tmp_path), tmp_path)]
        until(lambda: any(tmp_path.glob("shared/runs/*/ticket")) or processes[0].poll() is not None)
        processes += [_start(stack, by_name[node.host], _command(node, tmp_path), tmp_path) for node in nodes]
        printed = [_printed(process, tmp_path) for process in processes]
    for shown, lines in zip(SHOWN[page], printed, strict=True):
        differs = difference(shown.output, lines.beside(shown.output))
        assert not differs, "\n".join([differs, *lines.stderr])


def _command(shown: Shown, folder: Path) -> str:
    return shown.command.replace("/shared", f"{folder}/shared")


def _start(stack: ExitStack, host: Host, command: str, folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        host.line("bash", "-c", command),
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.callback(_end, process)
    return process


def _end(process: "subprocess.Popen[str]") -> None:
    with process:
        process.kill()


def _printed(process: "subprocess.Popen[str]", folder: Path) -> Printed:
    out, error = process.communicate(timeout=ENOUGH_S)
    texts = [without_machine(text, folder).replace("~/shared", "/shared") for text in (out, error)]
    return Printed(*(text.splitlines() for text in texts))
