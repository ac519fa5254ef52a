"""Access to stores, and errors of unusable ones, within bounded time."""

import contextlib
import socket
import time

import pytest

from precedes.stores import Address, StoreError, filesystems
from precedes.trace.reader import read_opened, read_trace
from precedes.trace.source import open_log
from tests.support import logs, s3

NO_CREDENTIALS = {
    "abfss://c@account.dfs.core.windows.net/x": "access is refused: set AZURE_TENANT_ID",
    "hdfs://127.0.0.1:9/x": "hdfs:// needs Java and Hadoop's libhdfs",
}


def test_settings_are_those_of_aws_tools(tmp_path):
    config = tmp_path / "config"
    config.write_text(
        "[default]\nregion = eu-west-1\n[profile own]\nregion = eu-north-1\n"
        "endpoint_url = http://own:1\nca_bundle = /own.pem\ns3 =\n  addressing_style = path\n"
    )
    base = {"AWS_CONFIG_FILE": str(config)}
    found = filesystems.s3_settings

    assert found(base) == {"profile": "default", "region": "eu-west-1"}
    own = {"profile": "own", "region": "eu-north-1", "endpoint": "http://own:1"}
    own["certificates"] = "/own.pem"
    assert found(base | {"AWS_PROFILE": "own"}) == own
    assert found(base | {"AWS_PROFILE": "none"}) == {"profile": "none"}
    more = base | {"AWS_PROFILE": "own", "AWS_DEFAULT_REGION": "a", "AWS_ENDPOINT_URL": "http://b"}
    assert found(more) == own | {"region": "a", "endpoint": "http://b"}
    more |= {"AWS_REGION": "c", "AWS_ENDPOINT_URL_S3": "http://d", "AWS_CA_BUNDLE": "/e"}
    named = {"region": "c", "endpoint": "http://d", "certificates": "/e"}
    assert found(more) == own | named
    more["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"
    assert "endpoint" not in found(more)


def test_a_profile_leads_to_the_store(s3_endpoint, bucket, tmp_path, monkeypatch):
    config, keys = tmp_path / "config", tmp_path / "credentials"
    config.write_text(f"[profile own]\nregion = us-east-1\nendpoint_url = {s3_endpoint}\n")
    keys.write_text("[own]\naws_access_key_id = a\naws_secret_access_key = b\n")
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_PROFILE", "own")
    Address.of(f"{bucket}/x").put(b"1")
    assert Address.of(bucket).names() == ["x"]


def test_a_damaged_profile_is_reported(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text("region = nowhere\n")
    with pytest.raises(StoreError, match="repair it, or set AWS_CONFIG_FILE"):
        Address.of(bucket).kind()


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9", "ftp://x", "http://"])
def test_an_endpoint_is_a_url(bucket, monkeypatch, endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(StoreError, match="the S3 endpoint is a URL such as"):
        Address.of(bucket).kind()


def test_nobody_at_the_endpoint(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:9 does not answer: check"):
        Address.of(f"{bucket}/x").kind()


@pytest.mark.swarm
def test_an_endpoint_that_never_answers(bucket, monkeypatch):
    with socket.create_server(("127.0.0.1", 0), backlog=50) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        begin_s = time.monotonic()
        with pytest.raises(StoreError, match="does not answer"):
            Address.of(f"{bucket}/x").kind()
        assert time.monotonic() - begin_s < 1.5 * filesystems.CONTACT_S


def test_wrong_keys_are_reported(bucket, monkeypatch):
    # After this number of requests the server checks the sender.
    with s3.serve(INITIAL_NO_AUTH_ACTION_COUNT="1") as strict:
        name = s3.make_bucket(strict)
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict)
        with pytest.raises(StoreError, match="access is refused: check AWS_ACCESS_KEY_ID"):
            Address.of(f"s3://{name}/x").read_bytes()


def test_a_store_that_goes_while_it_is_read(bucket, monkeypatch):
    with contextlib.ExitStack() as server:
        endpoint = server.enter_context(s3.serve())
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        address = Address.of(f"s3://{s3.make_bucket(endpoint)}/x.parquet")
        columns = logs.workload(nodes=50, messages=2000)
        logs.write(address, columns, nodes=50, group_rows=10_000)
        assert len(read_trace(address)) == 1
        with open_log(address) as source:
            server.close()
            with pytest.raises(StoreError, match=f"{endpoint} does not answer"):
                read_opened(source)


@pytest.mark.parametrize("url", NO_CREDENTIALS)
def test_stores_without_credentials(url, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no az, no hadoop
    begin_s = time.monotonic()
    with pytest.raises(StoreError) as caught:
        Address.of(url).kind()
    assert NO_CREDENTIALS[url] in str(caught.value)
    assert time.monotonic() - begin_s < 1.5 * filesystems.CONTACT_S


@pytest.mark.swarm
@pytest.mark.parametrize(
    ("url", "reported"),
    [("gs://no-bucket/x", "gs://no-bucket"), ("s3://no-bucket/x", "AWS_REGION")],
)
def test_stores_that_ask_the_network(url, reported, bucket, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    begin_s = time.monotonic()
    with pytest.raises(StoreError, match=reported):
        Address.of(url).kind()
    assert time.monotonic() - begin_s < 1.5 * filesystems.CONTACT_S
