"""A real cluster of two nodes on this host: munged, slurmctld and two slurmd, all their files in one folder."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from ddptui.host.network import NetworkError, choose_interface

NODES = ("n1", "n2")
CORES = 4  # a node's; that this host has fewer does not matter
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo", "scontrol", "srun", "unshare")
UP_WITHIN_S = 30.0
GONE_WITHIN_S = 10.0
LONGEST_PATH = 60  # the daemons have sockets below it
CONFIGURATION = """\
ClusterName=ddptui
SlurmctldHost=localhost
SlurmctldPort={control_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
MinJobAge=60
OverTimeLimit=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=small Nodes=n1 MaxNodes=1 MaxTime=1 State=UP
"""


def lacking() -> str | None:
    """What this host lacks for a cluster; None: nothing."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt install slurm-wlm munge"
    if os.geteuid() != 0:
        return "a cluster's daemons want root"
    try:
        choose_interface()
    except NetworkError as error:
        return str(error)
    return None


class Cluster:
    def __init__(self, folder: Path) -> None:
        assert len(str(folder)) < LONGEST_PATH
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._daemons: list[psutil.Process] = []
        self._write_files()

    def _write_files(self) -> None:
        control_port, *ports = free_ports(1 + len(NODES))
        nodes = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={CORES}"
            for name, port in zip(NODES, ports, strict=True)
        ]
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (self.folder / "munge.key").chmod(0o600)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, control_port=control_port, nodes="\n".join(nodes))
        )
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{choose_interface().address} {' '.join(NODES)}\n")

    def start(self) -> None:
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "munged.pid", "log-file": "munged.log",
                 "seed-file": "munged.seed"}  # fmt: skip
        self._begin("munged", "--foreground", "--force", *(f"--{key}={self.folder / it}" for key, it in files.items()))
        self._until((self.folder / "munge.socket").exists)
        self._begin("slurmctld", "-D", "-c")
        for node in NODES:  # in a mount namespace, where the nodes' names have an address that is not loopback
            own_hosts = f"mount --bind {self.folder}/hosts /etc/hosts && exec slurmd -D -N {node}"
            self._begin("unshare", "--mount", "sh", "-c", own_hosts)
        self._until(lambda: self.says("sinfo", "--noheader", "--states=idle", "--format=%D").strip() == str(len(NODES)))

    def _begin(self, *command: str) -> None:
        """A daemon that is nobody's child: it outlives the test that happened to be the first."""
        apart = '"$@" </dev/null >>daemons.out 2>&1 & echo $!'
        done = subprocess.run(
            ["sh", "-c", apart, "sh", *command],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            start_new_session=True,
        )
        self._daemons.append(psutil.Process(int(done.stdout)))

    def _until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + UP_WITHIN_S
        while not reached():
            assert all(is_alive(daemon) for daemon in self._daemons), self._out()
            assert time.monotonic() < deadline, self._out()
            time.sleep(0.02)

    def _out(self) -> str:
        return (self.folder / "daemons.out").read_text(errors="replace")[-4000:]

    def says(self, *command: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=UP_WITHIN_S, check=False
        )
        return done.stdout

    def queue(self) -> list[str]:
        """What has not ended, a line each."""
        return self.says("squeue", "--noheader", "--format=%i %T %j").splitlines()

    def stop(self) -> None:
        """The daemons, the nodes' before the others; then whom they may have left, step daemons above all."""
        self.says("scancel", "--user=root")
        for daemon in reversed(self._daemons):
            _end(daemon)
        for process in self.left():
            _end(process)

    def left(self) -> list[psutil.Process]:
        """Whoever has this cluster's configuration in its environment: its daemons, tasks and commands."""
        mark = self.environment["SLURM_CONF"]
        return [process for process in psutil.process_iter() if _variable(process, "SLURM_CONF") == mark]

    def tasks(self) -> list[psutil.Process]:
        """What jobs have started on the nodes, and has not ended."""
        return [process for process in self.left() if _variable(process, "SLURM_JOB_ID") and is_alive(process)]


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _variable(process: psutil.Process, name: str) -> str | None:
    try:
        return process.environ().get(name) if process.pid != os.getpid() else None
    except psutil.Error:
        return None


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.terminate()
        deadline = time.monotonic() + GONE_WITHIN_S
        while is_alive(process) and time.monotonic() < deadline:  # it is nobody's child, and may stay as a zombie
            time.sleep(0.02)
        if is_alive(process):
            process.kill()


def free_ports(count: int) -> list[int]:
    """Of this host, that nobody listens at now; all at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
