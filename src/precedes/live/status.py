"""Status of a member's group, for ``/members`` and ``precedes members``."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any, Final

from precedes.errors import UserError
from precedes.live.metrics import health
from precedes.live.net.discovery import reason_of, split_address

if TYPE_CHECKING:
    from precedes.live.driver import Driver

PATH: Final = "/members"
TIMEOUT_S: Final = 10.0
STATUS_BYTES_MAX: Final = 1 << 22


def status_of(driver: Driver) -> dict[str, Any]:
    """The view of a member, and what it lacks, as JSON can have it.

    Names are listed once more by what is wrong: ``learners`` have no vote yet, ``suspected`` are
    silent or unreachable here, ``disconnected`` have no connection with this member, and
    ``blocked`` are missing for a quorum.
    """
    view, membership = driver.view, driver.membership
    entries = () if view is None else view.entries
    voters = frozenset() if view is None else view.voters
    suspects = set() if membership.agreement is None else membership.agreement.suspects
    unlinked = set(driver.missing_links())
    word, problems = health(driver)
    return {
        "group": driver.config.name,
        "member": str(driver.config.member),
        "number": driver.member,
        "protocol": driver.config.protocol,
        "health": word,
        "problems": problems,
        "epoch": 0 if view is None else view.epoch,
        "members": [
            {
                "number": entry.uid - 1,
                "name": entry.name,
                "address": entry.address,
                "vote": entry.uid in voters,
            }
            for entry in sorted(entries)
        ],
        "learners": [entry.name for entry in entries if entry.uid not in voters],
        "suspected": [entry.name for entry in entries if entry.uid in suspects],
        "disconnected": [entry.name for entry in entries if entry.uid - 1 in unlinked],
        "blocked": list(membership.blocked),
    }


def fetch_status(address: str) -> dict[str, Any]:
    """Request the status from a member that serves metrics at this address."""
    host, port = split_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", PATH)
        response = connection.getresponse()
        body = response.read(STATUS_BYTES_MAX)
    except OSError as error:
        text = f"no member answers at {address}: {reason_of(error)}"
        raise UserError(f"{text}; name the address of its metrics") from None
    except http.client.HTTPException:
        raise _not_a_member(address) from None
    finally:
        connection.close()
    try:
        status = json.loads(body)
    except ValueError:
        raise _not_a_member(address) from None
    if response.status != http.client.OK or not _is_status(status):
        raise _not_a_member(address)
    return dict(status)


def _not_a_member(address: str) -> UserError:
    return UserError(f"the server at {address} is not a member: name the address of its metrics")


def _is_status(status: object) -> bool:
    """Return whether an answer has what ``status_of`` returns."""
    if not isinstance(status, dict):
        return False
    texts, lists = ("group", "member", "health"), ("problems", "members", "blocked", "suspected")
    members = status.get("members")
    return (
        all(isinstance(status.get(name), str) for name in texts)
        and all(isinstance(status.get(name), list) for name in (*lists, "disconnected"))
        and isinstance(status.get("epoch"), int)
        and isinstance(members, list)
        and all(
            isinstance(one, dict) and {"number", "name", "address", "vote"} <= one.keys()
            for one in members
        )
    )
