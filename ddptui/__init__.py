"""ddptui, the console: a lab for distributed data-parallel training, in the terminal. It never imports torch."""

from ddptui.wire.phases import phase, step

__version__ = "0.1.0"
__all__ = ["phase", "step"]
