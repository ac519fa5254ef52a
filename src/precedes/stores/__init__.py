"""Where files are: on this machine, or in a store such as S3 (docs/stores.md).

``Address`` names a file or a folder, and does with it what is the same everywhere: look, list,
read, put whole, remove. ``lease`` makes a process the only one that works in a folder, ``handed``
has work on other machines open stores as this process does. pyarrow is
imported when the first URL is opened, not before.
"""

from precedes.stores.address import (
    Address,
    Entry,
    Place,
    StoreError,
    Work,
    handed,
    local_path,
    look,
)
from precedes.stores.leases import Lease, lease

__all__ = [
    "Address",
    "Entry",
    "Lease",
    "Place",
    "StoreError",
    "Work",
    "handed",
    "lease",
    "local_path",
    "look",
]
