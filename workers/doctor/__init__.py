"""The checks that `ddptui doctor` runs in separate processes: torch's features, a small process group, guarded ends."""
