"""The engine `join`: runs ranks on nodes that have joined this console."""
