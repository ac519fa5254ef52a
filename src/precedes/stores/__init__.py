"""Storage of files: on this machine, or in a store such as S3 (docs/stores.md).

``Address`` names a file or a folder, with the operations that are the same everywhere: stat, list,
read, atomic write, remove. ``lease`` gives one process exclusive use of a folder; ``handed``
lets work on other machines open stores as this process does. pyarrow is
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
