"""What the page has besides its data: skeleton, style, and the modules as one inline script.

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

import re

from precedes import pages

__all__ = ["MODULES", "script", "skeleton", "style"]

# In the order in which they are evaluated: a module comes after those that it imports.
MODULES = (
    "words.js",
    "model.js",
    "causality.js",
    "lockstep.js",
    "layout.js",
    "surface.js",
    "frame.js",
    "scene.js",
    "overlay.js",
    "panel.js",
    "lanes.js",
    "search.js",
    "viewer.js",
    "walks.js",
    "input.js",
    "hook.js",
    "main.js",
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
