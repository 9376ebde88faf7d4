"""The console: a terminal user interface, and the only part of ddptui that imports textual."""

import os

# By default, Textual paints at most 60 times a second; a key that arrives during a large repaint then often waits for
# two frames, 14 to 25 ms. Textual reads this variable on import. Unchanged screens are not repainted.
os.environ.setdefault("TEXTUAL_FPS", "120")
