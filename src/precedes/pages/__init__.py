"""The style that all pages share, and the frame of a page: one file, without outside resources."""

from __future__ import annotations

from functools import partial
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

__all__ = ["colours", "document", "read", "template"]


def document(*, title: str, body: str, style: str = "", head: str = "") -> str:
    """A whole page around ``body``; ``style`` follows the shared style."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_base()}{style}</style>",
            *([head] if head else []),
            "</head>",
            "<body>",
            body,
            "</body>",
            "</html>",
            "",
        ]
    )


def colours() -> str:
    """The names of the colours alone, light and dark, for pictures outside of a page."""
    text = _base()
    return text[: text.index("* {")]


def read(package: str, name: str) -> str:
    """A text file next to the modules of a package: a style, a script."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


def template(package: str, name: str, **values: Any) -> jinja2.Template:
    """A template next to the modules of a package, and its functions; texts are escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(partial(read, package)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals |= values
    return environment.get_template(name)


def _base() -> str:
    return read("precedes.pages", "base.css")
