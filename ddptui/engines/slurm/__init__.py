"""What the engine `slurm` is made of: a job's script, who keeps it, where it stands, and what is checked before."""
