"""What the engine `slurm` is made of: the job of a run, its script and its state, and what is checked before."""
