"""Where and how ranks are started: what [engine] and the command line may say, and which start warm."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddptui.config.preset import LOCAL, EngineOptions, NodeRanks, Preset, fit_to_engine, spread, start_of
from ddptui.config.trial import Bottleneck, Trial, TrialError
from ddptui.config.values import make_trial
from ddptui.store.presets import as_toml, load
from tests.support.runner import ddptui

ONE_TRIAL = '[[trial]]\nname = "a"\n'


def preset(engine: EngineOptions = LOCAL, **fields: object) -> Preset:
    trial = Trial(name="a", **fields)  # type: ignore[arg-type]
    return Preset(name="p", title="", group="", about="", baseline="a", repeats=1, trials=(trial,), engine=engine)


@given(st.integers(1, 1024), st.integers(1, 1024))
def test_every_rank_has_a_node_and_no_node_has_two_more_than_another(world: int, nodes: int) -> None:
    blocks = spread(world, nodes)
    assert [rank for block in blocks for rank in block] == list(range(world))
    sizes = [len(block) for block in blocks]
    assert len(blocks) == min(world, nodes)
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


def test_a_part_says_what_an_entry_point_reads() -> None:
    told = NodeRanks(1, 2, range(2, 4), "10.0.0.1", 15_432).environment()
    assert told == {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "15432"}


@pytest.mark.parametrize(
    ("engine", "fields", "why"),
    [
        (LOCAL, {"launch": "task"}, "launch: trial a: ranks of 'task' are started by hand: `srun python -m"),
        (EngineOptions(nodes=2), {}, "engine.nodes: has no effect with the engine 'local'; use --engine join or slurm"),
        (EngineOptions(name="join", gres="gpu:1"), {}, "engine.gres: has no effect with the engine 'join'; use"),
        (
            EngineOptions(name="join", nodes=2),
            {"bottleneck": (Bottleneck(at="link", ranks=(0,), mbit=10),)},
            "bottleneck: trial a: slow links work on this host only; use --engine local",
        ),
        (EngineOptions(name="slurm"), {"save": True}, "save: trial a: checkpoints would stay on the nodes; leave it"),
    ],
)
def test_what_does_not_go_together_is_refused(engine: EngineOptions, fields: dict[str, object], why: str) -> None:
    with pytest.raises(TrialError) as refused:
        fit_to_engine(preset(engine, **fields))
    assert str(refused.value).startswith(why)


def test_a_presets_engine_is_kept_and_the_command_line_lies_over_it(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(ONE_TRIAL + '[engine]\nname = "slurm"\nnodes = 2\noptions = ["--exclusive"]\n')
    read = load(str(tmp_path / "p.toml"))
    assert read.engine == EngineOptions(name="slurm", nodes=2, options=("--exclusive",))
    (tmp_path / "again.toml").write_text(as_toml(read))
    assert load(str(tmp_path / "again.toml")).engine == read.engine
    (tmp_path / "p.toml").write_text(ONE_TRIAL + '[engine]\nname = "slurm"\nnodes = 2\npartition = "p"\n')
    path = str(tmp_path / "p.toml")
    assert load(path, {}, {"nodes": 3}).engine == EngineOptions(name="slurm", nodes=3, partition="p")
    assert load(path, {}, {"name": "join", "nodes": 3}).engine == EngineOptions(name="join", nodes=3)


def test_nodes_print_the_lines_to_type_on_each(tmp_path: Path) -> None:
    shown = ddptui(tmp_path, "presets", "quickstart", "--nodes", "2", "--set", "launch=process")
    assert shown.returncode == 0
    assert "ddptui run quickstart --set launch=process --engine join --nodes 2\n" in shown.stdout
    assert shown.stdout.count("NODE_RANK=1") == 3
    assert "python -m workers.process" in shown.stdout
    of_torchrun = ddptui(tmp_path, "presets", "quickstart", "--nodes", "2", "--set", "launch=launch").stdout
    assert "--nnodes=2 --node_rank=1 --nproc_per_node=1 --master_addr=NODE_0" in of_torchrun


SLOW = {"at": "link", "ranks": [1], "mbit": 10}


@pytest.mark.parametrize("launch", ["single", "dp", "process", "spawn", "launch"])
def test_every_launch_mode_starts_warm_unless_the_trial_says_otherwise(launch: str) -> None:
    assert start_of(make_trial({"launch": launch})) == ("warm", "")
    assert start_of(make_trial({"launch": launch, "start": "cold"})) == ("cold", "")


@pytest.mark.parametrize(
    ("fields", "nodes", "why"),
    [
        ({"start_method": "fork"}, 1, "start_method = 'fork' applies only to new processes"),
        ({"start_method": "forkserver"}, 1, "start_method = 'forkserver' applies only to new processes"),
        ({"compile": True}, 1, "torch.compile starts compilers that need a new process"),
        ({"bottleneck": [SLOW]}, 1, "on slow links each rank has its own network namespace"),
        ({"launch": "launch"}, 2, "torch.distributed.launch first waits for the other nodes"),
        ({"launch": "spawn"}, 2, None),
    ],
)
def test_what_needs_new_processes_starts_cold_and_says_why(fields: dict[str, Any], nodes: int, why: str | None) -> None:
    assert start_of(make_trial(fields), nodes) == (("cold", why) if why else ("warm", ""))
