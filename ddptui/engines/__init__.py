"""Engines: they start, watch and end ranks on this host, on joined nodes, or as Slurm jobs."""
