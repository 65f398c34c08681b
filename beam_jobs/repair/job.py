"""The options of the build of a set, and the content of a new build.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from beam_jobs.like import options_of_config
from beam_jobs.options import OPTIONS, PreprocessOptions
from beam_jobs.record_types import RECORD_TYPES
from foundation import storage
from foundation.options import declared, has_type, with_absolute_paths
from foundation.storage import Place
from shard_format import Manifest, ShardmillError, load_build, naming
from shard_format.expected_files import whole_build

# The manifest has the hash of a tokenizer and the applied cleaning steps, not the given options.
_REPLACED = {"clean", "tokenizer"}


def job_of(
    directory: Place, manifest: Manifest | None, sources: Sequence[str]
) -> PreprocessOptions | None:
    """Returns the options that a set was built with; None if they are unknown.

    Args:
        directory: Directory of the set.
        manifest: Manifest of the set; None if it is damaged, and then build.json must be whole.
        sources: Current paths of the corpus; empty if it has not moved.
    """
    saved = load_build(directory).get("options")
    given: list[Mapping[str, Any]] = [saved] if isinstance(saved, dict) else []
    if manifest is None:
        given = given if whole_build(directory) else []
    else:
        before = given[0] if given else {}
        given += [_as_in(manifest, before), _as_in(manifest, options_of_config(manifest.config))]
        sources = sources or tuple(before.get("sources") or ())
    for values in given:
        job = _job(values, directory, sources)
        if job is not None and (manifest is None or _agrees(job, manifest)):
            return job
    return None


def _as_in(manifest: Manifest, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options, such as those of another set, overridden by those in the manifest."""
    own = dict(values)
    for name, value in manifest.config.items():
        if name == "split" and isinstance(value, dict):
            value = ",".join(f"{split}={share!r}" for split, share in value.items())
        if name in own and name not in _REPLACED:
            own[name] = str(value) if isinstance(own[name], str) and value is not None else value
    return own | {"name": manifest.name}


def _job(
    values: Mapping[str, Any], directory: Place, sources: Sequence[str]
) -> PreprocessOptions | None:
    kind = OPTIONS.get(str(values.get("record_type")))
    if kind is None:
        return None
    known = {field.name for field in dataclasses.fields(kind)}
    own: dict[str, Any] = {**kind.ADDED, **values}
    own = {name: value for name, value in own.items() if name in known}
    if not all(has_type(field, own.get(field.name, field.default)) for field in declared(kind)):
        return None  # a damaged build.json, or a manifest that no version wrote
    own["sources"] = tuple(sources or own.get("sources") or ())
    own["repaired"] = tuple(own.get("repaired") or ())
    own |= {"out": str(directory), "notes": (), "kept_out": ()}
    excluded = own.get("exclude_ids")
    if excluded and not storage.exists(storage.place_of(str(excluded))):
        own["exclude_ids"] = None
    if not own["sources"]:
        return None
    for name in naming.TOKENIZERS.values():
        given = own.get("tokenizer")
        if given and not storage.exists(storage.place_of(str(given))):
            if storage.stat(directory / name):
                own["tokenizer"] = str(directory / name)  # its copy: the original is gone
    staging = own.get("staging")
    # A folder without units is none: nothing is made in one that a build.json happens to name.
    if staging and not storage.is_folder(storage.place_of(str(staging)) / "units"):
        own["staging"] = None
    try:
        return with_absolute_paths(kind(**own))
    except (ShardmillError, TypeError, ValueError, AttributeError):
        return None


def _agrees(job: PreprocessOptions, manifest: Manifest) -> bool:
    """Returns whether options, such as those of a damaged build.json, are those in the manifest."""
    try:
        config = job.config() | RECORD_TYPES[job.record_type](job).config()
    except (ShardmillError, OSError):
        return False
    return job.name == manifest.name and all(
        manifest.config.get(name, value) == value
        for name, value in config.items()
        if name not in _REPLACED or name == "clean"
    )


def build_again(job: PreprocessOptions, build_id: str) -> dict[str, Any]:
    """Returns the content of a build.json without times and versions, which only the lost one had.

    Args:
        job: Options of the build, with the current paths of its sources.
        build_id: Id of these sources and options, so that the same command finds the set built.
    """
    return {"build_id": build_id, "options": dataclasses.asdict(job), "repaired": True}
