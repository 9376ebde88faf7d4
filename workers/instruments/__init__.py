"""Watches a training loop from outside: its phases, its collectives, its clock, its position."""
