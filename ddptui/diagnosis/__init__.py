"""Diagnosis of a launch that failed or hangs. Pure."""
