"""The engine `slurm`: submits the job of a run, follows its state, and checks options before the start."""
