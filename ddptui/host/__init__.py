"""This machine: cores, memory, GPUs, network, folders, and what its environment says of a process."""
