"""Runs of machines that share a radio channel and move."""
