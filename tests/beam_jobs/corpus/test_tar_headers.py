"""The header reader next to the standard library's, and where that one gives up."""

from __future__ import annotations

import gzip
import io
import random
import tarfile

import hypothesis
import pytest
from hypothesis import strategies as st

from beam_jobs.corpus.containers.tar import (
    FOLDER,
    TarGap,
    TarMember,
    is_header,
    read_headers,
)
from beam_jobs.corpus.streams import FileRange, SequentialReader, opened
from tests.fixtures.proofs import examples

NAMES = st.text(
    st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1
).filter(lambda name: not name.endswith("/"))


def read(data, tmp_path):
    path = tmp_path / "archive.tar"
    path.write_bytes(data)
    with opened(FileRange(bytes(path)), buffer_bytes=4096) as file:
        return list(read_headers(SequentialReader(file)))


def packed(members, **options):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", **options) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@hypothesis.given(members=st.lists(st.tuples(NAMES, st.binary(max_size=1200)), max_size=6))
@hypothesis.settings(
    max_examples=examples(60),
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_it_reads_what_tarfile_writes(format, members, tmp_path):
    try:
        data = packed([(tarfile.TarInfo(name), data) for name, data in members], format=format)
    except (ValueError, UnicodeError):
        return  # the name does not fit this format
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        expected = [(info.name, info.offset_data, info.size) for info in archive]
    results = [(m.name.decode(), m.offset, m.size) for m in read(data, tmp_path)]
    assert [(name.rstrip("/"), *rest) for name, *rest in expected] == [
        (name.rstrip("/"), *rest) for name, *rest in results
    ]


def test_long_names_large_sizes_and_every_kind(tmp_path):
    long = "folder/" * 40 + "ünïcode picture.jpg"
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        infos = [tarfile.TarInfo(long)]
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            infos.append(tarfile.TarInfo(f"kind {kind!r}"))
            infos[-1].type, infos[-1].linkname = kind, long
        contents = [(info, b"abc" if info is infos[0] else b"") for info in infos]
        data = packed(contents, format=format)
        results = read(data, tmp_path)
        assert results[0] == TarMember(long.encode(), results[0].offset, 3)
        assert data[results[0].offset : results[0].offset + 3] == b"abc"
        kinds = [member.kind for member in results[1:]]
        assert kinds == [FOLDER, "a symbolic link", "a hard link", "a pipe"]


def test_a_size_in_base_256_and_a_pax_size(tmp_path):
    info = tarfile.TarInfo("x")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\x80" + (700).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    results = read(bytes(header) + b"y" * 700 + bytes(1024), tmp_path)
    assert results == [TarMember(b"x", 512, 700)]
    info.pax_headers = {"size": "5"}
    data = info.tobuf(tarfile.PAX_FORMAT) + b"12345".ljust(512, b"\0")
    assert read(data, tmp_path)[0].size == 5


def test_sparse_files_are_reported(tmp_path):
    info = tarfile.TarInfo("x")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "real"}
    assert read(info.tobuf(tarfile.PAX_FORMAT), tmp_path)[0].kind == "a sparse file"


@pytest.mark.parametrize("cut", [1, 511, 512, 600, 811])
def test_what_is_before_the_end_is_read(cut, tmp_path):
    data = packed([(tarfile.TarInfo(name), name.encode() * 300) for name in "abc"])
    *members, gap = read(data[: 2 * 1024 + cut], tmp_path)
    assert [member.name for member in members] == [b"a", b"b"]
    assert gap.offset == 2048
    assert gap.size == cut


def test_it_goes_on_behind_a_damaged_header(tmp_path):
    data = bytearray(packed([(tarfile.TarInfo(name), name.encode() * 300) for name in "abcd"]))
    data[1024 + 124] ^= 0x40  # a digit of the size of b
    results = read(bytes(data), tmp_path)
    assert [one.name for one in results if isinstance(one, TarMember)] == [b"a", b"c", b"d"]
    (gap,) = (one for one in results if isinstance(one, TarGap))
    assert (gap.offset, gap.size) == (1024, 1024)


def test_joined_archives_and_padding(tmp_path):
    one = packed([(tarfile.TarInfo("a"), b"1")])
    two = packed([(tarfile.TarInfo("b"), b"2")])
    assert [member.name for member in read(one + two, tmp_path)] == [b"a", b"b"]
    assert read(b"", tmp_path) == read(bytes(10240), tmp_path) == read(bytes(700), tmp_path) == []


@hypothesis.given(st.integers(0, 4000), st.integers(0, 255), st.integers(0, 4096))
@hypothesis.settings(
    max_examples=examples(300),
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_no_damage_makes_it_fail(tmp_path, at, value, end):
    data = bytearray(
        packed([(tarfile.TarInfo("n" * 150), b"x" * 700), (tarfile.TarInfo("b"), b"")])
    )
    data[min(at, len(data) - 1)] = value
    results = read(bytes(data[:end]), tmp_path)
    for one in results:
        assert one.offset + one.size <= end or not one.size


def test_random_bytes_are_no_header():
    """A field without a number once fitted the sum of signed bytes that is -1."""
    draw = random.Random(0)
    assert not any(is_header(draw.randbytes(512)) for _ in range(20_000))
    # The same of a compressed file, whose beginning has the time at which it was written.
    head = gzip.compress(b'{"text": "%s"}\n' % (b"word " * 100_000), 1, mtime=0)[:512]
    times = (time.to_bytes(4, "little") for time in range(1_790_000_000, 1_790_005_000))
    assert not any(is_header(head[:4] + time + head[8:]) for time in times)
