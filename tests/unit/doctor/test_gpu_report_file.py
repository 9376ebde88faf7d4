"""The GPU report as a file for strangers: what it says, and what it must not."""

import platform

import pytest

from ddptui.doctor.gpu_report import privacy
from ddptui.doctor.gpu_report.check import Check, Observed, Result, result_of
from ddptui.doctor.gpu_report.privacy import own_names, without_names
from ddptui.doctor.gpu_report.report import Report, after, before, fenced, machine_of, markdown, summary

CHECK = Check(name="clock", question="what time it is", expected="noon", run=lambda bench, within_s: Observed(True, ""))
NAMES = {"/home/alice": "…", "alice": "USER", "node-7.example.org": "HOST", "node-7": "HOST"}


def report(*results: Result, interrupted: bool = False) -> Report:
    return Report(machine={"cpu": "a | b"}, results=results, names=NAMES, checks=3, interrupted=interrupted)


RESULTS = (
    result_of(CHECK, "ok", "noon", 2.0),
    result_of(CHECK, "NOT AS EXPECTED", "<b>one</b> | o'clock", 61.5, ["went wrong", "in /home/alice/x/y.py"]),
    result_of(CHECK, "not run", "needs 2 GPUs"),
)


def test_the_file_has_the_machine_a_table_and_the_logs_of_what_failed() -> None:
    text = markdown(report(*RESULTS))
    assert "3 checks, 63.5 s: 1 as expected, 1 not, 1 not run" in text
    assert "| cpu | a \\| b |" in text
    assert "| clock | what time it is | noon | noon | ✓ ok | 2.00 s |" in text
    assert "| \\<b\\>one\\</b\\> \\| o'clock | ✗ NOT AS EXPECTED |" in text
    assert "| needs 2 GPUs | – not run | under 1 s |" in text
    assert "### clock\n\n```text\nwent wrong\nin …/y.py\n```\n" in text
    assert "Interrupted" not in text


def test_without_a_failure_there_are_no_logs_and_an_interrupt_is_told() -> None:
    text = markdown(report(RESULTS[0], interrupted=True))
    assert "Interrupted: 2 checks of 3 not reached." in text
    assert "Logs" not in text


def test_a_log_cannot_end_its_block_nor_steer_a_terminal() -> None:
    failed = result_of(CHECK, "NOT AS EXPECTED", "\x1b[31mred\x07", 1.0, ["```", "# heading", "a\x1b]0;title\x07"])
    text = markdown(report(failed))
    assert "````text\n```\n# heading\n" in text
    assert not any(not char.isprintable() for char in text.replace("\n", ""))
    assert fenced(["a"]) == ["```text", "a", "```"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("File /home/alice/venv/lib/torch/nn.py, line 3", "File …/nn.py, line 3"),
        ("/home/alice", "…"),
        ("alice@node-7.example.org: no", "USER@HOST: no"),
        ("node-7:4711:4712 [0] NCCL INFO", "HOST:4711:4712 [0] NCCL INFO"),
        ("malice in node-70 and at /srv/data/x", "malice in node-70 and at …/x"),
        ("open('/data/set/a.bin') in ~bob/lab/b", "open('…/a.bin') in …/b"),
        ("see https://host.example/page", "see https:…/page"),
        ("bind 10.20.30.40:80, 127.0.0.1, NCCL 2.28.9", "bind …:80, 127.0.0.1, NCCL 2.28.9"),
        ("driver 580.65.06", "driver 580.65.06"),
        ("fe80::1:2:3:4 and aa:bb:cc:dd:ee:ff at 12:30:45", "… and … at 12:30:45"),
        ("GPU-0f3c5a2e-11aa-22bb-33cc-445566778899 on 00000000:1B:00.0", "… on 00000000:1B:00.0"),
        ("connect to node-7-ib0.cluster.example:29500", "connect to …:29500"),
        ("in job alice_job of ALICE", "in job USER_job of USER"),
        ("rank 1 is on node08.cluster.example", "rank 1 is on …"),
        ("fe80::1%eth0, ::1 and fe80::1:2%ib0.8", "…, … and …"),
        ("GPU-1A2B3C4D-xx and mig-1a2b3c4d-5", "… and …"),
        ("gpu9:4711:4712 [0] NCCL INFO", "…:4711:4712 [0] NCCL INFO"),
        ("cuda:0, step:1200, localhost:29500, 127.0.0.1:29500", "cuda:0, step:1200, localhost:29500, 127.0.0.1:29500"),
        ("init.cpp:3417, NCCLUtils.hpp:1268, c10::Error", "init.cpp:3417, NCCLUtils.hpp:1268, c10::Error"),
        ("torch.distributed.distributed_c10d at train.py:1200", "torch.distributed.distributed_c10d at train.py:1200"),
        ("isend/irecv of 64 MB, 3 GB/s, 5/6, and/or, ± 2", "isend/irecv of 64 MB, 3 GB/s, 5/6, and/or, ± 2"),
        ("two\nlines", "two\\nlines"),
    ],
)  # fmt: skip
def test_what_a_stranger_need_not_know_is_taken_out(text: str, left: str) -> None:
    assert without_names(text, NAMES) == left


def test_the_names_of_this_machine_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy.platform, "node", lambda: "node-7.example.org")
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "alice")
    names = own_names()
    assert (names["node-7.example.org"], names["node-7"], names["alice"]) == ("HOST", "HOST", "USER")
    assert names["example.org"] == "DOMAIN"
    monkeypatch.setattr(privacy.platform, "node", lambda: "box.local")
    assert "local" not in own_names()
    monkeypatch.setattr(privacy.getpass, "getuser", lambda: "root")
    assert "root" not in own_names()
    assert "/" not in own_names()
    assert "" not in own_names()


def test_a_user_without_name_and_home_has_none_to_take_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> str:
        raise KeyError("uid")

    def no_home() -> str:
        raise RuntimeError("no home")

    monkeypatch.setattr(privacy.getpass, "getuser", none)
    monkeypatch.setattr(privacy.Path, "home", no_home)
    assert "USER" not in own_names().values()


def test_of_the_machine_only_what_is_meant_for_strangers() -> None:
    environment = {
        "ddptui": "0.1", "python": "3.12", "executable": "/home/alice/python", "host": platform.node(), "cores": 16,
        "packages": {"torch": "2.14", "numpy": None}, "memory_bytes": 2**34, "gpus": ["H100, 80 GB"], "started": "now",
        "gpus_visible": None, "gpu_links": {"0-1": "NV18"}, "cpu": "EPYC", "platform": None, "gpu_numa": [None, None],
        "gpu_pcie": ["4.0 x16", None], "gpu_link_peak_gb_s": {"2": None},
    }  # fmt: skip
    told = machine_of(environment, {"cuda": "13.0", "group_hooks": True, "torch": "2.14", "nccl": None})
    assert told == {
        "ddptui": "0.1", "python": "3.12", "cpu": "EPYC", "cores": "16", "memory": "16 GB", "torch": "2.14",
        "gpus": "H100, 80 GB", "gpu_links": "0-1: NV18", "gpu_pcie": "4.0 x16, unknown", "torch's cuda": "13.0",
        "torch's group_hooks": "True",
    }  # fmt: skip


def test_what_is_printed_before_and_after_a_check() -> None:
    assert before(CHECK, 3, 9) == ["[3/9] clock: what time it is", "  expected  noon"]
    assert after(RESULTS[0], NAMES) == ["  observed  noon", "  ✓ ok, 2.00 s"]
    assert after(RESULTS[2], NAMES) == ["  because   needs 2 GPUs", "  – not run"]
    long = result_of(CHECK, "NOT AS EXPECTED", "alice " + "word " * 30, 1.0)
    assert all(len(line) <= 80 for line in after(long, NAMES))
    assert after(long, NAMES)[0].startswith("  observed  USER word")


def test_the_log_is_kept_only_of_what_failed() -> None:
    assert result_of(CHECK, "ok", "fine", 1.0, ["line"]).log == ()
    assert summary(()) == "0 checks, 0 ns: 0 as expected, 0 not, 0 not run"
