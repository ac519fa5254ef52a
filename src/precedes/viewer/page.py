"""The page: skeleton, head, events and scripts in one standalone file.

The events of a run are packed: arrays back to back, and their description as plain values.

An inline module cannot import another one without a URL for it. So the modules are files that
import each other by name, for readers and editors, and the page gets them in one scope, one after
another, without those lines. A name that two of them declare would be one name there: it is
refused.

``model.js`` reads the arrays and indexes them by lanes and messages, ``causality.js`` follows them,
``lockstep.js`` compares two traces. ``layout.js`` says where things are; ``frame.js``, ``scene.js``
and ``overlay.js`` draw them, through ``surface.js`` alone. ``viewer.js`` holds what is seen and
selected, ``walks.js`` goes from event to event, ``input.js`` has keys and pointers, ``panel.js``,
``lanes.js`` and ``search.js`` what stands around the diagram; ``hook.js`` is for tests. The live
page of a cluster is ``watch.js``.
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
EDGE: Final = 5  # the next event of the lane follows this message directly
NO_LANE: Final = 0xFFFF
LANES_MAX: Final = NO_LANE
WATCH_STYLE: Final = """
#lanes { display: block; width: 100%; }
.held { color: var(--good); }
.violated, .bad { color: var(--bad); }
.quiet { color: var(--quiet); }
"""
LEVEL: Final = 4  # on these arrays smaller than 6 and 9, and 4 to 30 times as fast


def page(shown: Sequence[Shown], *, command: str) -> str:
    """The whole page as text; the same traces and options give the same bytes.

    Its opening window is that of the first trace.
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
            f"{_packed(one.packed.bytes())}</script>"
            for number, one in enumerate(shown)
        ),
        *(
            f'<script type="application/json+gzip;base64" id="precedes-texts-{number}">'
            f"{_packed(json.dumps(one.packed.texts, ensure_ascii=False).encode())}</script>"
            for number, one in enumerate(shown)
            if one.packed.texts
        ),
        f'<script type="module">\n{script()}</script>',
    ]
    return pages.document(title=f"{title}: precedes", body="\n".join(parts), style=style())


def _packed(data: bytes) -> str:
    """Bytes in gzip and base64, without a date."""
    return base64.b64encode(gzip.compress(data, LEVEL, mtime=0)).decode()


def _inert(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A run as a page holds it; ``docs/view.md`` documents the arrays."""

    head: dict[str, Any]
    texts: list[str | None]  # of each event, or none
    time_us: NDArray[np.float64]
    message: NDArray[np.uint32]
    wait_us: NDArray[np.uint32]
    lane: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    message_source: NDArray[np.uint16]
    message_sequence: NDArray[np.uint32]

    def bytes(self) -> bytes:
        """The arrays, little-endian, back to back: 19 bytes an event and 6 a message."""
        arrays = [getattr(self, item.name) for item in fields(self)[2:]]
        return b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)


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
    """Styles of the viewer in addition to those of all pages."""
    return pages.read(__package__, "page.css")


def script() -> str:
    """The text of one ``<script type="module">``, to stand after the data."""
    return _script(MODULES, "viewer.js")


def watch_page() -> str:
    """The page of ``precedes cluster --watch``, which asks its server for ``state``."""
    body = pages.read(__package__, "watch.html")
    script = _script(("words.js", "surface.js", "watch.js"), "watch.js")
    body += f'<script type="module">\n{script}</script>'
    icon = '<link rel="icon" href="data:,">'  # none: a browser would ask the server for one
    return pages.document(title="Live group: precedes", body=body, style=WATCH_STYLE, head=icon)


def _script(modules: Sequence[str], name: str) -> str:
    texts = {module: pages.read(__package__, module) for module in modules}
    return joined(texts) + f"//# sourceURL=precedes/{name}\n"


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
