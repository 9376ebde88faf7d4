"""The state of a run right now, from its messages."""
