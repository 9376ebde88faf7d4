"""Words, units, tables and drawings as text. Nothing here depends on training."""
