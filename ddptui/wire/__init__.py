"""What ranks, nodes and console send each other. Pure."""
