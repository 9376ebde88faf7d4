"""Replicas of a model inside one process, as nn.DataParallel has them."""
