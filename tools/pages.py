"""A hook of the build: puts pages and examples into the wheel.

An editable installation has them in the repository.
"""

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Pages(BuildHookInterface):
    """Adds what pyproject.toml lists under the hook's ``share``."""

    def initialize(self, version, build_data):
        """Called by hatchling before it builds."""
        if version != "editable":
            build_data["force_include"].update(self.config["share"])
