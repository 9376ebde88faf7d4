"""What is refused before anything starts for want of a compiler or MPI; and what each refusal says to do."""

from pathlib import Path
from typing import Any

import pytest

from ddptui.config.parser import PresetError
from ddptui.config.preset import Preset
from ddptui.config.trial import Trial
from ddptui.engines import preflight, preflight_machine
from ddptui.engines.preflight_machine import backends, check_mpi, no_compiler
from tests.support.builders import preset_of
from tests.support.failing import failing


def test_torch_compile_wants_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_machine.sys, "platform", "linux")
    for name in ("g++", "icpx"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    here = {"PATH": str(tmp_path)}
    assert no_compiler(here) == ""
    assert no_compiler(here | {"CXX": "icpx -O2"}) == ""
    for variables, named in ((here | {"CXX": "clang++"}, "'clang++'"), ({"PATH": "/nowhere"}, "'g++'")):
        assert f"torch.compile needs a C++ compiler, but {named} is missing: install g++" in no_compiler(variables)


def test_a_compiler_that_cannot_be_read_is_said_in_one_line() -> None:
    found = no_compiler({"CXX": "g++ '"})
    assert (
        found
        == 'CXX is "g++ \'", which cannot be parsed: No closing quotation; set it to a C++ compiler, or `unset CXX`'
    )


def test_a_trial_to_be_compiled_is_refused_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    preset = preset_of({"trial": [{"name": "a", "compile": True}]})
    monkeypatch.setattr(preflight_machine.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    preflight.prepare(preset)
    monkeypatch.setattr(preflight_machine.shutil, "which", lambda *_, **__: None)
    with pytest.raises(PresetError, match=r"trial a: compile: torch.compile needs a C\+\+ compiler.*compile=false"):
        preflight.prepare(preset)
    preflight.prepare(preset_of({"trial": [{"name": "a"}]}))


def test_on_a_gpu_it_wants_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_machine, "no_compiler", lambda _: "")
    monkeypatch.setattr(preflight_machine, "find_spec", lambda _: None)
    preflight_machine.check_compiler("made", Trial(name="a", compile=True))
    with pytest.raises(PresetError, match="needs Triton on a GPU, but it is not installed: `pip install triton`"):
        preflight_machine.check_compiler("made", Trial(name="a", compile=True, device="cuda"))


# MPI

WITH_MPI: dict[str, Any] = {"trial": [{"name": "a", "launch": "task", "backend": "mpi"}]}


def preset_with_mpi() -> Preset:
    return preset_of(WITH_MPI)


def test_mpi_is_there_only_where_torch_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_machine, "backends", lambda: ["gloo", "mpi"])
    check_mpi(preset_with_mpi())
    monkeypatch.setattr(preflight_machine, "backends", lambda: ["gloo", "nccl"])
    with pytest.raises(
        PresetError,
        match=r"trial a: backend: this torch has no mpi \(it has gloo, nccl\): only a torch that was built from source",
    ):
        check_mpi(preset_with_mpi())


def test_nobody_is_asked_where_no_trial_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight_machine, "backends", lambda: pytest.fail("it was asked"))
    check_mpi(preset_of({"trial": [{"name": "a"}]}))


def test_torch_says_itself_which_backends_it_has() -> None:
    assert "gloo" in backends()


def test_a_torch_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from ddptui.host import rank_side

    monkeypatch.setattr(rank_side.Child, "ask", failing(rank_side.NoAnswer("ImportError: libfoo.so")))
    with pytest.raises(PresetError, match=r"torch cannot be imported: ImportError: libfoo.so; `ddptui doctor`"):
        backends()
