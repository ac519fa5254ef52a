"""One schedule of group membership: ``python -m tests.support.membership PROFILE SEED``."""

import sys

from tests.support.membership.same import check

covered = check(sys.argv[1], int(sys.argv[2]))
print(*(f"{name} {count}" for name, count in sorted(covered.items())), sep="\n")
