"""Reads and writes runs, presets and settings on disk."""
