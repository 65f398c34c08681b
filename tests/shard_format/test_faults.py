"""P9: verification finds every seeded fault in any file of a set, and names the file."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shard_format import DamageError, load_build, load_manifest, naming, verify_set
from shard_format.checksums import build_text
from shard_format.expected_files import FINGERPRINTS_KEY
from tests.fixtures.damage import FAULTS, files_of, put_fault
from tests.fixtures.proofs import examples


def found_in(directory: Path) -> set[str]:
    """The files that a verification names."""
    try:
        verified = verify_set(directory)
        return {damage.file for damage in verified.damages + verified.minor}
    except DamageError as error:
        assert naming.MANIFEST in str(error)
        return {naming.MANIFEST}


def _flipped(data: bytes) -> bytes:
    at = len(data) // 3
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def test_an_undamaged_set_is_clean(built):
    assert found_in(built / "set") == found_in(built / "other") == set()


def _find_all(built: Path, work: Path, seeds: range) -> None:
    names = sorted(FAULTS)
    put = 0
    for seed in seeds:
        name = names[seed % len(names)]
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(built / "set", work)
        expected = put_fault(name, work, built / "other", random.Random(seed))
        if expected is None:
            continue
        put += 1
        assert expected <= found_in(work), f"{name}, seed {seed}"
    assert put > 0.8 * len(seeds)


def test_seeded_faults_are_found(built, tmp_path):
    _find_all(built, tmp_path / "set", range(34))


@pytest.mark.proof
def test_a_thousand_seeded_faults_are_found(built, tmp_path):
    _find_all(built, tmp_path / "set", range(34, 640))


@pytest.mark.proof
def test_seeded_faults_of_generations_are_found(built_twice, tmp_path):
    assert found_in(built_twice / "set") == found_in(built_twice / "other") == set()
    _find_all(built_twice, tmp_path / "set", range(34))


@pytest.mark.proof
def test_five_hundred_faults_of_generations_are_found(built_twice, tmp_path):
    _find_all(built_twice, tmp_path / "set", range(34, 534))


@pytest.mark.proof
@pytest.mark.parametrize("spoil", [_flipped, _cut, None])
def test_every_file_is_checked(built_twice, tmp_path, spoil):
    """No file of a set is left out but those that `verify --help` names."""
    directory = tmp_path / "set"
    shutil.copytree(built_twice / "set", directory)
    for name in files_of(directory):
        whole = (directory / name).read_bytes()
        if spoil is None:
            (directory / name).unlink()
        else:
            (directory / name).write_bytes(spoil(whole))
        assert name in found_in(directory)
        (directory / name).write_bytes(whole)


def test_a_set_without_a_checksum_of_stored_records_is_whole(built, tmp_path):
    """As earlier versions wrote it: a note says what cannot be checked."""
    directory = tmp_path / "set"
    shutil.copytree(built / "set", directory)
    build = load_build(directory)
    del build[FINGERPRINTS_KEY]
    (directory / naming.BUILD).write_bytes(build_text(build, load_manifest(directory)))
    verified = verify_set(directory)
    assert verified.damages == []
    names = [note.partition(" ")[0] for note in verified.notes]
    assert names == [naming.READ_ITEMS, naming.STORED_RECORDS]
    shutil.rmtree(directory / naming.FINGERPRINTS_DIR)
    assert verify_set(directory)[1:2] == ([],) and verify_set(directory).notes == []


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_found(built, data):
    directory = built / "set"
    name = data.draw(st.sampled_from(files_of(directory)))
    whole = (directory / name).read_bytes()
    at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(whole)
    damaged[at] ^= 1 << bit
    try:
        (directory / name).write_bytes(damaged)
        assert name in found_in(directory)
    finally:
        (directory / name).write_bytes(whole)


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_command_exits_with_4(built, tmp_path, shardmill, name):
    shutil.copytree(built / "set", tmp_path / "set")
    expected = put_fault(name, tmp_path / "set", built / "other", random.Random(name))
    if expected is None:
        return
    done = shardmill("verify", tmp_path / "set")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    for file in expected:
        assert file in done.stdout + done.stderr
    assert "shardmill repair" in done.stderr


def test_quick_finds_what_sizes_show(built, tmp_path, shardmill):
    shutil.copytree(built / "set", tmp_path / "set")
    shard = next(name for name in files_of(tmp_path / "set") if naming.parse_shard_file(name))
    data = (tmp_path / "set" / shard).read_bytes()
    (tmp_path / "set" / shard).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = shardmill("verify", tmp_path / "set", "--quick")
    assert done.returncode == 0 and "no data was read" in done.stdout, done.stderr
    (tmp_path / "set" / shard).write_bytes(data[:-1])
    assert shardmill("verify", tmp_path / "set", "--quick").returncode == 4
    assert shardmill("verify", tmp_path / "set", "--quick", "--sample", "1%").returncode == 2


def test_a_sample_is_seeded_and_says_what_was_read(built, shardmill):
    def sampled(share, seed):
        done = shardmill("verify", built / "set", "--sample", share, "--seed", seed, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["checked"]

    taken = [sampled("1%", seed) for seed in (0, 0, *range(1, 5))]
    assert taken[0] == taken[1]
    assert len({(one["files_read"], one["bytes_read"]) for one in taken}) > 1
    assert all(0.01 <= one["bytes_read"] / one["bytes"] < 1 for one in taken)
    whole = sampled("100%", 0)
    assert (whole["files_read"], whole["bytes_read"]) == (whole["files"], whole["bytes"])


@pytest.mark.parametrize("share", ["0", "101%", "-1%", "x", "nan", ""])
def test_what_is_no_share_is_refused(share, shardmill, tmp_path):
    assert shardmill("verify", tmp_path, f"--sample={share}").returncode == 2
