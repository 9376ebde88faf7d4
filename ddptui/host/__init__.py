"""This machine: cores, memory, GPUs, network, folders, and the variables that place a process among ranks."""
