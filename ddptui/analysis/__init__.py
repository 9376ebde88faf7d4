"""What happened: from messages to the figures of a repeat, a trial and a run. Pure."""
