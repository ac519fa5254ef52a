"""Readers of other people's logs."""

from precedes.trace.importers.jsonl import read_jsonl

__all__ = ["read_jsonl"]
