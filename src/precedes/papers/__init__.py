"""The papers: published figures as data, the runs that produce them, and the comparison."""

from precedes.papers.claims import Claim, write_claims
from precedes.papers.reproduce import PAPERS, reproduce

__all__ = ["PAPERS", "Claim", "reproduce", "write_claims"]
