"""The script of a job: what it asks of Slurm, and what each of its tasks starts. Pure, but for bash's own opinion."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddptui.config.engine import EngineOptions
from ddptui.config.trial import Trial
from ddptui.config.trial_values import make_trial
from ddptui.engines.slurm.script import ScriptError, check_options, example, render, wire_env

FOLDER = Path("/runs/one/trial-a/repeat-1")


def trial(**fields: Any) -> Trial:
    ours = {"name": "a", "launch": "task", "world_size": 4, "strategy": "all_reduce", "steps": 8}
    return make_trial(ours | fields)


def one_process(launch: str, **fields: Any) -> Trial:
    return make_trial({"name": "a", "launch": launch} | fields)


def engine(**fields: Any) -> EngineOptions:
    return EngineOptions(name="slurm", **{"nodes": 2, **fields})


def rendered(trial: Trial, engine: EngineOptions, folder: Path = FOLDER) -> str:
    script = render(trial, engine, folder, "ddptui-one-a-1", "python")
    if bash := shutil.which("bash"):
        subprocess.run([bash, "-n"], input=script, text=True, check=True)
    return script


def options(script: str) -> list[str]:
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH ")]
    return [line.removeprefix("#SBATCH ") for line in lines]


def body(script: str) -> str:
    return script[script.index("set -euo") :]


def test_a_rank_is_a_task_of_its_own() -> None:
    script = rendered(trial(), engine())
    assert options(script) == [
        "--job-name=ddptui-one-a-1",
        "--nodes=2",
        "--ntasks=4",
        "--ntasks-per-node=2",
        "--distribution=block",
        f"--chdir={FOLDER}",
        f"--output={FOLDER}/launcher.log",
        "--open-mode=append",
        "--no-requeue",
    ]
    assert "    source ./wire.env || exit 1\n    exec python -m workers.task steps=8\n}" in script
    assert script.endswith("srun --export=ALL --kill-on-bad-exit=1 --wait=0 bash -c task\n")


def test_where_ranks_cannot_be_shared_out_evenly_nothing_is_said_of_a_node() -> None:
    asked = options(rendered(trial(world_size=3), engine()))
    assert "--ntasks=3" in asked
    assert not any("per-node" in option for option in asked)


def test_a_small_world_takes_fewer_nodes() -> None:
    assert "--nodes=2" in options(rendered(trial(world_size=2), engine(nodes=8)))


def test_what_the_engine_says_and_what_was_typed_is_asked_for() -> None:
    said = engine(partition="gpu", account="lab", gres="gpu:2", time="10:00", options=("--exclusive", "--mem 4G"))
    asked = options(rendered(trial(), said))
    assert {"--partition=gpu", "--account=lab", "--gres=gpu:2", "--time=10:00"} < set(asked)
    assert asked[-2:] == ["--exclusive", "--mem 4G"]


def test_threads_are_cores_of_the_tasks_and_srun_is_told_so() -> None:
    script = rendered(trial(threads=3), engine())
    assert "--cpus-per-task=3" in options(script)
    assert "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" in script
    assert "SRUN_CPUS" not in rendered(trial(threads=1), engine())
    assert "SRUN_CPUS" in rendered(trial(), engine(options=("-c 2",)))
    a_node = rendered(trial(launch="spawn", threads=3), engine(tasks="node"))
    assert "--cpus-per-task=6" in options(a_node)


def test_a_node_is_told_which_it_is_and_starts_its_ranks() -> None:
    script = rendered(trial(launch="spawn"), engine(tasks="node"))
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1"} < set(options(script))
    assert 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)' in script
    assert "MASTER_PORT=$((15000 + SLURM_JOB_ID % 15000))\nexport MASTER_ADDR MASTER_PORT\n" in script
    assert (
        "    export NNODES=$SLURM_JOB_NUM_NODES NODE_RANK=$SLURM_NODEID\n"
        "    exec python -m workers.spawn world_size=4 steps=8\n"
    ) in script


@pytest.mark.parametrize(("ranks", "there"), [(4, "2"), (3, "$((SLURM_NODEID < 1 ? 2 : 1))")])
def test_torchs_launcher_is_started_once_a_node(ranks: int, there: str) -> None:
    script = rendered(trial(launch="launch", world_size=ranks), engine(tasks="node"))
    assert f"--nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node={there} \\\n" in script
    assert "--master_addr=$MASTER_ADDR --master_port=$MASTER_PORT \\\n        -m workers.launch steps=8\n" in script


def test_in_an_array_each_rank_is_a_job_and_they_meet_at_a_file() -> None:
    script = rendered(trial(world_size=3), engine(tasks="array"))
    assert {"--array=0-2", "--nodes=1", "--ntasks=1"} < set(options(script))
    assert f"export INIT_METHOD=file://{FOLDER}/meeting\n" in script
    elsewhere = rendered(trial(), engine(tasks="array", shared="/scratch"))
    assert "export INIT_METHOD=file:///scratch/ddptui-one-a-1.meeting\n" in elsewhere


def test_ranks_may_meet_at_a_file_in_any_case() -> None:
    assert "export INIT_METHOD" in rendered(trial(init_method="file"), engine())
    assert "export INIT_METHOD" not in rendered(trial(), engine())


@pytest.mark.parametrize("tasks", ["rank", "node", "array"])
@pytest.mark.parametrize(("launch", "fields", "cores"), [("single", {}, 1), ("dp", {"world_size": 4}, 4)])
def test_one_process_is_one_task_whatever_a_task_is(launch: str, fields: Any, cores: int, tasks: str) -> None:
    script = rendered(one_process(launch, **fields), engine(tasks=tasks))
    asked = options(script)
    assert asked[1:3] == ["--nodes=1", "--ntasks=1"]
    assert (f"--cpus-per-task={cores}" in asked) == (cores > 1)
    assert f"exec python -m workers.{launch}" in script
    assert "MASTER_ADDR=" not in script


def test_odd_folders_and_odd_words_are_spelled_as_sbatch_and_bash_read_them() -> None:
    folder = Path("/runs/a b#%j'\"é/x")
    script = rendered(trial(bottleneck=[{"at": "data", "ranks": [1], "sleep_ms": 5}]), engine(), folder)
    assert '--chdir="/runs/a b#%j\'\\"é/x"' in options(script)
    assert '--output="/runs/a b#%%j\'\\"é/x/launcher.log"' in options(script)
    assert "'bottleneck=[{at = \"data\", ranks = [1], sleep_ms = 5.0}]'" in script


@pytest.mark.parametrize("name", ["back\\slash", "two\nlines", "bell\a"])
def test_what_cannot_be_spelled_is_refused(name: str) -> None:
    with pytest.raises(ScriptError, match="cannot be written into a script"):
        rendered(trial(), engine(), Path("/runs") / name)


def test_a_file_that_no_address_can_name_is_refused() -> None:
    with pytest.raises(ScriptError, match=r"with \? or # in its path"):
        rendered(trial(), engine(tasks="array"), Path("/runs/#1"))


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("exclusive", "is none of sbatch's"),
        ("--", "is none of sbatch's"),
        ("--comment='x", "a quote is not closed"),
        ("--array=0-9", "ddptui sets --array itself"),
        ("-N 4", "ddptui sets --nodes itself"),
        ("-n4", "ddptui sets --ntasks itself"),
        ("--output x", "ddptui sets --output itself"),
        ("--mem=4G # all", "cannot be written"),
        ("--exclusive --nodes=4", "ddptui sets --nodes itself"),
        ("-pdebug -N3", "ddptui sets --nodes itself"),
        ("-HN3", "ddptui sets --nodes itself"),
        ("--out=x", "ddptui sets --output itself"),
        ("--arr 0-9", "ddptui sets --array itself"),
        ("--mem 4G --ntasks-per-n=2", "ddptui sets --ntasks-per-node itself"),
        ("--exclusive -- x", "is none of sbatch's"),
    ],
)
def test_options_that_the_lab_has_to_give_itself_are_refused(option: str, why: str) -> None:
    with pytest.raises(ScriptError, match=why):
        check_options(engine(options=(option,)))


def test_options_that_anybody_may_give_are_taken() -> None:
    fine = ("--exclusive", "-c4", "--constraint=a|b", "--comment='two words'", "-x n1", "-pN", "-Hpa --mem 4G -t 5")
    check_options(engine(options=(*fine, "--nodelist=n1", "--ntasks-per-core=1", "--wait-all-nodes=1")))


SAID = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "NNODES": "1", "PET_NODE_RANK": "0", "PET_MAX_RESTARTS": "3",
        "TORCHELASTIC_RUN_ID": "x", "TORCHELASTIC_TIMER_FILE": "x", "MASTER_ADDR": "elsewhere", "MASTER_PORT": "1",
        "INIT_METHOD": "file:///x"}  # fmt: skip


@pytest.mark.parametrize(
    ("tasks", "launch", "left"),
    [
        ("rank", "task", {}),
        ("array", "task", {"INIT_METHOD": "file://{folder}/meeting"}),
        ("node", "spawn", {"MASTER_ADDR": "n1", "MASTER_PORT": "15007", "NNODES": "2", "NODE_RANK": "0"}),
        ("node", "single", {}),
    ],
)
def test_what_a_shell_says_of_other_ranks_does_not_reach_the_tasks(
    tmp_path: Path, tasks: str, launch: str, left: dict[str, str]
) -> None:
    """The script as it is, with an srun that starts one task, and a task that says where it is."""
    programs = {
        "srun": 'while [ "$1" != bash ]; do shift; done; exec "$@"',
        "scontrol": "echo n1",
        "python": "env > said",
    }
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "wire.env").touch()
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n", "SLURM_JOB_NUM_NODES": "2", "SLURM_NODEID": "0"}
    slurm["SLURM_CPUS_PER_TASK"] = "2"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", **SAID, **slurm}
    one = one_process(launch) if launch == "single" else trial(launch=launch)
    script = rendered(one, engine(tasks=tasks), tmp_path)
    subprocess.run(["bash"], input=script, cwd=tmp_path, env=environment, text=True, check=True)
    found = dict(line.partition("=")[::2] for line in (tmp_path / "said").read_text().splitlines())
    assert {name: found[name] for name in found if name in (*SAID, "NODE_RANK")} == {
        name: value.format(folder=tmp_path) for name, value in left.items()
    }
    assert found["SLURM_JOB_ID"] == "7"


def test_an_example_says_where_things_go() -> None:
    assert "#SBATCH --chdir=/RUNS/RUN/trial-a/repeat-1\n" in example(trial(), engine())


def test_variables_arrive_as_they_were(tmp_path: Path) -> None:
    odd = {"TOKEN": 'it\'s $HOME `x` "y"\\', "PLAIN": "1"}
    (tmp_path / "wire.env").write_text(wire_env(odd))
    show = 'source ./wire.env; printf "%s|%s" "$TOKEN" "$PLAIN"'
    done = subprocess.run(["bash", "-c", show], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == 'it\'s $HOME `x` "y"\\|1'


def test_a_job_that_waited_for_a_console_that_is_gone_starts_nothing(tmp_path: Path) -> None:
    """The script as it is, where there is no wire.env; srun would leave a trace."""
    (tmp_path / "srun").write_text("#!/bin/bash\ntouch began\n")
    (tmp_path / "srun").chmod(0o755)
    script = rendered(trial(), engine(), tmp_path)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=script, cwd=tmp_path, env=path, text=True, capture_output=True, check=False)
    assert done.returncode == 1
    assert "the console is gone" in done.stderr
    assert not (tmp_path / "began").exists()
    assert (tmp_path / "ended").read_text() == "1\n"
    (tmp_path / "wire.env").touch()
    subprocess.run(["bash"], input=script, cwd=tmp_path, env=path, text=True, check=True)
    assert (tmp_path / "began").exists()
