"""Replicas of a model in one process, as with nn.DataParallel."""
