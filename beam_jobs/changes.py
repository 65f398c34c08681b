"""What changed since an earlier build: its options, the versions of its code, and its files.

Two questions are answered. Which differences make a build another set than the one in OUT: from
build.json, which has the inputs of its build. And what a build stages anew: from a list of the
files, which each build leaves with the staged units.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_jobs.columns import BoolArray
from beam_jobs.corpus.names import prefixes
from beam_jobs.corpus.record import SourceItem
from beam_jobs.options import PreprocessOptions
from beam_jobs.staging.listed_items import listed_batches
from beam_jobs.workspace import Workspace, read_marker, write_marker
from foundation import storage
from foundation.options import flag_of
from foundation.storage import Place
from foundation.wording import counted, format_bytes
from shard_format import DamageError, file_sha256

_MOST_SOURCES = 100  # described one by one
_MOST_NAMES = 3  # of changed files, in a message
# Options that have an effect though `config` has none of their value: it has that of their file.
_OF_FILES = {"tokenizer", "decontaminate", "score", "name", "exclude_ids"}
_OF_FILES |= {"against", "against_action"}
_MOST_SHOWN = 120  # characters of two values
_MOST_COMPARED = 1 << 22  # items: more take too much memory
_STATES = pa.schema([pa.field("record_id", pa.string()), pa.field("state", pa.string())])
_FILE = r"(?s)^([^\x00]*\x00[^\x00]*)\x00.*$"  # in a state: size and time, before the label
EXCLUDED_KEY = "excluded"  # of the inputs: a digest of the ids of --exclude-ids
OTHERS_KEY = "against"  # of the inputs: what identifies each set of --against
_STAGE_OPTIONS, _COMMITS = b"stage_options", b"commits"  # in the metadata of a list of files


class SourceSummaries:
    """Number, bytes and digests of the items of every source, added in the order of the listing.

    Args:
        roots: See `summarized_roots`.
        id_prefix: What the ids of its records begin with, see --id-prefix.
    """

    def __init__(self, roots: Sequence[tuple[str, str]], id_prefix: str | None = None) -> None:
        self._roots = roots
        self._prefix = f"{id_prefix}/" if id_prefix else ""
        self._at = 0
        self._items = [0] * len(roots)
        self._bytes = [0] * len(roots)
        self._digests = [hashlib.blake2b(digest_size=8) for _ in roots]
        self._files = [hashlib.blake2b(digest_size=8) for _ in roots]  # names, sizes, times alone

    def add(self, item: SourceItem, identity: bytes) -> None:
        """Adds an item; the `identity` is what its unit's key is made of."""
        at, name = self._at, item.record_id.removeprefix(self._prefix)
        while at < len(self._roots) - 1 and not _is_below(name, self._roots[at][0]):
            at += 1
        if _is_below(name, self._roots[at][0]):
            self._at = at  # else it is a row of --labels without a file
        self._digests[at].update(identity)
        if item.path:
            self._items[at] += 1
            self._bytes[at] += item.size
            self._files[at].update(repr((name, item.size, item.mtime_ns)).encode())

    def described(self) -> list[dict[str, Any]]:
        """A dictionary of each source, in the order of their record ids."""
        amounts = zip(self._roots, self._items, self._bytes, strict=True)
        digests = zip(self._digests, self._files, strict=True)
        return [
            {
                "source": root,
                "items": items,
                "bytes": size,
                "digest": digest.hexdigest(),
                "files": files.hexdigest(),
            }
            for ((_, root), items, size), (digest, files) in zip(amounts, digests, strict=True)
        ]


def summarized_roots(sources: Sequence[str]) -> list[tuple[str, str]]:
    """(what record ids begin with, name) of each source of a job; one for all if they are many."""
    roots = prefixes([storage.place_of(source) for source in sources])
    if len(roots) > _MOST_SOURCES:
        return [("", f"{len(roots)} sources")]
    return [(prefix, str(root)) for prefix, root in roots]


def join_summaries(parts: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The summaries of the sources of a corpus, from those of its pieces in order."""
    joined = []
    for of_source in zip(*parts, strict=True):
        digests = {name: hashlib.blake2b(digest_size=8) for name in ("digest", "files")}
        for part in of_source:
            for name, digest in digests.items() if part["items"] else ():
                digest.update(bytes.fromhex(part[name]))
        amounts = {name: sum(part[name] for part in of_source) for name in ("items", "bytes")}
        hashes = {name: digest.hexdigest() for name, digest in digests.items()}
        joined.append({"source": of_source[0]["source"], **amounts, **hashes})
    return joined


def _is_below(record_id: str, prefix: str) -> bool:
    return record_id.startswith(prefix) or record_id == prefix.removesuffix("/")


def differences(
    build: Mapping[str, Any], inputs: Mapping[str, Any], options: PreprocessOptions
) -> list[str]:
    """Lines that say what differs between a set and a build; at least one.

    Args:
        build: The content of build.json of the set.
        inputs: Inputs of the new build, see `list_corpus`.
        options: Options of the new build.
    """
    before = build.get("inputs")
    before = before if isinstance(before, dict) else {}
    lines = list(_option_differences(build.get("options") or {}, before, inputs, options))
    lines += _version_differences(before.get("stage"), inputs["stage"])
    lines += _source_differences(
        before.get("sources"), inputs["sources"], build, options, explained=bool(lines)
    )
    if not lines and not before:
        return ["it was built from files with other names, sizes or modification times"]
    return lines or ["its options have another form"]


def _option_differences(
    saved: Mapping[str, Any],
    before: Mapping[str, Any],
    inputs: Mapping[str, Any],
    options: PreprocessOptions,
) -> Iterator[str]:
    now = json.loads(json.dumps(dataclasses.asdict(options)))
    without = options.without_effect() - _OF_FILES
    named = set()
    for field in dataclasses.fields(options):
        name = field.name
        then = saved.get(name, options.absent().get(name, field.default))
        if name in without or not saved or then == now[name]:
            continue
        named.add(name)
        yield f"{flag_of(name)}: {_shown(then)} then, {_shown(now[name])} now"
    if "exclude_ids" not in named and before.get(EXCLUDED_KEY) != inputs.get(EXCLUDED_KEY):
        yield f"--exclude-ids: {now['exclude_ids']} had other ids then"
    if "against" not in named and before.get(OTHERS_KEY) != inputs.get(OTHERS_KEY):
        yield f"--against: {now['against']} had other records then"
    config = json.loads(json.dumps(inputs["config"]))
    for name, value in (before.get("config") or config).items():
        if name not in named and config.get(name) != value and hasattr(options, name):
            yield f"{flag_of(name)}: {_shown(value)} then, {_shown(config.get(name))} now"


def _shown(value: object) -> str:
    if value is None or value is False:
        return "not given"
    return "given" if value is True else str(value)


def _version_differences(before: object, now: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(before, dict):
        return
    now = json.loads(json.dumps(now))
    if any(before.get(name) != now.get(name) for name in ("unit_version", "version", "kept")):
        yield "the code that stages records: of another version of shardmill"
    then, later = before.get("kernels"), now.get("kernels")
    if isinstance(then, list) and then != later:
        yield f"image libraries: {', '.join(then)} then, {', '.join(later or [])} now"
    then, later = (one if isinstance(one, dict) else {} for one in (then, later))
    for name in sorted(then.keys() | later.keys()):
        if then.get(name) != later.get(name):
            yield f"{name}: {_shown(then.get(name))} then, {_shown(later.get(name))} now"


def _source_differences(
    before: object,
    now: Sequence[Mapping[str, Any]],
    build: Mapping[str, Any],
    options: PreprocessOptions,
    *,
    explained: bool,
) -> Iterator[str]:
    """What differs between the sources.

    Args:
        before: As the set has them in build.json.
        now: As they are listed.
        build: The content of build.json.
        options: Options of the new build.
        explained: Whether an option differs, which may give the same files other labels.
    """
    if not isinstance(before, list):
        saved = (build.get("options") or {}).get("sources")
        if saved and list(saved) != list(options.sources):
            yield f"SRC: {', '.join(saved)} then, {', '.join(options.sources)} now"
        return
    names, commits = storage.unpinned(one["source"] for one in before)
    new_names, new_commits = storage.unpinned(one["source"] for one in now)
    then = dict(zip(names, before, strict=True))
    later = dict(zip(new_names, now, strict=True))
    if sorted(one["digest"] for one in before) == sorted(one["digest"] for one in now):
        return  # at another place, perhaps
    yield from _moved(commits, new_commits)
    for source in sorted(then.keys() - later.keys()):
        yield f"{source}: {_amount(then[source])} then, not a source now"
    for source in sorted(later.keys() - then.keys()):
        yield f"{source}: {_amount(later[source])}, not a source then"
    for source in sorted(then.keys() & later.keys()):
        old, new = then[source], later[source]
        if old["digest"] == new["digest"]:
            continue
        if (old["items"], old["bytes"]) != (new["items"], new["bytes"]):
            yield f"{source}: {_amount(old)} then, {_amount(new)} now"
        elif old.get("files", "") not in ("", new["files"]):
            yield f"{source}: {_amount(new)}, with other names or modification times"
        elif not explained:
            changed = "labels, groups or splits"
            changed = changed if "files" in old else f"names, modification times, {changed}"
            yield f"{source}: {_amount(new)}, with other {changed}"


def _moved(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The datasets at hf:// that are read at another commit."""
    for dataset in sorted(then.keys() & now.keys()):
        if then[dataset] != now[dataset]:
            yield f"{dataset} is at commit {now[dataset]}, {then[dataset]} then"


def _amount(source: Mapping[str, Any]) -> str:
    return f"{counted(source['items'], 'file')} of {format_bytes(source['bytes'])}"


def note_changes(
    workspace: Workspace,
    sources: Sequence[str],
    stage_options: Mapping[str, Any],
    keys: Sequence[str],
    items: int,
) -> str:
    """Says what is staged anew because it changed, and leaves a list of files for the next build.

    Args:
        workspace: The build; its listing and its units are written.
        sources: Sources of the job.
        stage_options: What decides how a record is staged.
        keys: Keys of all units.
        items: Rows of the listing.

    Returns:
        A line for the user; "" if nothing changed, or if nothing was staged before.
    """
    names, commits = list(sources), dict[str, str]()
    if storage.HUB in "".join(sources):
        names, commits = storage.unpinned(sources)
    name = hashlib.blake2b("\0".join(names).encode(), digest_size=8).hexdigest()
    place, marker = (workspace.units / f"listed-{name}.{suffix}" for suffix in ("files", "sha256"))
    if items > _MOST_COMPARED:  # nor would the next build look at a list of them
        storage.delete(marker)
        return ""
    said, before = "", _listed_before(workspace, place, marker)
    if before is not None:
        states = map(_states, listed_batches(workspace))
        now = pa.concat_tables([_STATES.empty_table(), *states])
        moved = _moved(json.loads((before.schema.metadata or {}).get(_COMMITS, b"{}")), commits)
        said = _said(before, now, stage_options, moved, _missing(workspace, keys), len(keys))
    metadata = {_STAGE_OPTIONS: json.dumps(stage_options), _COMMITS: json.dumps(commits)}
    with (
        workspace.write_arrow(place) as sink,
        pa.ipc.new_file(sink, _STATES.with_metadata(metadata)) as writer,
    ):
        for batch in listed_batches(workspace):
            writer.write_table(_states(batch))
    write_marker(workspace, marker, file_sha256(place))
    return said


def _listed_before(workspace: Workspace, place: Place, marker: Place) -> pa.Table | None:
    """The list of files that a build has left; None if there is none, or it is damaged."""
    sha256 = read_marker(marker)
    try:
        return workspace.read_checked(place, sha256) if isinstance(sha256, str) else None
    except (FileNotFoundError, DamageError):
        return None


def _states(items: pa.Table) -> pa.Table:
    """One row for each item: its id, and what else its unit depends on."""
    state = pc.binary_join_element_wise(
        items["size"].cast(pa.string()),
        items["mtime_ns"].cast(pa.string()),
        pc.fill_null(items["label"], ""),
        items["reason"],
        "\0",
    )
    return pa.table([items["record_id"], state], schema=_STATES)


def _missing(workspace: Workspace, keys: Sequence[str]) -> int:
    """How many units are not staged yet."""
    staged = {entry.name for entry in storage.list_folder(workspace.units)}
    return sum(f"{key}.json" not in staged for key in keys)


def _said(
    before: pa.Table,
    now: pa.Table,
    stage_options: Mapping[str, Any],
    moved: Iterable[str],
    missing: int,
    units: int,
) -> str:
    metadata = before.schema.metadata or {}
    then = json.loads(metadata.get(_STAGE_OPTIONS, b"{}"))
    later = json.loads(json.dumps(stage_options))
    why = [*moved, *_version_differences(then, later), *_stage_differences(then, later)]
    old, new = before["record_id"], now["record_id"]
    at = pc.index_in(new, value_set=old.combine_chunks())
    known = np.asarray(pc.is_valid(at))
    states = before["state"].take(at.filter(pa.array(known)))
    now_states = now["state"].filter(pa.array(known))
    differs = np.zeros(len(now), bool)
    differs[known] = np.asarray(pc.not_equal(states, now_states))
    files = (pc.replace_substring_regex(one, _FILE, r"\1") for one in (states, now_states))
    relabelled = np.zeros(len(now), bool)
    relabelled[known] = np.asarray(pc.equal(*files))
    relabelled &= differs
    gone = ~np.asarray(pc.is_in(old, value_set=new.combine_chunks()))
    why += [
        f"{counted(int(which.sum()), 'file')} {what} ({_names(names, which)})"
        for what, names, which in (
            ("changed", new, differs & ~relabelled),
            ("with other labels or reasons of rejection", new, relabelled),
            ("added", new, ~known),
            ("removed", old, gone),
        )
        if which.any()
    ]
    if not why:
        return ""
    return f"{missing:,} of {units:,} units are staged anew: {'; '.join(why)}"


def _stage_differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    names = sorted(then.keys() | now.keys())
    others = {"unit_version", "version", "kernels"}
    for name in names:
        if name not in others and then.get(name) != now.get(name):
            old, new = (json.dumps(one.get(name)) for one in (then, now))
            short = len(old) + len(new) <= _MOST_SHOWN
            yield f"{name} {old} then, {new} now" if short else f"{name} differs"


def _names(names: pa.ChunkedArray, which: BoolArray) -> str:
    shown = names.filter(pa.array(which)).slice(0, _MOST_NAMES).to_pylist()
    more = ", ..." if int(which.sum()) > _MOST_NAMES else ""
    return ", ".join(os.fspath(name) for name in shown) + more
