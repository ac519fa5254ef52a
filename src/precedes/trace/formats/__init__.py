"""Readers of other people's logs, each of which gives batches of the common rows."""
