"""The console in the terminal: the only part of ddptui that imports textual."""

import os

# By default, Textual paints at most 60 times a second. A key that arrives while it paints much often waits for
# the next frame but one, for 14 to 25 ms. Textual reads this variable on import; unchanged screens are not repainted.
os.environ.setdefault("TEXTUAL_FPS", "120")
