"""Processes that want to join, as a member knows them (R10)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from precedes.errors import PeerError
from precedes.live.membership.records import Join
from precedes.live.membership.values import MEMBERS_MAX, Entry, View

JOINERS_MAX: Final = MEMBERS_MAX


class Joiners:
    """The last JOIN of each process that this member has a link with.

    At most ``JOINERS_MAX``: further ones are ignored, and repeat their request. A life that was in
    a view is never admitted again: its request may arrive after it has left.
    """

    def __init__(self) -> None:
        self._joins: dict[bytes, Join] = {}
        self._admitted: set[bytes] = set()

    def on_join(self, life: bytes, name: str, record: Join) -> None:
        """Keep a request; PeerError if it is for another process than its sender."""
        if record.entry.life != life or record.entry.name != name:
            raise PeerError("a joiner asks for another one", record.entry.name)
        if record.entry.uid != 0:
            raise PeerError("a joiner chooses its uid", str(record.entry.uid))
        if len(record.lives) > JOINERS_MAX + MEMBERS_MAX:
            raise PeerError("a joiner has too many links", str(len(record.lives)))
        if life in self._admitted:
            return
        if life in self._joins or len(self._joins) < JOINERS_MAX:
            self._joins[life] = record

    def on_view(self, view: View) -> None:
        """A view is installed: its members have what they asked for."""
        self._admitted.update(view.uid_of)
        for life in view.uid_of:
            self._joins.pop(life, None)

    def forget(self, life: bytes) -> None:
        """The link with a process is gone."""
        self._joins.pop(life, None)

    def admissible(self, view: View, suspects: Collection[int], uid: int) -> tuple[Entry, ...]:
        """Return those that ``uid`` proposes for the view after this one.

        Not the name of the only voter, which has the only state: views would change without end.
        """
        return tuple(
            join.entry
            for life, join in self._joins.items()
            if life not in view.uid_of
            and is_linked(join, view, suspects, uid)
            and not is_only_voter(view, join.entry.name)
        )


def is_linked(join: Join, view: View, suspects: Collection[int], uid: int) -> bool:
    """Return whether a joiner has links with the members that ``uid`` does not suspect.

    Without a link it and that member would exclude each other in turns. The holder of its name does
    not count: the view excludes it.
    """
    return all(
        entry.life in join.lives or entry.name == join.entry.name
        for entry in view.entries
        if entry.uid != uid and entry.uid not in suspects
    )


def is_only_voter(view: View, name: str) -> bool:
    """Return whether this is the name of the only voter."""
    return {view.entry(uid).name for uid in view.voters} == {name}
