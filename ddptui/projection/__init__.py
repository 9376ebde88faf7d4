"""Predicts a measured trial on more ranks: their own work, the wait for the slowest of many, and a network."""


class ProjectionError(ValueError):
    """A projection that cannot be made, or an option that makes no sense; its text is one line."""
