"""The code that `ddptui watch` injects into the processes of a training that was not written for it: docs/watch.md."""
