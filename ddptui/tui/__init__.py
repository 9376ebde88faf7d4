"""The console in the terminal: the only part of ddptui that imports textual."""
