"""Readers of foreign logs, each of which yields batches of the common rows."""
