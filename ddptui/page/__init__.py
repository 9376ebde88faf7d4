"""Renders a run, a projection or a comparison as one HTML file, which needs no other files and no network."""
