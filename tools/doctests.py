"""An extension of the reader of docstrings: their examples are code, not quotations."""

import re

import griffe

EXAMPLE = re.compile(r"^>>> .*\n(?:.+\n?)*", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the lines from a prompt to the next empty line."""

    def on_instance(self, *, obj, **_):
        """Called for every module, class, function and attribute that was read."""
        if obj.docstring is not None:
            fenced = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )
            obj.docstring.value = fenced
