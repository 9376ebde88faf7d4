"""The engine `local`: runs ranks on this host."""
