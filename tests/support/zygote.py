"""Use a zygote in this process, which has no threads; a JSON line about it."""

import json
import os
import signal
import time

from precedes.live.cluster.zygote import Zygote

LIMIT_S = 30.0


def run(work, fds):
    """Write the work to one pipe, then wait for the end of the other."""
    out, wait = fds
    os.write(out, work.encode())
    os.close(out)
    os.read(wait, 1)


def main():
    zygote = Zygote(run)
    texts, ends = [], []
    for number in (1, 2):
        (read, write), (wait, held) = os.pipe(), os.pipe()
        zygote.start(number, "hello", [write, wait])
        os.close(write)
        os.close(wait)
        texts.append(f"process {number}: {os.read(read, 100).decode()}")
        ends.append((read, held))
    zygote.signal(2, signal.SIGKILL)
    until_s = time.monotonic() + LIMIT_S
    found = []
    while not found and time.monotonic() < until_s:
        found += zygote.ended()
    zygote.signal(2, signal.SIGKILL)  # it has ended: ignored
    zygote.signal(1, signal.SIGTERM)
    while len(found) < 2 and time.monotonic() < until_s:
        found += zygote.ended()
    zygote.close()
    print(json.dumps({"texts": texts, "ended": found}))


main()
