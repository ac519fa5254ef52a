"""The protocols: one file each, found by scanning this folder."""

from precedes.protocols.registry import Protocol, linked, load, names

__all__ = ["Protocol", "linked", "load", "names"]
