"""The compiler process: compiles what a recipe names into the cache, in silence, and ends.

It is started by ``process.Compiler``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from pathlib import Path
from typing import Final

from precedes.compiled import cache
from precedes.compiled.recipes import made_of
from precedes.errors import PrecedesError

# Whoever waits for something on this machine goes first.
NICENESS: Final = 5

# Between two looks at whether the parent is still the parent. The pipe tells at once, unless some
# other process has inherited its end.
LOOK_S: Final = 1.0


def main(
    *, recipe: str, subject: str, root: str, spare: str | None, life: int, said: int, parent: int
) -> None:
    """Be the process."""
    threading.Thread(target=_follow, args=(life, parent), daemon=True).start()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.nice(NICENESS)
    os.environ |= {"PRECEDES_CACHE": root, "PRECEDES_TIER": "compiled"}
    cache.spare = None if spare is None else Path(spare)
    failure: str | None = None
    try:
        made_of(recipe, subject).compile()
    except PrecedesError as error:
        failure = str(error)
    except BaseException as error:
        failure = f"{type(error).__name__}: {error}"
    not_kept = cache.not_kept and (cache.not_kept.strerror or str(cache.not_kept))
    report = {"failure": failure and " ".join(failure.split())[:500], "not_kept": not_kept}
    os.write(said, json.dumps(report).encode())


def _follow(life: int, parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent and not select.select([life], [], [], LOOK_S)[0]:
        pass
    os._exit(1)
