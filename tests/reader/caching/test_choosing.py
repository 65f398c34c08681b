from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import reader
from reader.cache import choosing
from reader.cache.choosing import NETWORK, REMOTE, CacheChoice, Situation, choose_cache
from shard_format import UsageError

GB = 10**9


def choose(size: int, memory: int, **found: Any) -> CacheChoice:
    situation = {"stage": "stored", "epochs": None, "disk": 0, "slow": None, "cache_dir": "cache"}
    return choose_cache("auto", Situation(size=size, memory=memory, **(situation | found)))


@pytest.mark.parametrize(
    ("found", "cache", "reason"),
    [
        (choose(2 * GB, 9 * GB), "memory", "the split has 2 GB, within a quarter of the 9 GB"),
        (choose(3 * GB, 9 * GB), "off", "beyond a quarter of the 9 GB of memory available"),
        (choose(2 * GB, 9 * GB, epochs=1), "off", "every record is read once"),
        (choose(3 * GB, 9 * GB, slow=NETWORK, disk=20 * GB), "disk", "on a network file system"),
        (choose(3 * GB, 9 * GB, slow=NETWORK, disk=9 * GB), "off", "of the room in cache"),
        # As many shards as fit spare as much of the network.
        (choose(3 * GB, 9 * GB, slow=REMOTE, disk=9 * GB), "disk", "and it is at a URL"),
        (choose(1 * GB, 9 * GB, slow=REMOTE), "memory", "within a quarter"),
        (choose(1 * GB, 9 * GB, stage="decoded"), "memory", "has 1 GB when it is decoded, within"),
        (choose(3 * GB, 9 * GB, stage="decoded", disk=12 * GB), "disk", "and fits into cache"),
        (choose(3 * GB, 9 * GB, stage="decoded", disk=11 * GB), "off", "of the room in cache"),
        (choose(3 * GB, 9 * GB, stage="decoded", slow=REMOTE), "off", "of the room in cache"),
    ],
)
def test_auto_chooses_and_says_why(found: CacheChoice, cache: str, reason: str) -> None:
    assert found.cache == cache and reason in found.reason
    assert found.stage == "stored" or found.cache != "off"


def test_memory_that_is_not_there_is_refused_before_anything_is_read() -> None:
    situation = Situation(3 * GB, "decoded", None, 2 * GB, 0, None, "cache")
    with pytest.raises(UsageError, match=r'cache="memory" needs 3 GB .* \(decoded\), but 2 GB'):
        choose_cache("memory", situation)


def test_memory_is_what_the_container_leaves(tmp_path: Path) -> None:
    (tmp_path / "max").write_text("1000\n")
    (tmp_path / "used").write_text("400\n")
    files = ((str(tmp_path / "max"), str(tmp_path / "used")),)
    with mock.patch("reader.cache.choosing._CGROUP_FILES", files):
        assert choosing.available_memory_bytes() == 600
        (tmp_path / "max").write_text("max\n")
        assert choosing.available_memory_bytes() > 10**6


def test_network_file_systems_are_reported_from_the_mount_table(tmp_path: Path) -> None:
    parts = [
        mock.Mock(mountpoint="/", fstype="ext4"),
        mock.Mock(mountpoint=str(tmp_path), fstype="nfs4"),
    ]
    with mock.patch("psutil.disk_partitions", return_value=parts):
        assert choosing.on_network(tmp_path / "set")
        assert not choosing.on_network(tmp_path.parent)


def test_the_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/scratch")
    assert choosing.default_cache_dir() == Path("/scratch/shardmill")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert choosing.default_cache_dir() == Path.home() / ".cache" / "shardmill"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache_stage": "pixels"}, "Unknown cache_stage 'pixels' .* Choices: stored, decoded"),
        (
            {"cache_stage": "decoded", "cache": "off"},
            "cache_stage='decoded' has no effect with cache='off'",
        ),
        ({"cache_limit": "many"}, "cache_limit 'many' is not a size"),
        ({"cache_limit": 0}, "cache_limit is 0 .* Pass an integer of at least 1"),
        ({"cache_limit": -5}, "cache_limit is -5 .* of at least 1"),
        ({"cache_limit": 2.5}, r"cache_limit is 2\.5 .* an integer"),
    ],
)
def test_options_that_are_wrong(tiny: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reader.load(tiny, batch_size=4, image_size=8, **options)


def test_text_has_nothing_to_decode(token_set: Any) -> None:
    directory = token_set(train=[([1, 2], 0), ([3], 1)])
    with pytest.raises(UsageError, match="cache_stage=decoded does not apply to token ids"):
        reader.load(directory, batch_size=2, cache="memory", cache_stage="decoded")
