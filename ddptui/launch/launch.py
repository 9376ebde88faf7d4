"""torch.distributed.launch, which starts the entry point once a rank."""

from importlib.util import find_spec
from pathlib import Path

from ddptui.engine import Part
from ddptui.launch.arguments import arguments
from ddptui.preset import Trial


def command(python: str, trial: Trial, part: Part | None = None) -> list[str]:
    where = ["--standalone", f"--nproc_per_node={trial.world_size}"]  # standalone: one host, a port that is free
    if part is not None:
        where = [
            f"--nnodes={part.nodes}",
            f"--node_rank={part.node}",
            f"--nproc_per_node={len(part.ranks)}",
            f"--master_addr={part.address}",
            f"--master_port={part.port}",
        ]
    return [python, "-m", module(), *where, "-m", "workers.launch", *arguments(trial, without=("world_size",))]


def module() -> str:
    """torch.distributed.launch; where a torch no longer has it, torch.distributed.run. torch itself is not imported."""
    torch = find_spec("torch")
    gone = torch is not None and torch.origin and not (Path(torch.origin).parent / "distributed/launch.py").exists()
    return "torch.distributed.run" if gone else "torch.distributed.launch"
