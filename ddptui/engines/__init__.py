"""Where ranks run, and what starts, watches and ends them there."""
