"""Words, units, tables and drawings as text: everything that knows nothing of training."""
