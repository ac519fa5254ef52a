"""Sorts events in any order, with names: into memory, or on disk however many there are."""
