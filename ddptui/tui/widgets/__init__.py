"""A widget a file."""
