"""ddptui, the console: a lab for distributed data-parallel training, in the terminal. It never imports torch."""

__version__ = "0.1.0"
