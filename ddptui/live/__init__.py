"""The state right now, as a fold of the messages. Pure."""
