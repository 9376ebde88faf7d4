"""Imports, in a forkserver, what all ranks need: once, before it forks the first rank."""

import gc

import workers.train  # noqa: F401

gc.freeze()  # a garbage collection in a rank would copy the pages that it shares; at exit it would take a second
