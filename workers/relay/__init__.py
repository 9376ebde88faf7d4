"""The process of ddptui's own on a host of a watched training: reads what its ranks note, and reports as ranks do.

It has the console's environment, not the training's; it imports no torch. If it ends, the ranks are no longer watched.
"""
