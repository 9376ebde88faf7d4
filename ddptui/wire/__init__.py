"""The messages that ranks, nodes and the console exchange. No module here does I/O."""
