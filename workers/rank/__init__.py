"""The process of a rank: its number, device, process group, and connection to the console."""
