"""What docs show of several hosts is what a console and its nodes print, each on a host of its own."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.real.hosts.conftest import Host, begin
from tests.support.masks import difference
from tests.support.runner import ENOUGH_S
from tests.support.shown import PAGES, Printed, environment, shown_on, without_machine
from tests.support.waiting import until

SHOWN = {page: found for page in PAGES if (found := [each for each in shown_on(page) if each.place == "hosts"])}


@pytest.mark.rare
@pytest.mark.parametrize("page", SHOWN)
def test_hosts_print_what_is_shown(page: str, hosts: list[Host], tmp_path: Path) -> None:
    """The first command is the console's; the others start once it has written its ticket. All see /shared."""
    (tmp_path / "shared").mkdir()
    by_name = {host.name: host for host in hosts}
    processes: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:
        for shown in SHOWN[page]:
            words = ["bash", "-c", shown.command.replace("/shared", f"{tmp_path}/shared")]
            processes.append(begin(stack, by_name[shown.host], words, environment(tmp_path)))
            until(lambda: any(tmp_path.glob("shared/runs/*/ticket")) or processes[0].poll() is not None)
        printed = [_printed(process, tmp_path) for process in processes]
    for shown, lines in zip(SHOWN[page], printed, strict=True):
        differs = difference(shown.output, lines.beside(shown.output))
        assert not differs, "\n".join([differs, *lines.stderr])


def _printed(process: "subprocess.Popen[str]", folder: Path) -> Printed:
    out, error = process.communicate(timeout=ENOUGH_S)
    texts = [without_machine(text, folder).replace("~/shared", "/shared") for text in (out, error)]
    return Printed(*(text.splitlines() for text in texts))
