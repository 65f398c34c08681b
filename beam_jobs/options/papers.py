"""License, citation and card of a set: what --license, --citation and --card may be.

A card is YAML, JSON, or Markdown with YAML between two lines of three hyphens before it, as the
Hugging Face Hub has it. Its fields are those of `shard_format.papers.CARD_FIELDS`.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from foundation import storage
from foundation.extras import naming_extras
from foundation.wording import did_you_mean
from shard_format import UsageError
from shard_format.papers import AGENT_FIELDS, AGENTS, BODY, CARD_FIELDS, DATE, DATES, SPDX, URL

_SPDX_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_WEB_URL = re.compile(r"https?://[^\s/]+\S*")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_VERSION = re.compile(r"\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?")  # as mlcroissant takes it
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_FILE_NAME = re.compile(r"\S+\.(bib|cff|md|txt)")  # which a citation never is
_MOST_BYTES = 1 << 20  # of a card or a citation
_MOST_PATH = 4096  # bytes of a path; a longer citation is no file
# Names that cards of the Hub have for these fields.
_OTHER_NAMES = {
    "creator": "creators",
    "language": "languages",
    "pretty_name": "title",
    "tags": "keywords",
}
_RIGHTS = ("license", "citation")  # which have options of their own
_AGENT_TYPES = ("person", "organization")


def read_papers(license: str | None, citation: str | None, card: str | None) -> dict[str, Any]:
    """The papers that the options give; of what a card says too, the options win.

    Raises:
        UsageError: A value is malformed, or a file cannot be read.
    """
    papers = read_card(card) if card is not None else {}
    if license is not None:
        papers["license"] = license_url("--license", license)
    if citation is not None:
        papers["citation"] = _citation(citation)
    return papers


def license_url(flag: str, text: str) -> str:
    """The URL of a license: of an SPDX identifier that at spdx.org.

    Raises:
        UsageError: It is neither.
    """
    if _SPDX_ID.fullmatch(text) and not text.startswith("LicenseRef-"):
        return SPDX + text
    if _WEB_URL.fullmatch(text):
        return text
    raise UsageError(
        f"{flag} is {text!r}, neither an identifier of SPDX (https://spdx.org/licenses) such as "
        "CC-BY-4.0 nor a URL. Of several licenses, or your own, pass the URL of a page with them."
    )


def _citation(text: str) -> str:
    """The content of a file of this name, or the text itself."""
    is_short = len(text.encode(errors="replace")) < _MOST_PATH
    if is_short and not re.search(r"[\n\0]|https?://", text):
        if storage.stat(storage.place_of(text)) is not None or _FILE_NAME.fullmatch(text):
            text = _read("--citation", text)
    if not text.strip():
        raise UsageError("--citation is empty. Write a text, or leave it out.")
    return _checked(text.strip(), "--citation")


def _read(flag: str, path: str) -> str:
    try:
        place = storage.place_of(path)
        stat = storage.stat(place)
        if stat is not None and stat.size > _MOST_BYTES:
            raise UsageError(f"{flag} {path} has {stat.size:,} bytes, at most 1 MiB. Shorten it.")
        return storage.read_bytes(place).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise UsageError(
            f"{flag} {path} cannot be read: {error.strerror or error}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{flag} {path} is not UTF-8 at byte {error.start}. Save it as UTF-8."
        ) from error


def read_card(path: str) -> dict[str, Any]:
    """The papers in a card.

    Raises:
        UsageError: It cannot be read, or a field is unknown or has a wrong value.
    """
    where = f"--card {path}"
    text = _read("--card", path)
    body = ""
    if path.endswith(".json"):
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{where} is not JSON: {error}. Correct it.") from error
    elif path.endswith((".yaml", ".yml")):
        fields = _parse_yaml(text, where)
    elif match := _FRONT_MATTER.match(text):
        fields, body = _parse_yaml(match[1], where), match[2].strip()
    else:
        fields, body = {}, text.strip()
    fields = {} if fields is None else fields
    if not isinstance(fields, dict):
        raise UsageError(f"{where} has no fields: write lines such as 'description: ...'.")
    papers = _fields(fields, where)
    if body:
        papers.setdefault("card", {})[BODY] = _checked(body, where)
    if not papers:
        raise UsageError(f"{where} is empty. Write lines such as 'description: ...'.")
    return papers


def _parse_yaml(text: str, where: str) -> Any:
    with naming_extras():
        import yaml  # takes a while, and few jobs need it
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = re.sub(r"\s+", " ", str(error))
        raise UsageError(
            f"{where} is not YAML: {reason}. Put texts with ': ' or ' #' in quotes."
        ) from error


def _fields(fields: Mapping[Any, Any], where: str) -> dict[str, Any]:
    papers: dict[str, Any] = {}
    card: dict[str, Any] = {}
    for key, value in fields.items():
        name = str(key).replace("-", "_")
        name = _OTHER_NAMES.get(name, name)
        at = f"{key!r} in {where}"
        if name not in CARD_FIELDS and name not in _RIGHTS:
            names = [*CARD_FIELDS, *_RIGHTS]
            near = did_you_mean(name, names)
            raise UsageError(f"Unknown field {at}. {near}Fields: {', '.join(names)}.")
        if name in card or name in papers:
            raise UsageError(f"{at} is there twice, by two names. Remove one.")
        if value is None:
            continue
        if name == "license":
            papers[name] = license_url(at, _text(value, at))
        elif name == "citation":
            papers[name] = _text(value, at)
        else:
            card[name] = _value(name, value, at)
    return papers | ({"card": card} if card else {})


def _value(name: str, value: Any, at: str) -> Any:
    field = CARD_FIELDS[name]
    if not field.is_list:
        return _one(name, field.kind, value, at)
    values = value if isinstance(value, list) else [value]
    return [_one(name, field.kind, one, at) for one in values]


def _one(name: str, kind: str, value: Any, at: str) -> Any:
    if kind == AGENTS:
        return _agent(value, at)
    if kind in (DATE, DATES):
        return _date(value, at)
    text = _text(value, at)
    if kind == URL and not _URL.fullmatch(text):
        raise UsageError(f"{at} is {text!r}, not a URL. Write for instance https://example.org/x.")
    if name == "version" and not _VERSION.fullmatch(text):
        raise UsageError(f"{at} is {text!r}. Write three numbers, such as 1.0.0.")
    return text


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{at} is {value!r}, not a text. Put it in quotes, or write a text.")
    text = value.strip()
    if not text:
        raise UsageError(f"{at} is empty. Write a text, or remove the field.")
    return _checked(text, at)


def _checked(text: str, at: str) -> str:
    """The text, if it can be stored: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{at} is not Unicode at character {error.start}. Correct it.") from None
    return text


def _date(value: Any, at: str) -> str:
    if isinstance(value, datetime.date):  # or a time: YAML has both
        return value.isoformat()
    text = _text(value, at)
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{at} is {text!r}, not a date. Write one as 2026-05-31.") from None
    return text


def _agent(value: Any, at: str) -> dict[str, str]:
    if isinstance(value, str):
        return {"name": _text(value, at)}
    if not isinstance(value, dict) or "name" not in value:
        raise UsageError(f"{at} is {value!r}. Write a name, or {', '.join(AGENT_FIELDS)} of each.")
    return dict(_agent_fields(value, at))


def _agent_fields(value: Mapping[Any, Any], at: str) -> Iterator[tuple[str, str]]:
    for key, part in value.items():
        if key not in AGENT_FIELDS:
            raise UsageError(f"Unknown {key!r} of {at}. Choices: {', '.join(AGENT_FIELDS)}.")
        text = _text(part, f"{key!r} of {at}")
        if key == "type" and text not in _AGENT_TYPES:
            raise UsageError(f"The type of {at} is {text!r}. Choices: {', '.join(_AGENT_TYPES)}.")
        yield key, text
