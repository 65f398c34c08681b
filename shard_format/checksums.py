"""Checksums of the files that no root hash covers: build.json, report.html and README.md.

Their content is not a function of the records, so the manifest does not name them. Each has the
SHA-256 of its own other bytes, and says to which manifest it belongs. A further file of checksums
would not match after a crash between the two writes; a file that contains its checksum appears
whole. Files of earlier versions have no checksum and pass.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from foundation import storage
from foundation.storage import Place
from shard_format import naming
from shard_format.manifest import Manifest
from shard_format.manifest_file import parse_build
from shard_format.manifest_types import WrongType

_BUILD_END = re.compile(rb'(.*), "sha256": "([0-9a-f]{64})"\}', re.DOTALL)
_OWN_KEYS = {"root_hash", "manifest_sha256", "sha256"}  # of build.json
_REPORT_SUM = re.compile(rb'(<meta name="shardmill-sha256" content=")([0-9a-f]{64})(">)')
_REPORT_SET = re.compile(rb'<meta name="shardmill-root-hash" content="([0-9a-f]{64})">')
_CARD_END = re.compile(rb"<!-- shardmill: root-hash ([0-9a-f]{64}) sha256 ([0-9a-f]{64}) -->\n")
_NO_SUM = "0" * 64  # in place of the checksum of a page while that is computed


class CheckedBuild(NamedTuple):
    """What build.json says.

    Attributes:
        problem: Why it is damaged; "" if it is not.
        has_checksum: Whether its bytes match a checksum at its end.
        content: Its JSON object; empty if it is none.
    """

    problem: str
    has_checksum: bool
    content: dict[str, Any]


def build_text(content: Mapping[str, Any], manifest: Manifest) -> bytes:
    """The bytes of build.json: the content, the manifest it belongs to, its own checksum."""
    text = manifest.to_text().encode()
    named = {"root_hash": manifest.root_hash, "manifest_sha256": _sha256(text)}
    others = {name: value for name, value in content.items() if name not in _OWN_KEYS}
    whole = json.dumps({**others, **named})
    return f'{whole[:-1]}, "sha256": "{_sha256(whole.encode())}"}}'.encode()


def check_build(data: bytes) -> CheckedBuild:
    """Compares the bytes of a build.json with the checksum at their end."""
    match = _BUILD_END.fullmatch(data)
    problem, content = "", {}
    try:
        content = parse_build(data)
    except WrongType as error:
        problem = f"is not a build.json: {error}"
    if match is not None and _sha256(match[1] + b"}") != match[2].decode():
        problem = "does not match the checksum at its end"
    elif not problem and match is None and _OWN_KEYS & content.keys():
        problem = "does not end with its checksum"
    elif not problem and match is not None and not content.keys() >= _OWN_KEYS:
        problem = "does not say which set it belongs to"
    return CheckedBuild(problem, match is not None and not problem, content)


def whole_build(directory: Place) -> dict[str, Any]:
    """The content of a build.json that matches its checksum; empty if there is none."""
    try:
        build = check_build(storage.read_bytes(directory / naming.BUILD))
    except OSError:
        return {}
    return build.content if build.has_checksum else {}


def report_names(root_hash: str) -> dict[str, str]:
    """The content by name of the <meta> elements that a page is rendered with."""
    return {"shardmill-root-hash": root_hash, "shardmill-sha256": _NO_SUM}


def report_text(page: str) -> bytes:
    """The bytes of report.html: a page with `report_names`, and its checksum in one of them."""
    text = page.encode()
    return _REPORT_SUM.sub(rb"\g<1>" + _sha256(text).encode() + rb"\g<3>", text, count=1)


def described_set(data: bytes) -> str:
    """The root hash in the bytes of a report.html; "" if they do not match their checksum."""
    of_set = _REPORT_SET.search(data)
    root_hash = of_set[1].decode() if of_set is not None else ""
    return "" if report_problem(data, root_hash, needs_checksum=True) else root_hash


def report_problem(data: bytes, root_hash: str, *, needs_checksum: bool) -> str:
    """Why the bytes of a report.html are damaged; "" if they are not.

    Args:
        data: The bytes.
        root_hash: Root hash of the set.
        needs_checksum: Whether the build is of a version that writes one.
    """
    of_sum, of_set = _REPORT_SUM.search(data), _REPORT_SET.search(data)
    if of_sum is None or of_set is None:
        return "has no checksum" if needs_checksum or of_sum or of_set else ""
    unsigned = data[: of_sum.start(2)] + _NO_SUM.encode() + data[of_sum.end(2) :]
    if _sha256(unsigned) != of_sum[2].decode():
        return "does not match the checksum in it"
    if of_set[1].decode() != root_hash:
        return f"is the report of another set, with root hash {of_set[1].decode()}"
    return ""


def card_text(page: str, root_hash: str) -> bytes:
    """The bytes of README.md: a page, and in its last line the set and the checksum."""
    text = page.encode()

    def ending(sha256: str) -> bytes:
        return f"<!-- shardmill: root-hash {root_hash} sha256 {sha256} -->\n".encode()

    return text + ending(_sha256(text + ending(_NO_SUM)))


def card_set(data: bytes) -> str:
    """The root hash in the bytes of a README.md; "" if they are not as shardmill wrote them."""
    begin = data.rfind(b"<!--")
    match = _CARD_END.fullmatch(data, max(begin, 0))
    if match is None:
        return ""
    unsigned = data[: match.start(2)] + _NO_SUM.encode() + data[match.end(2) :]
    return match[1].decode() if _sha256(unsigned) == match[2].decode() else ""


def has_own_card(directory: Place) -> bool:
    """Whether a set has a README.md as shardmill wrote it, of this build or another."""
    try:
        return card_set(storage.read_bytes(directory / naming.CARD)) != ""
    except OSError:
        return False


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
