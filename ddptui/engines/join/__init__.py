"""The engine `join`: ranks on nodes that have joined this console."""
