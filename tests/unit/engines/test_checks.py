"""What is refused before anything starts for want of a compiler; and what the refusal says to do."""

from pathlib import Path

import pytest

from ddptui.config.parser import PresetError
from ddptui.config.trial import Trial
from ddptui.engines import checks, preflight
from ddptui.engines.checks import CHECKS, no_compiler
from tests.support.builders import preset_of

COMPILED = Trial(compile=True)


def test_torch_compile_wants_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.sys, "platform", "linux")
    for name in ("g++", "icpx"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert no_compiler(COMPILED) is None
    monkeypatch.setenv("CXX", "icpx -O2")
    assert no_compiler(COMPILED) is None
    monkeypatch.setenv("CXX", "clang++")
    assert "needs a C++ compiler, but 'clang++' is missing: install g++" in str(no_compiler(COMPILED))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "needs a C++ compiler, but 'g++' is missing: install g++" in str(no_compiler(COMPILED))


def test_a_compiler_that_cannot_be_read_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ '")
    assert (
        no_compiler(COMPILED)
        == 'CXX is "g++ \'", which cannot be parsed: No closing quotation; set it to a C++ compiler, or `unset CXX`'
    )


def test_a_trial_to_be_compiled_is_refused_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    preset = preset_of({"trial": [{"name": "a", "compile": True}]})
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    preflight.prepare(preset)
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: None)
    with pytest.raises(PresetError, match=r"trial a: compile: torch.compile needs a C\+\+ compiler.*compile=false"):
        preflight.prepare(preset)
    preflight.prepare(preset_of({"trial": [{"name": "a"}]}))


def test_on_a_gpu_it_wants_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.shutil, "which", lambda *_, **__: "/usr/bin/g++")
    monkeypatch.setattr(checks, "find_spec", lambda _: None)
    checks.check_trial("made", Trial(name="a", compile=True), CHECKS)
    with pytest.raises(PresetError, match="needs Triton on a GPU, but it is not installed: `pip install triton`, or"):
        checks.check_trial("made", Trial(name="a", compile=True, device="cuda"), CHECKS)
