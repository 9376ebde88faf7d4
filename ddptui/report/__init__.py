"""A run as text: tables, sentences, exports."""
