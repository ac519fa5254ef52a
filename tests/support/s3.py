"""A real S3 API on loopback: moto's server, in a process of its own."""

import contextlib
import itertools
import os
import subprocess
import sys
import urllib.request

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""

_numbers = itertools.count(1)


@contextlib.contextmanager
def serve(**environment):
    """The endpoint of a server that lasts as long as the block, and no longer than this process."""
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
    )
    with server:
        try:
            said = (line.split() for line in server.stdout)
            port = next(words[1] for words in said if words[:1] == ["port"])
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def make_bucket(endpoint):
    """A bucket that nobody has used; its name."""
    name = f"bucket-{os.getpid()}-{next(_numbers)}"
    request = urllib.request.Request(f"{endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        return name


def settings(endpoint):
    """The variables that AWS's own tools read, and nothing of the machine's."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
