"""A record id is a safe form of a name, from which the name can be made again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_jobs.corpus.names import member_name, original_name, readable_name, shown_name

PART = st.one_of(
    st.binary(min_size=1, max_size=12).filter(lambda part: not set(part) & {0, ord("/")}),
    st.sampled_from([b"..", b"x2e", b"x2f", b"...", b"a", "é".encode(), b"\xff\xfe"]),
)


@given(PART)
def test_a_file_name_is_made_again(name):
    assert original_name(readable_name(name)) == name


@given(st.lists(PART.filter(lambda part: part != b"."), min_size=1, max_size=5), st.booleans())
def test_a_member_name_is_made_again(parts, is_absolute):
    name = b"/" * is_absolute + b"/".join(parts)
    safe = member_name(name)
    assert original_name(safe) == name
    assert original_name(f"a.tar/{safe}") == b"a.tar/" + name
    assert ".." not in safe.split("/") and (safe[:1] != "/" or safe.startswith("//x"))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"../../a.txt", "../../a.txt"),
        (b"/etc/passwd", "/etc/passwd"),
        (b"a\xff\x1b[31m/\xe2\x80\xaeb", r"a\xff\x1b[31m/\u202eb"),
        ("日本".encode(), "日本"),
    ],
)
def test_shown_names_are_those_of_the_archive_and_safe(name, shown):
    assert shown_name(member_name(name)) == shown
    assert shown_name(f"{member_name(name)}//2") == f"{shown}//2"  # the second of this name
