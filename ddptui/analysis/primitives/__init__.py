"""The primitives of torch.distributed on their own: shown, timed, explained by a model. Pure: no I/O, no clock."""
