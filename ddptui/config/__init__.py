"""What a user writes: presets, trials, engines, and the rules that they keep. Pure."""
