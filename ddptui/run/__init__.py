"""Takes a run from its preset to its results: starts, supervises, records and replays it."""
