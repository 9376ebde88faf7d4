"""What `ddptui watch` puts into a training that was not written for it. See docs/watch.md."""
