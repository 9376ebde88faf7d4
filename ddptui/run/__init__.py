"""A run from its preset to its results: started, supervised, recorded, replayed."""
