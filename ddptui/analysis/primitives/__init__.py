"""Results of the primitives of torch.distributed, shown or timed on their own. Pure: no I/O, no clock."""
