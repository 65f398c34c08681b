"""Builds by the command line into buckets: through faults, and with secrets that must not show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from foundation import storage
from foundation.storage import object_stores, place_of
from tests.servers.azurite import azurite
from tests.servers.fake_gcs import fake_gcs
from tests.servers.faults import Fault
from tests.servers.hdfs import hdfs
from tests.servers.proxy import proxy
from tests.servers.server import Server
from tests.servers.versitygw import versitygw

pytestmark = pytest.mark.engine

Completed = subprocess.CompletedProcess[str]
SERVERS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "s3": versitygw,
    "gs": fake_gcs,
}
MIX = [
    *(
        Fault(name, share=0.03)
        for name in ("reset-before", "reset-after", "reset-body", "truncated", "status")
    ),
    Fault("status", status=429, retry_after=1, share=0.02),
    Fault("slow", rate=400_000, share=0.02),
]
# No variables of the user's own, and no search for a cloud's metadata server.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("AWS_", "GOOGLE_", "AZURE_", "STORAGE_"))
} | {"AWS_EC2_METADATA_DISABLED": "true", "NO_GCE_CHECK": "true"}


def shardmill(variables: Mapping[str, str], *arguments: str) -> Completed:
    return subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        env={**CLEAN, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        capture_output=True,
        text=True,
        timeout=280,
    )


@contextmanager
def connected(server: Server) -> Iterator[None]:
    """This process reads the server's buckets within this context."""
    with mock.patch.dict(os.environ, server.environment):
        object_stores.forget_connections()
        yield
    object_stores.forget_connections()


def root_hash(out: str) -> str:
    return str(json.loads(storage.read_bytes(place_of(f"{out}/manifest.json")))["root_hash"])


@pytest.fixture(scope="module")
def corpus(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 images in 10 folders, by links."""
    folder = tmp_path_factory.mktemp("corpus")
    for label in sorted(path for path in samples.iterdir() if path.is_dir()):
        (folder / label.name).mkdir()
        for image in sorted(label.iterdir())[:12]:
            (folder / label.name / image.name).hardlink_to(image)
    return folder


@pytest.fixture(scope="module")
def local_hash(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("local") / "set"
    done = shardmill({}, "preprocess", "images", str(corpus), "--out", str(out))
    assert done.returncode == 0, done.stderr
    return root_hash(str(out))


@pytest.mark.parametrize("start", [versitygw, fake_gcs, azurite, hdfs])
def test_a_set_is_built_from_and_into_every_storage_and_used_there(
    start, corpus, local_hash, tmp_path
):
    with start(tmp_path) as server:
        source, out = f"{server.bucket}/corpus", f"{server.bucket}/set"
        with connected(server):
            for path in corpus.rglob("*.*"):
                name = path.relative_to(corpus).as_posix()
                storage.write_bytes(place_of(f"{source}/{name}"), path.read_bytes())
        for command in (
            ("preprocess", "images", source, "--out", out),
            ("verify", out),
            ("inspect", out),
            ("report", out),
            ("quarantine", "list", out),
            ("read", out, "--seconds", "1", "--batch-size", "8"),
            ("preprocess", "images", source, "--out", out, "--seed", "1", "--overwrite"),
            ("verify", out),
            ("preprocess", "images", source, "--out", out, "--overwrite"),
            ("verify", out),
            ("convert", out, "--to", "parquet", "--out", f"{server.bucket}/hub"),
            ("convert", out, "--to", "parquet", "--out", str(tmp_path / "hub")),
        ):
            done = shardmill(dict(server.environment), *command)
            assert done.returncode == 0, (command, done.stderr)
        with connected(server):
            assert root_hash(out) == local_hash
            converted = place_of(f"{server.bucket}/hub")
            copies = [name for name, _ in storage.list_tree(converted)]
            files = [path for path in (tmp_path / "hub").rglob("*") if path.is_file()]
            assert len(copies) == len(files) > 1
            for path in files:
                name = path.relative_to(tmp_path / "hub").as_posix()
                copy = storage.read_bytes(place_of(f"{converted}/{name}"))
                assert copy == path.read_bytes(), name


@pytest.mark.parametrize("scheme", SERVERS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_build_through_faults_has_the_hash_of_a_local_one(
    scheme, seed, corpus, local_hash, tmp_path
):
    with SERVERS[scheme](tmp_path) as server, proxy(server, tmp_path / "proxy") as running:
        source, out = f"{server.bucket}/corpus", f"{server.bucket}/set"
        with connected(server):
            for path in corpus.rglob("*.*"):
                name = path.relative_to(corpus).as_posix()
                storage.write_bytes(place_of(f"{source}/{name}"), path.read_bytes())
        running.set(faults=MIX, seed=seed)
        variables = running.server.environment
        done = shardmill(variables, "preprocess", "images", source, "--out", out)
        assert done.returncode == 0, done.stderr
        verified = shardmill(variables, "verify", out)
        assert verified.returncode == 0, verified.stderr
        faults = running.counts().faults
        assert sum(faults.values()) >= 10 and len(faults) >= 4, faults
        with connected(server):
            assert root_hash(out) == local_hash
            # Nothing of the build is left but the set.
            names = [name for name, _ in storage.list_tree(place_of(out))]
            assert not [name for name in names if name.startswith(".")]


def test_a_server_that_stays_busy_ends_the_build_with_a_message(corpus, tmp_path):
    with versitygw(tmp_path) as server, proxy(server, tmp_path / "proxy") as running:
        running.set(faults=[Fault("status", status=503)])
        done = shardmill(
            running.server.environment,
            *("preprocess", "images", str(corpus), "--out", f"{server.bucket}/set"),
        )
    assert done.returncode == 3
    assert "503 Service Unavailable: s3://shards/set" in done.stderr
    assert "Traceback" not in done.stderr
    assert "run the same command again" in done.stderr


SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "shhh-secret-key",
    "AWS_SESSION_TOKEN": "shhh-session-token",
    "AZURE_STORAGE_ACCOUNT_KEY": "c2hoaC1henVyZS1rZXk=",
    "GOOGLE_SERVICE_ACCOUNT_KEY": "shhh-google-key",
}
DEAD = "127.0.0.1:9"  # nothing listens there


def _found(text: str | bytes, secrets: Mapping[str, str]) -> list[str]:
    data = text.encode(errors="replace") if isinstance(text, str) else text
    return [name for name, value in secrets.items() if value.encode() in data]


@pytest.mark.parametrize("scheme", SERVERS)
def test_no_secret_is_in_what_a_build_writes_or_prints(scheme, corpus, tmp_path):
    with SERVERS[scheme](tmp_path) as server:
        # The keys that the server takes are secret too.
        secrets = {**SECRETS, **server.environment}
        secrets = {name: secrets[name] for name in secrets if "KEY" in name or "TOKEN" in name}
        if scheme == "s3":
            del secrets["AWS_SESSION_TOKEN"]  # the server's own key has none
            del secrets["AWS_ACCESS_KEY_ID"]  # not secret
        else:
            del secrets["GOOGLE_SERVICE_ACCOUNT_KEY"]  # would be used, and is none
        variables = {**server.environment, **secrets}
        out, staging = f"{server.bucket}/set", f"{server.bucket}/staging"
        arguments = ["preprocess", "images", str(corpus), "--out", out, "--staging", staging]
        done = [shardmill(variables, *arguments)]
        for command in ("inspect", "verify", "report"):
            done.append(shardmill(variables, command, out))
        done.append(shardmill(variables, "quarantine", "list", out))
        for one in done:
            assert one.returncode == 0, (one.args, one.stderr)
            assert not _found(one.stdout + one.stderr, secrets)
        with connected(server):
            for folder in (out, staging):
                names = [name for name, _ in storage.list_tree(place_of(folder))]
                assert names
                for name in names:
                    data = storage.read_bytes(place_of(f"{folder}/{name}"))
                    assert not _found(data, secrets), name


@pytest.mark.parametrize(
    ("out", "variables", "code", "message"),
    [
        ("s3://shards/set", {"AWS_SECRET_ACCESS_KEY": "shhh-wrong"}, 3, "403 Forbidden"),
        ("s3://shards/set", {"AWS_ACCESS_KEY_ID": "shhh-nobody"}, 3, "404 Not Found"),
        ("s3://missing/set", {}, 3, "404 Not Found (NoSuchBucket"),
        ("s3://shards/set", {"AWS_ENDPOINT_URL": f"http://{DEAD}"}, 3, f"No connection to {DEAD}"),
        (
            "s3://shards/set",
            {"AWS_ENDPOINT_URL": f"http://user:shhh-password@{DEAD}"},
            3,
            f"No connection to {DEAD}",
        ),
        ("s3://shards/set", {"AWS_ENDPOINT_URL": "shhh"}, 2, "AWS_ENDPOINT_URL is not the URL"),
        ("s3://shards/set", {"AWS_SESSION_TOKEN": "shhh\nshhh"}, 2, "AWS_SESSION_TOKEN has a"),
        ("s3://shhh-key:shhh-secret@shards/set", {}, 2, "has credentials or options in it"),
        ("s3://shards/set?secret=shhh-secret&endpoint_override=x", {}, 2, "has credentials"),
        ("gs://bucket/set", {}, 3, "No valid credentials"),
        ("gs://shhh-token@bucket/set", {}, 2, "has credentials or options in it"),
        (
            "gs://bucket/set",
            {"STORAGE_EMULATOR_HOST": f"http://user:shhh-password@{DEAD}"},
            3,
            f"No connection to {DEAD}",
        ),
        ("abfs://box@account.dfs.core.windows.net/set?sig=shhh-signature", {}, 2, "credentials"),
    ],
)
def test_a_failure_has_a_message_and_no_secret(out, variables, code, message, corpus, tmp_path):
    with versitygw(tmp_path) as server:
        environment = {**server.environment, **variables}
        done = shardmill(environment, "preprocess", "images", str(corpus), "--out", out)
    assert message in done.stderr
    assert done.returncode == code
    assert "shhh" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr
