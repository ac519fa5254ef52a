"""The stores behind addresses: pyarrow's file systems, set up as each store's own tools are.

The first time a process opens a store it contacts the bucket or host, so that a mistake in a name,
a key or an address is reported in one line and within ``CONTACT_S``, before any work is done.
"""

from __future__ import annotations

import configparser
import contextlib
import errno
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs

from precedes.errors import UserError
from precedes.stores.address import Address, StoreError

# For the first answer of a store; the limits of one attempt keep the total below.
CONTACT_S: Final = 20.0
CONNECT_S: Final = 4.0
# After this long without a byte a request is retried, this number of times.
SILENT_S: Final = 10.0
ATTEMPTS_MAX: Final = 4
CONTACT_SILENT_S: Final = 6.0
CONTACT_ATTEMPTS_MAX: Final = 2

REGION: Final = "us-east-1"  # the default of self-hosted servers
CREDENTIALS: Final = {
    "s3": "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login",
    "abfss": "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run az login",
    "hdfs": "check HADOOP_USER_NAME and your Kerberos ticket",
}
REACH: Final = {
    "s3": "check AWS_ENDPOINT_URL, AWS_REGION and the network",
    "gs": "check the network and your credentials",
    "abfss": "check the name of the account and the network",
    "hdfs": "check the host and port of the name node",
}
REFUSED: Final = re.compile(
    "ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|TOKEN|HTTP 40[13]|OAuth2|"
    "PERMISSION_DENIED|UNAUTHENTICATED|InvalidAccessKey|Credential|Permission denied|AccessControl"
)
FROM_STORES: Final = re.compile("AWS Error|google::cloud|Azure|HDFS|Hdfs")
UNREACHED: Final = re.compile(
    "NETWORK_CONNECTION|curlCode|CURL error|UNAVAILABLE|Connection refused|resolve host|time.?out",
    re.IGNORECASE,
)


@contextlib.contextmanager
def opened(address: Address) -> Iterator[tuple[Any, str]]:
    """The file system of an address and the path in it; errors in the block become one line."""
    try:
        # Other settings make another file system.
        settings = s3_settings(os.environ) if address.root.startswith("s3:") else {}
        store, base = _open(address.root, tuple(sorted(settings.items())), os.getpid())
        yield store, f"{base}/{address.path}".rstrip("/") or "/"
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(address)) from None
    except (OSError, pa.ArrowException) as error:
        raise _explanation(address.root, str(address), str(error)) from None


def _explanation(root: str, title: str, text: str) -> StoreError:
    """A store's error as one line that also says what to do."""
    scheme, _, name = root.partition("://")
    first = text.strip().splitlines()[0] if text.strip() else "no reason given"
    if "NO_SUCH_BUCKET" in text or "No bucket" in text:
        return _no_bucket(root, title)
    if "libjvm" in text or "libhdfs" in text:
        return StoreError(
            f"{title}: hdfs:// needs Java and Hadoop's libhdfs, which are missing: set JAVA_HOME, "
            "HADOOP_HOME or ARROW_LIBHDFS_DIR, and CLASSPATH to that of 'hadoop classpath --glob'"
        )
    if UNREACHED.search(text) and "OAuth2" not in text:
        return StoreError(f"{title}: {_where(scheme, name)} does not answer: {REACH[scheme]}")
    if REFUSED.search(text):
        return StoreError(f"{title}: access is refused: {CREDENTIALS[scheme]} ({first:.120})")
    return StoreError(f"{title}: {first:.300}")


def failure(title: str, error: Exception) -> StoreError | None:
    """The error of a store while a file of this address was read, if that is the cause."""
    with contextlib.suppress(UserError):  # a file object may have any name
        root = Address.of(title).root
        if root and FROM_STORES.search(str(error)):
            return _explanation(root, title, str(error))
    return None


def _no_bucket(root: str, title: str) -> StoreError:
    scheme, _, name = root.partition("://")
    kind = "container" if scheme == "abfss" else "bucket"
    where = _where(scheme, name)
    return StoreError(f"{title}: there is no {kind} {name} at {where}: make it, or check its name")


def _where(scheme: str, name: str) -> str:
    if scheme == "s3":
        return s3_settings(os.environ).get("endpoint", "S3")
    return {"gs": "Google Cloud Storage", "abfss": "Azure"}.get(scheme, f"{scheme}://{name}")


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Endpoint, region, profile and certificates, as AWS's own tools take them.

    A variable overrides the profile. Keys are left to the SDK, which reads the same places.
    """
    profile = environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE") or "default"
    saved = _profile(environment.get("AWS_CONFIG_FILE") or "~/.aws/config", profile)
    ignored = environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true"
    endpoint = None
    if not ignored:
        endpoint = (
            environment.get("AWS_ENDPOINT_URL_S3")
            or environment.get("AWS_ENDPOINT_URL")
            or saved.get("endpoint_url")
        )
    settings = {
        "profile": profile,
        "endpoint": endpoint,
        "region": environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or saved.get("region"),
        "certificates": environment.get("AWS_CA_BUNDLE") or saved.get("ca_bundle"),
        "key": environment.get("AWS_ACCESS_KEY_ID"),
    }
    return {name: value for name, value in settings.items() if value}


@functools.lru_cache(maxsize=8)
def _profile(file: str, profile: str) -> dict[str, str]:
    path = Path(file).expanduser()
    section = profile if profile == "default" else f"profile {profile}"
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
        return dict(parser[section]) if parser.has_section(section) else {}
    except (OSError, configparser.Error, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"cannot read {path}: {reason}; repair it, or set AWS_CONFIG_FILE"
        ) from None


@functools.lru_cache(maxsize=64)
def _open(root: str, settings: tuple[tuple[str, str], ...], process: int) -> tuple[Any, str]:
    """A store that has answered, and the prefix of paths in it; a forked process opens its own."""
    scheme, _, name = root.partition("://")
    if scheme == "s3":
        return _open_s3(root, name, dict(settings))
    _contact_elsewhere(root)
    store, base = fs.FileSystem.from_uri(f"{root}/")
    return store, base.rstrip("/")


def _open_s3(root: str, bucket: str, settings: dict[str, str]) -> tuple[Any, str]:
    endpoint = settings.get("endpoint", "")
    options: dict[str, Any] = {"connect_timeout": CONNECT_S, "allow_delayed_open": True}
    if endpoint:
        scheme, slashes, rest = endpoint.partition("://")
        if not slashes or scheme not in ("http", "https") or not rest.strip("/"):
            raise StoreError(f"the S3 endpoint is a URL such as http://host:9000, not {endpoint}")
        options |= {"scheme": scheme, "endpoint_override": rest.rstrip("/")}
    options["region"] = settings.get("region") or (REGION if endpoint else _region(root, bucket))
    if "certificates" in settings:
        options["tls_ca_file_path"] = settings["certificates"]

    def make(silent_s: float, attempts: int) -> Any:
        retries = fs.AwsStandardS3RetryStrategy(max_attempts=attempts)
        return fs.S3FileSystem(request_timeout=silent_s, retry_strategy=retries, **options)

    contact = make(CONTACT_SILENT_S, CONTACT_ATTEMPTS_MAX)
    if contact.get_file_info(bucket).type == fs.FileType.NotFound:
        raise _no_bucket(root, root)
    return make(SILENT_S, ATTEMPTS_MAX), bucket


def _region(root: str, bucket: str) -> str:
    """The region of a bucket from AWS, if none is configured."""
    code = "import sys; from pyarrow import fs; print(fs.resolve_s3_region(sys.argv[1]))"
    done = _elsewhere(code, bucket)
    if done is None or done.returncode:
        text = "" if done is None else done.stderr
        if "not found" in text:
            raise _no_bucket(root, root)
        raise StoreError(f"cannot determine the region of {root}: set AWS_REGION")
    return done.stdout.strip()


def _contact_elsewhere(root: str) -> None:
    """Check whether a store answers, in a separate process.

    Some of their libraries retry for minutes; Azure's aborts the process without credentials.
    """
    code = (
        "import sys; from pyarrow import fs; store, path = fs.FileSystem.from_uri(sys.argv[1]); "
        "print(store.get_file_info(path.rstrip('/') or '/').type.name)"
    )
    done = _elsewhere(code, f"{root}/")
    scheme = root.partition("://")[0]
    if done is None:
        raise StoreError(f"{root} does not answer within {CONTACT_S:g} s: {REACH[scheme]}")
    if done.returncode < 0:
        last = " ".join(done.stderr.split("what():")[-1].split())
        raise StoreError(f"{root}: access is refused: {CREDENTIALS[scheme]} ({last:.120})")
    if done.returncode:
        raised = re.search(r"^\w*(?:Error|Exception|Invalid)\w*: ?(.*)", done.stderr, re.M | re.S)
        raise _explanation(root, root, raised[1] if raised else done.stderr)
    if done.stdout.strip() == "NotFound" and scheme != "hdfs":
        raise _no_bucket(root, root)


def _elsewhere(code: str, argument: str) -> subprocess.CompletedProcess[str] | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(
            [sys.executable, "-c", code, argument],
            capture_output=True,
            text=True,
            timeout=CONTACT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    return None
