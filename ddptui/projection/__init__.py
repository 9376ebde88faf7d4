"""What a measured trial would take on more ranks than one has: its own work, the slowest of many, and a network."""


class ProjectionError(ValueError):
    """What cannot be projected, or asked for: one line."""
