"""Runs and presets on disk."""
