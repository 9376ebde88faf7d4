"""A run of primitives as text: tables, plots, exports."""
