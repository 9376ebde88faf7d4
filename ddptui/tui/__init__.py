"""The console in the terminal: the only part of ddptui that imports textual."""

import os

# Textual paints 60 times a second at most, and a key that comes while it paints waits for the next time but one.
# It reads this when it is imported. Pictures do not become more: a run's screen changes four times a second.
os.environ.setdefault("TEXTUAL_FPS", "120")
