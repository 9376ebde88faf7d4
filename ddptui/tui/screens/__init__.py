"""A screen a file, with its .tcss beside it."""
