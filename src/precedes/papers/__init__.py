"""The papers: published figures as data, the runs that produce them, and the comparison."""

from precedes.papers.claims import Claim
from precedes.papers.outcome import Outcome, reproduce
from precedes.papers.registry import load, papers
from precedes.papers.shown import Figure, Table

__all__ = ["Claim", "Figure", "Outcome", "Table", "load", "papers", "reproduce"]
