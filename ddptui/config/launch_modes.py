"""The launch modes: what each is called on screens and in tables, and which of them run one process."""

LABELS = {
    "single": "one process, no group",
    "dp": "nn.DataParallel; without GPUs: threads, CPU stand-in",
    "process": "mp.Process",
    "launch": "torch.distributed.launch",
    "spawn": "mp.spawn",
    "task": "one task per rank, started by Slurm or by hand",
}
ALONE = ("single", "dp")  # launch modes of one process
