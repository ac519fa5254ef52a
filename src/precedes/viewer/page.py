"""The page: skeleton, head, events and scripts in one file that opens from disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from precedes import pages
from precedes.provenance import made_by
from precedes.viewer import scripts
from precedes.viewer.pack import FORMAT
from precedes.viewer.shown import Shown


def head_of(shown: Sequence[Shown], *, command: str) -> dict[str, Any]:
    """What the page says of its traces; it opens on what the first one opens on."""
    return {
        "format": FORMAT,
        "made_by": made_by(),
        "command": command,
        "opening": {"trace": 0, **shown[0].opening._asdict()},
        "traces": [one.packed.head for one in shown],
    }


def page(shown: Sequence[Shown], *, command: str) -> str:
    """The whole page as text; the same traces and options give the same bytes."""
    head = json.dumps(head_of(shown, command=command), ensure_ascii=False, allow_nan=False)
    title = " and ".join(one.packed.head["title"] for one in shown)
    parts = [
        scripts.skeleton(),
        f'<script type="application/json" id="precedes-head">{_inert(head)}</script>',
        *(
            f'<script type="application/octet-stream;base64" id="precedes-events-{number}">'
            f"{one.packed.text()}</script>"
            for number, one in enumerate(shown)
        ),
        f'<script type="module">\n{scripts.script()}</script>',
    ]
    return pages.document(title=f"{title}: precedes", body="\n".join(parts), style=scripts.style())


def _inert(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
