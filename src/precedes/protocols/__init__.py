"""The protocols: one file each, found by scanning this folder."""

from precedes.protocols.registry import Protocol, load, names

__all__ = ["Protocol", "load", "names"]
