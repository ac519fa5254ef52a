"""Specifications with an error: the class of a specification, with another method."""

import textwrap


def write(directory, protocol, method, name="variant"):
    """The file of a protocol whose Process is the specification's with these methods."""
    path = directory / f"{name}.py"
    path.write_text(
        f'"""A variant of {protocol}."""\n'
        f"from precedes.protocols.{protocol}.spec import *\n\n"
        f"class Process(Process):\n{textwrap.indent(textwrap.dedent(method), '    ')}"
    )
    return str(path)
