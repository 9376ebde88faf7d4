"""The process of a rank: its number, its device, its group, and its end of the wire."""
