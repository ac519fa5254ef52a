"""The page: skeleton, head, events and scripts in one file that opens from disk.

What is shown of a run is packed: arrays back to back, and what is said of them as plain values.

An inline module cannot import another one without a URL for it. So the modules are files that
import each other by name, for readers and editors, and the page gets them in one scope, one after
another, without those lines. A name that two of them declare would be one name there: it is
refused.

``model.js`` reads the arrays and indexes them by lanes and messages, ``causality.js`` follows them,
``lockstep.js`` compares two traces. ``layout.js`` says where things are; ``frame.js``, ``scene.js``
and ``overlay.js`` draw them, through ``surface.js`` alone. ``viewer.js`` holds what is seen and
selected, ``walks.js`` goes from event to event, ``input.js`` has keys and pointers, ``panel.js``,
``lanes.js`` and ``search.js`` what stands around the diagram; ``hook.js`` is for tests.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from precedes import pages
from precedes.provenance import made_by

if TYPE_CHECKING:
    from precedes.viewer.shown import Shown

FORMAT: Final = 1
BROADCAST: Final = 0
DELIVERY: Final = 1
PENDING: Final = 2  # received and never delivered
VIOLATION: Final = 3  # a delivery
DROPPED: Final = 4
NO_LANE: Final = 0xFFFF
LANES_MAX: Final = NO_LANE
LEVEL: Final = 4  # on these arrays smaller than 6 and 9, and 4 to 30 times as fast


def page(shown: Sequence[Shown], *, command: str) -> str:
    """The whole page as text; the same traces and options give the same bytes.

    It opens on what the first trace opens on.
    """
    about = {
        "format": FORMAT,
        "made_by": made_by(),
        "command": command,
        "opening": {"trace": 0, **shown[0].opening._asdict()},
        "traces": [one.packed.head for one in shown],
    }
    head = json.dumps(about, ensure_ascii=False, allow_nan=False)
    title = " and ".join(one.packed.head["title"] for one in shown)
    parts = [
        skeleton(),
        f'<script type="application/json" id="precedes-head">{_inert(head)}</script>',
        *(
            f'<script type="application/octet-stream;base64" id="precedes-events-{number}">'
            f"{one.packed.text()}</script>"
            for number, one in enumerate(shown)
        ),
        f'<script type="module">\n{script()}</script>',
    ]
    return pages.document(title=f"{title}: precedes", body="\n".join(parts), style=style())


def _inert(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A run as a page holds it: ``docs/view.md`` says what the arrays are."""

    head: dict[str, Any]
    time_us: NDArray[np.float64]
    message: NDArray[np.uint32]
    wait_us: NDArray[np.uint32]
    lane: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    message_source: NDArray[np.uint16]
    message_sequence: NDArray[np.uint32]

    def bytes(self) -> bytes:
        """The arrays, little-endian, back to back: 19 bytes an event and 6 a message."""
        arrays = [getattr(self, item.name) for item in fields(self) if item.name != "head"]
        return b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)

    def text(self) -> str:
        """The same in gzip and base64, without a date."""
        return base64.b64encode(gzip.compress(self.bytes(), LEVEL, mtime=0)).decode()


# In the order in which they are evaluated: a module comes after those that it imports.
MODULES = (
    *("words.js", "model.js", "causality.js", "lockstep.js", "layout.js", "surface.js"),
    *("frame.js", "scene.js", "overlay.js", "panel.js", "lanes.js", "search.js"),
    *("viewer.js", "walks.js", "input.js", "hook.js", "main.js"),
)
IMPORT = re.compile(r"^import\s[^;]*?from\s+\"\./(?P<name>[a-z]+\.js)\";\n", re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)
DECLARED = re.compile(r"^(?:async )?(?:function\*?|class|const|let)\s+(\w+)", re.MULTILINE)


def skeleton() -> str:
    """The body of the page, to which the head and the events of the traces are added."""
    return pages.read(__package__, "page.html")


def style() -> str:
    """What the viewer adds to the style of all pages."""
    return pages.read(__package__, "page.css")


def script() -> str:
    """The text of one ``<script type="module">``, to stand after the data."""
    texts = {name: pages.read(__package__, name) for name in MODULES}
    return joined(texts) + "//# sourceURL=precedes/viewer.js\n"


def joined(texts: dict[str, str]) -> str:
    """Modules in one scope; ``ValueError`` if they cannot stand in one, or in a page."""
    owners: dict[str, str] = {}
    parts = []
    for name, text in texts.items():
        seen = list(texts)[: list(texts).index(name)]
        for imported in IMPORT.finditer(text):
            if imported["name"] not in seen:
                raise ValueError(
                    f"{name} imports {imported['name']}, which does not stand before it"
                )
        body = EXPORT.sub("", IMPORT.sub("", text))
        if re.search(r"^(?:import|export)\b", body, re.MULTILINE):
            raise ValueError(f"{name} imports or exports in a form that cannot be joined")
        if re.search(r"</script|<!--", body, re.IGNORECASE):
            raise ValueError(f"{name} has a text in it that would end the script")
        for declared in DECLARED.findall(body):
            if declared in owners:
                raise ValueError(f"{name} and {owners[declared]} both declare {declared}")
            owners[declared] = name
        parts.append(f"// {name}\n{body.strip()}\n\n")
    return "".join(parts)
