"""The relay: ddptui's own process on a host of a watched training. It reads the ranks' notes, and reports for them.

It runs in the console's environment, not in the training's, and does not import torch. If it ends, the ranks are no
longer watched.
"""
