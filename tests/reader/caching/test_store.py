from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reader.cache.inventory import Item
from reader.cache.store import CacheLease, Store
from shard_format import UsageError
from tests.fixtures.proofs import examples

ROOTS = [character * 64 for character in "abc"]


def name(root: int, shard: int) -> str:
    return f"{ROOTS[root]}/tiny-train.tfrecord-{shard:05d}-of-00009"


def write(directory: Path, lease: CacheLease, sizes: dict[str, int]) -> None:
    """What a stream would copy."""
    for item in lease.names:
        (directory / item).write_bytes(b"x" * sizes[item])


def names(store: Store) -> list[str]:
    return [entry.name for entry in store.entries()]


def age(directory: Path, item: str, seconds: float) -> None:
    os.utime(directory / item, (seconds, seconds))


def test_the_least_recently_used_goes_first_across_sets(tmp_path: Path) -> None:
    store = Store(tmp_path, 300)
    for used, (root, shard) in enumerate([(0, 0), (1, 0), (0, 1)]):
        item = Item(name(root, shard), 100)
        write(tmp_path, store.lease([item]), {item.name: 100})
        age(tmp_path, item.name, 1000 + used)
    store.lease([Item(name(0, 0), 100)])  # used again
    new = [Item(name(2, 0), 100)]
    write(tmp_path, store.lease(new), {new[0].name: 100})
    assert names(store)[:-2] == [name(0, 1)]
    assert set(names(store)) == {name(0, 0), name(0, 1), name(2, 0)}


def test_what_is_leased_stays_and_counts(tmp_path: Path) -> None:
    store = Store(tmp_path, 300)
    held = store.lease([Item(name(0, shard), 100) for shard in range(2)])
    some = store.lease([Item(name(1, shard), 100) for shard in range(3)], partial=True)
    assert some.names == {name(1, 0)}
    with pytest.raises(UsageError, match=r"needs .*, but .* has room for 0 MB: .* cache_limit"):
        store.lease([Item(name(2, 0), 100)])
    held.end()
    more = store.lease([Item(name(1, shard), 100) for shard in range(3)], partial=True)
    assert len(more.names) == 3


def test_what_is_there_comes_before_what_has_to_be_copied(tmp_path: Path) -> None:
    store = Store(tmp_path, 200)
    items = [Item(name(0, shard), 100) for shard in range(4)]
    write(tmp_path, store.lease(items[2:]), {item.name: 100 for item in items})
    assert store.lease(items, partial=True).names == {item.name for item in items[2:]}


def test_a_lease_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import sys, os; from pathlib import Path\n"
        "from reader.cache.inventory import Item\nfrom reader.cache.store import Store\n"
        f"lease = Store(Path(sys.argv[1]), 100).lease([Item({name(0, 0)!r}, 100)])\n"
        "print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        store = Store(tmp_path, 100)
        with pytest.raises(UsageError):
            store.lease([Item(name(1, 0), 100)])
        process.kill()
        process.wait()
    lease = store.lease([Item(name(1, 0), 100)])
    assert len(list((tmp_path / ".leases").iterdir())) == 1
    lease.end()


def test_what_a_dead_process_left_is_removed(tmp_path: Path) -> None:
    store = Store(tmp_path, 1000)
    root = tmp_path / ROOTS[0]
    decoded = root / "decoded-tf2.20.0"
    for folder in (root / "index", decoded / "train", decoded / "test.part.d"):
        folder.mkdir(parents=True)
    left = [root / "a.tfrecord.part", root / "index" / "train.arrow.part"]
    left += [decoded / "train" / "shard", decoded / "test.part", decoded / "test.part.d" / "shard"]
    for path in left:
        path.write_bytes(b"half of it")
    (tmp_path / ".leases" / "dead").write_bytes(b'{"half')
    assert store.entries() == []
    assert not any(path.exists() for path in left)
    assert not list((tmp_path / ".leases").iterdir())


@pytest.mark.parametrize("version", ["2.21.0", "2.22.0-rc1", "2.22.0-dev20261101"])
def test_decoded_copies_of_any_version_are_seen(tmp_path: Path, version: str) -> None:
    store = Store(tmp_path, 1000)
    split = tmp_path / ROOTS[0] / f"decoded-tf{version}" / "train"
    split.mkdir(parents=True)
    (split / "manifest.json").write_bytes(b"1234")
    assert [entry.bytes for entry in store.entries()] == [4]
    assert len(store.clear()) == 1 and not split.exists()


def test_what_others_wrote_is_never_touched(tmp_path: Path) -> None:
    strange = ["notes.txt", "sets/a", f"{ROOTS[0]}/notes.txt", f"{ROOTS[0]}/mine/manifest.json"]
    for path in strange:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"1234")
    store = Store(tmp_path, 100)
    item = Item(name(0, 0), 100)
    write(tmp_path, store.lease([item]), {item.name: 100})
    store.lease([Item(name(1, 0), 100)])
    assert store.clear() == []
    assert all((tmp_path / path).read_bytes() == b"1234" for path in strange)


def test_clear_leaves_what_is_in_use(tmp_path: Path) -> None:
    store = Store(tmp_path, 1000)
    sizes = {name(root, 0): 100 for root in range(2)}
    leases = [store.lease([Item(item, 100)]) for item in sizes]
    for lease in leases:
        write(tmp_path, lease, sizes)
    leases[0].end()
    assert [entry.in_use for entry in store.entries()] == [False, True]
    assert [entry.name for entry in store.clear()] == [name(0, 0)]
    assert names(store) == [name(1, 0)]
    assert not (tmp_path / ROOTS[0]).exists()


@mock.patch("gc.collect", mock.Mock())  # slow, and leases are ended here
@settings(max_examples=examples(40))
@given(
    limit=st.integers(1, 40),
    steps=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=5),
            st.booleans(),
        ),
        max_size=12,
    ),
)
def test_the_limit_always_holds(
    tmp_path_factory: pytest.TempPathFactory,
    limit: int,
    steps: list[tuple[int, list[tuple[int, int]], bool]],
) -> None:
    """Whoever comes and goes, in whatever order; and what is leased and there stays there."""
    directory = tmp_path_factory.mktemp("store")
    store, held, sizes = Store(directory, limit), [], {}
    for root, wanted, ends in steps:
        items = {name(root, shard): size for shard, size in wanted}
        sizes = items | sizes  # a shard has one size for good
        lease = store.lease([Item(item, sizes[item]) for item in items], partial=True)
        write(directory, lease, sizes)
        held.append(lease)
        assert sum(entry.bytes for entry in store.entries()) <= limit
        assert {item for lease in held for item in lease.names} <= set(names(store))
        if ends:
            held.pop(0).end()
