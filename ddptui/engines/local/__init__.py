"""The engine `local`: ranks on this host."""
