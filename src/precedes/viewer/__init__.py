"""The space-time diagram of a log, as a standalone HTML page.

>>> from precedes.viewer import write_view
>>> view = write_view("examples/chat.jsonl", "chat.html")  # doctest: +SKIP
>>> view.opening.why  # doctest: +SKIP
'first violation'
"""

from __future__ import annotations

from precedes.viewer.view import View, html, picture, view, write, write_view
from precedes.viewer.window import Asked

__all__ = ["Asked", "View", "html", "picture", "view", "write", "write_view"]
