"""The primitives of torch.distributed on their own: shown, and timed. Pure: no I/O, no clock."""
