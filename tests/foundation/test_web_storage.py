"""Files at https:// and hf:// as the storage layer reads them, with ranges and faults."""

from __future__ import annotations

import os
import random
import threading
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation import storage
from foundation.errors import InputError, UsageError
from foundation.storage import http
from tests.fixtures.web import TOKEN, Faults, FileServer, slowly

DATA = random.Random(5).randbytes(1 << 20)


@pytest.fixture
def blob(web):
    (web.folder / "a b").write_bytes(DATA)
    return storage.place_of(f"{web.url}/a%20b")


def read_everyhow(place):
    """The whole file by each way of reading it."""
    file = storage.open_random(place)
    parts = [file.read_at(offset, 1 << 16) for offset in range(0, len(DATA), 1 << 16)]
    assert not file.read_at(len(DATA), 10)
    file.close()
    yield b"".join(parts)
    yield storage.read_bytes(place)
    yield storage.read_file(place, len(DATA), 1 << 30)
    yield b"".join(storage.read_ranges(place, [(0, 5), (5, len(DATA) - 5)]))
    whole = storage.range_of(place, 0, len(DATA))
    assert whole is not None
    yield from storage.read_many([whole])


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("head", [True, False])
def test_a_file_is_read_whole(web, blob, ranges, head):
    web.ranges, web.head = ranges, head
    assert storage.stat(blob).size == len(DATA)
    assert (blob.name, storage.parts(blob)[-1]) == ("a b", "a b")
    assert all(data == DATA for data in read_everyhow(blob))


def test_a_file_without_ranges_is_copied_once(web, blob, tmp_path):
    web.ranges = False
    threads = [threading.Thread(target=lambda: list(read_everyhow(blob))) for _ in range(3)]
    web.faults.append(slowly)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = [one for one in web.requests if "range" not in one.headers]
    assert len(whole) == 1
    folder = tmp_path / "temporary" / f"shardmill-web-{os.getuid()}"
    (folder / "left").write_bytes(b"of a killed process")
    (web.folder / "other").write_bytes(DATA[:1000])
    assert storage.read_bytes(storage.place_of(f"{web.url}/other")) == DATA[:1000]
    assert sorted(path.stat().st_size for path in folder.iterdir()) == [1000, len(DATA)]


@pytest.mark.parametrize("ranges", [True, False])
def test_an_interrupted_transfer_goes_on(web, blob, ranges, monkeypatch):
    monkeypatch.setattr("foundation.storage.objects._RETRY_SECONDS", (0.0,) * 9)
    monkeypatch.setattr(http, "_TRANSFER_SECONDS", (0.0,) * 9)
    web.ranges = ranges
    cuts, lock = [], threading.Lock()

    def cut(handler):
        asked = handler.headers.get("Range")
        if not ranges and asked is not None:
            return False
        with lock:
            if len(cuts) == 5:
                return False
            cuts.append(asked)
        headers = {"ETag": '"same"'}
        if asked is None:
            handler.cut_off(DATA, **headers)
            return True
        begin, end = map(int, asked.removeprefix("bytes=").split("-"))
        handler.cut_off(
            DATA[begin : end + 1], Content_Range=f"bytes {begin}-{end}/{len(DATA)}", **headers
        )
        return True

    web.faults.append(cut)
    assert storage.read_bytes(blob) == DATA
    assert len(cuts) == 5


@pytest.mark.parametrize("name", ["plain.tar", "a b", "50% é+~;=&'(1)", "in/side", "#?*[x]"])
def test_a_name_is_asked_for_as_it_is(web, name):
    path = web.folder / "a#b c" / name
    path.parent.mkdir(parents=True)
    path.write_text(name)
    for safe in ("/", "/+;=&'()~", ""):
        place = storage.place_of(f"{web.url}/{quote('a#b c')}/{quote(name, safe)}")
        assert storage.read_bytes(place).decode() == name
        assert place.name == (name if safe == "" else name.rpartition("/")[2])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranges=st.booleans(),
    wanted=st.lists(
        st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 70_000)), min_size=1, max_size=12
    ),
    faults=st.lists(
        st.sampled_from(["busy", "broken", "unavailable", "cut", "silent"]), max_size=8
    ),
)
def test_any_ranges_are_those_of_the_file(web, blob, ranges, wanted, faults):
    web.ranges, web.faults = ranges, [_Planted(faults)]
    storage.stat(blob)
    for at, (offset, size) in enumerate(wanted):
        if at % 2:
            file = storage.open_random(blob)
            data = b""
            while len(data) < size and (more := file.read_at(offset + len(data), size - len(data))):
                data += more
            file.close()
            assert data == DATA[offset : offset + size]
    together = list(storage.read_ranges(blob, wanted))
    assert together == [DATA[offset : offset + size] for offset, size in wanted]


class _Planted(Faults):
    """Faults that come one after the other, whatever is asked for."""

    def __init__(self, kinds):
        super().__init__()
        self._left = list(kinds)

    def __call__(self, handler):
        with self._lock:
            kind = self._left.pop() if self._left else None
        if kind is not None:
            getattr(self, kind)(handler)
        return kind is not None


def test_a_changed_file_is_not_read_from_its_copy(web, blob):
    web.ranges = False
    before = storage.stat(blob)
    assert storage.read_bytes(blob) == DATA
    (web.folder / "a b").write_bytes(DATA[::-1])
    os.utime(web.folder / "a b", ns=(before.mtime_ns, before.mtime_ns))
    after = storage.stat(blob)
    assert after.size == before.size and after.mtime_ns != before.mtime_ns
    assert storage.read_bytes(blob) == DATA[::-1]


def test_an_empty_file_and_none(web):
    (web.folder / "empty").touch()
    empty = storage.place_of(f"{web.url}/empty")
    assert storage.stat(empty).size == 0
    assert storage.read_bytes(empty) == storage.read_file(empty, 0, 10) == b""
    assert storage.stat(storage.place_of(f"{web.url}/none")) is None
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(storage.place_of(f"{web.url}/none"))


def test_a_page_is_no_file(web):
    (web.folder / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder is a web page, not a file of data\. Name one"):
        storage.stat(storage.place_of(f"{web.url}/folder/"))
    (web.folder / "page.html").write_text("<p>a document</p>")
    assert storage.stat(storage.place_of(f"{web.url}/page.html")).size == 17


def test_redirects_are_followed(web, blob, tmp_path):
    other = FileServer(tmp_path)
    other.faults.append(lambda handler: handler.reply(302, Location=str(blob)) or True)
    moved = storage.place_of(f"{other.url}/latest")
    assert storage.stat(moved) == storage.stat(blob)
    assert all(data == DATA for data in read_everyhow(moved))
    other.close()


def test_a_limit_of_requests_is_waited_for(web, blob, monkeypatch):
    monkeypatch.setattr("foundation.storage.objects._RETRY_SECONDS", ())
    monkeypatch.setattr("foundation.storage.object_stores._RETRIES", {"max_retries": 0})
    monkeypatch.setattr(http, "_LIMIT_SECONDS", (0.0, 0.0))
    answers = iter([429, 429, None, 429, 429, None])

    def limit(handler):
        status = next(answers)
        return status is not None and (handler.reply(status, Retry_After="0") or True)

    web.faults.append(limit)
    assert storage.stat(blob).size == len(DATA)
    assert storage.read_range(blob, 0, 10) == DATA[:10]
    answers = iter([429] * 3)
    with pytest.raises(OSError, match="429 Too Many Requests"):
        storage.read_range(blob, 0, 10)
    answers = iter([403])
    with pytest.raises(PermissionError, match="403 Forbidden"):
        storage.read_range(blob, 0, 10)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("https://host", "names no file"),
        ("https:///a.tar", "names no file"),
        ("https://user:secret@host/a.tar", "has credentials in it"),
        ("https://host/a.tar?secret=1", "has '\\?' in it"),
        ("https://host/*.tar", r"has '\*' in it.*%2A"),
        ("https://host/a[1].tar", r"has '\[' in it.*%5B"),
        ("hf://owner/name", "names no dataset"),
        ("hf://datasets/name", "names no dataset"),
        ("hf://datasets/owner/name@", "names no dataset"),
        ("hf://spaces/owner/name", "names no dataset"),
    ],
)
def test_what_is_no_source_is_refused(text, reason):
    with pytest.raises(UsageError, match=reason) as raised:
        storage.place_of(text)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("text", ["https://host/folder/set", "hf://datasets/owner/name/set"])
def test_nothing_is_written(text):
    place = storage.place_of(text)
    for write in (
        storage.make_folder,
        storage.delete,
        storage.delete_tree,
        lambda place: storage.write_bytes(place, b"x"),
    ):
        with pytest.raises(UsageError, match=r"://.* cannot be written: \w+:// is only read"):
            write(place)


@pytest.mark.parametrize(
    "revision", ["", "@main", "@refs/convert/parquet", "@refs%2Fpr%2F7", "@v1.0", "@COMMIT"]
)
@pytest.mark.parametrize("page", [1, 3, 1000])
def test_a_dataset_is_listed_as_the_folder(hub, tmp_path, revision, page):
    hub.page = page
    for name in ("b/c d/1.txt", "b/c d/2#%41.txt", "b/x.txt", "z.txt"):
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_text(name * 999)
    branch = revision.replace("%2F", "/").removeprefix("@") or "main"
    commit = hub.commit("owner/name", tmp_path / "files", branch)
    named = revision.replace("COMMIT", commit)
    text = storage.absolute(f"hf://datasets/owner/name{named}")
    assert text == f"hf://datasets/owner/name@{commit}"
    root = storage.place_of(text)

    def compare(place, path):
        assert storage.is_folder(place) and storage.stat(place) is None
        entries = {(entry.name, entry.kind) for entry in storage.list_folder(place)}
        assert entries == {(entry.name, entry.kind) for entry in storage.list_folder(path)}
        sizes = {name: stat.size for name, stat in storage.list_tree(place)}
        assert sizes == {name: stat.size for name, stat in storage.list_tree(path)}
        for name in sizes:
            assert storage.read_bytes(place / name) == (path / name).read_bytes()
            assert storage.stat(place / name) == dict(storage.list_tree(place))[name]
        assert storage.stat(place / "none") is None and not storage.is_folder(place / "none")

    asked = len(hub.requests)
    compare(root, tmp_path / "files")
    compare(root / "b" / "c d", tmp_path / "files/b/c d")
    listed = [one for one in hub.requests[asked:] if "/tree/" in one.path]
    assert len(listed) == -(-6 // page)  # once, whole


def test_one_file_of_a_dataset_takes_no_listing(hub, tmp_path):
    (tmp_path / "files/in").mkdir(parents=True)
    (tmp_path / "files/in/a.bin").write_bytes(DATA)
    hub.commit("owner/name", tmp_path / "files")
    place = storage.place_of(storage.absolute("hf://datasets/owner/name/in/a.bin"))
    assert storage.stat(place).size == len(DATA) and not storage.is_folder(place)
    assert all(data == DATA for data in read_everyhow(place))
    assert not [one for one in hub.requests if "/tree/" in one.path]
    assert len([one for one in hub.requests if "/paths-info/" in one.path]) == 1
    with pytest.raises(FileNotFoundError):
        list(storage.list_folder(place.parent / "none"))


def test_the_token_stays_with_the_hub(hub, tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/large").write_bytes(DATA)
    (tmp_path / "files/small").write_bytes(b"small")
    hub.commit("owner/name", tmp_path / "files")
    hub.private.add("owner/name")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    place = storage.place_of(storage.absolute("hf://datasets/owner/name"))
    assert storage.read_bytes(place / "large") == DATA
    assert storage.read_bytes(place / "small") == b"small"
    assert all("authorization" not in one.headers for one in hub.store.requests)
    asked = [one for one in hub.requests if "/datasets/owner" in one.path]
    assert all(one.headers["authorization"] == f"Bearer {TOKEN}" for one in asked)
    assert hub.store.requests and asked


def test_a_listing_does_not_lead_to_another_host(hub, tmp_path, monkeypatch):
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a").touch()
    hub.commit("owner/name", tmp_path / "files")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    place = storage.place_of(storage.absolute("hf://datasets/owner/name"))
    link = f'<{hub.store.url}/api/next>; rel="next"'
    hub.faults.append(lambda handler: handler.reply(200, b"[]", Link=link) or True)
    with pytest.raises(OSError, match="next page of the listing is elsewhere"):
        list(storage.list_folder(place))
    assert not hub.store.requests
